"""The custom retriever of GPT Researcher (docs/howto/use-existing-clients.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope

from modules.llm_platform.domain.dtos.web_search_dtos import MAX_COUNT, Query, WebSearchRequest
from modules.llm_platform.presentation.rest.compat.dialect import (
    Dialect,
    DialectBody,
    Example,
    error_responses,
    json_answer,
    search_web,
)
from modules.llm_platform.presentation.rest.http.access import Headers
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.openapi import query_of
from modules.llm_platform.presentation.rest.http.problems import UPSTREAM_STATUSES
from shared.exceptions import AppException

router = APIRouter(prefix="/gpt-researcher", tags=["compatible"])

API_KEY: Final = "api_key"  # RETRIEVER_ARG_API_KEY: the retriever sends no headers
MAX_PARAMETERS: Final = 20
DEFAULT_COUNT: Final = 10


class RetrieverQuery(DialectBody):
    """The query string of GPT Researcher: `query`, and what the variables `RETRIEVER_ARG_…` add to it."""

    query: Query
    count: int = Field(default=DEFAULT_COUNT, ge=1, le=MAX_COUNT)


class RetrievedPage(BaseModel):
    """One search result; `raw_content` is the text that the search provider gave for it."""

    url: str
    raw_content: str


@router.get(
    "",
    summary="Search, for GPT Researcher",
    response_model=list[RetrievedPage],
    responses=error_responses(422, *UPSTREAM_STATUSES),
    openapi_extra=query_of(
        query=({"type": "string"}, True, "What to search for."),
        count=({"type": "integer", "minimum": 1, "maximum": MAX_COUNT}, False, "How many results."),
    ),
)
async def retrieve(request: Request) -> Response:
    sent = {name: value for name, value in request.query_params.items() if name != API_KEY}
    query = validate(RetrieverQuery, sent, "query")
    found = await search_web(request, WebSearchRequest(query=query.query, count=query.count))
    results = [{"url": item.url, "raw_content": item.text} for item in found.results[: query.count]]
    return json_answer(results, query)


async def _find_key(scope: Scope, headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    try:
        parameters = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=MAX_PARAMETERS))
    except ValueError:
        return b"", receive
    return parameters.get(API_KEY, "").encode(), receive


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, problem


DIALECT: Final = Dialect(
    prefix="/gpt-researcher",
    router=router,
    examples={
        ("get", "/gpt-researcher"): Example(
            [{"url": "https://example.org/tea", "raw_content": "Tea is a drink."}],
            parameters={"query": "What is tea?", "count": 3},
        )
    },
    format_error=_format_error,
    find_key=_find_key,
)
