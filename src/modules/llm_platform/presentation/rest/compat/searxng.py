"""The API of SearXNG below a prefix: its parameters and its JSON (docs/reference/compatible-apis.md).

Reference of the project: https://docs.searxng.org/dev/search_api.html
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope

from modules.llm_platform.presentation.rest.compat.dialect import Dialect, Example, error_responses
from modules.llm_platform.presentation.rest.http.access import Headers
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.openapi import body_of
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, InvalidRequestError
from modules.llm_platform.presentation.rest.search_routes import PASS_THROUGH, search_by_body, search_passed_through
from modules.llm_platform.presentation.rest.searxng_shape import SearchApiRequest, SearxngAnswer, from_query
from shared.exceptions import AppException

router = APIRouter(prefix="/searxng", tags=["compatible"])


@router.get("", include_in_schema=False)  # LangChain appends the query string to the address that it is given
@router.get("/", include_in_schema=False)
@router.get(
    "/search",
    summary="Search, for clients of SearXNG",
    response_model=SearxngAnswer,
    responses=error_responses(422, *UPSTREAM_STATUSES),
    openapi_extra=PASS_THROUGH,
)
async def search(request: Request) -> Response:
    wanted = request.query_params.get("format", "json")
    if wanted != "json":
        raise InvalidRequestError([{"loc": ["query", "format"], "msg": "must be json", "type": "unsupported"}])
    return await search_passed_through(request, validate(SearchApiRequest, from_query(request.query_params), "query"))


router.add_api_route("/", search_by_body, methods=["POST"], include_in_schema=False)
router.add_api_route(
    "/search",
    search_by_body,
    methods=["POST"],
    summary="Search, for clients of SearXNG",
    response_model=SearxngAnswer,
    responses=error_responses(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=body_of(SearchApiRequest, form=PASS_THROUGH),
)


async def _find_key(scope: Scope, headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    """Return the password of `Authorization: Basic`, which clients send for http://user:KEY@host/searxng."""
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"basic":
        return b"", receive
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2], receive
    except binascii.Error:
        return b"", receive


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, {"error": problem["detail"], **problem}


_RESULT: Final = {"title": "Tea", "url": "https://example.org/tea", "content": "Tea is a drink.", "engine": "wikipedia"}
_ANSWER: Final[Mapping[str, Any]] = {
    "query": "What is tea?",
    "number_of_results": 1,
    "results": [_RESULT],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": [],
    "unresponsive_engines": [],
}
DIALECT: Final = Dialect(
    prefix="/searxng",
    router=router,
    examples={
        ("get", "/searxng/search"): Example(_ANSWER, parameters={"q": "What is tea?"}),
        ("post", "/searxng/search"): Example(_ANSWER, {"q": "What is tea?"}),
    },
    format_error=_format_error,
    find_key=_find_key,
)
