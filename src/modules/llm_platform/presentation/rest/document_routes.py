"""List the documents that this server searches, and the files that it cannot read (docs/howto/documents.md)."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from modules.llm_platform.domain.dtos.document_dtos import MAX_LISTED_DOCUMENTS, DocumentList
from modules.llm_platform.presentation.rest.http.problems import UPSTREAM_STATUSES, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.rest.http.responses import make_json_response

router = APIRouter(tags=["research"])

USUAL_LENGTH: Final = 200


@router.get(
    "/research/documents",
    summary="The documents that this server searches, and the files that it cannot read",
    response_model=DocumentList,
    responses=declare_problems(422, *UPSTREAM_STATUSES),
)
async def list_documents(
    request: Request, limit: Annotated[int, Query(ge=1, le=MAX_LISTED_DOCUMENTS)] = USUAL_LENGTH
) -> Response:
    return make_json_response(await get_services(request).list_documents(limit))
