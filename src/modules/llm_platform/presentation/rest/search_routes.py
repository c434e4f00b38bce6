"""Search over HTTP: in the platform's format (requirement WS7) and in that of SearXNG (requirements RB2 to RB4)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_PAGE,
    MAX_QUERY_CHARS,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.presentation.rest.http.body import read_body, validate
from modules.llm_platform.presentation.rest.http.openapi import body_of, query_of
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, problem_responses
from modules.llm_platform.presentation.rest.http.responses import (
    ANSWER,
    CancelOnDisconnect,
    excluded_fields,
    json_response,
    raw_json_response,
    services,
)
from modules.llm_platform.presentation.rest.searxng_shape import (
    SAFESEARCH,
    TIME_RANGE,
    SearchApiRequest,
    SearxngAnswer,
    from_form,
    from_query,
    to_searxng,
)

router = APIRouter(tags=["search"])


class WebSearchApiRequest(WebSearchRequest):
    """A web search; the fields of WebSearchRequest."""


class WebSearchApiResult(WebSearchResultItem):
    """One search result."""

    source: str | None = Field(default=None, exclude=True)
    score: float | None = Field(default=None, exclude=True)


class WebSearchApiResponse(WebSearchResponse):
    """The results, best first, with their provider and the providers that failed."""

    results: tuple[WebSearchApiResult, ...] = ()
    correction: str | None = Field(default=None, exclude=True)
    suggestions: tuple[str, ...] = Field(default=(), exclude=True)
    cached: bool = Field(default=False, exclude=True)
    sent_to: tuple[Sent, ...] = Field(default=(), exclude=True)
    raw: dict[str, Any] | None = Field(default=None, exclude=True)


HIDDEN_FIELDS: dict[str, Any] = {
    **excluded_fields(WebSearchApiResponse),
    "results": {"__all__": excluded_fields(WebSearchApiResult)},
}

PASS_THROUGH = query_of(
    q=(
        {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS},
        True,
        "The query, passed on to SearXNG with its bangs; `!!` is refused.",
    ),
    engines=({"type": "string"}, False, "Comma list of engine names."),
    categories=(
        {"type": "string"},
        False,
        "Comma list, passed on to SearXNG. Other providers support general, news and science.",
    ),
    page=(
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1},
        False,
        "Page; `pageno` is accepted too.",
    ),
    language=({"type": "string"}, False, "Language tag such as en or pt-BR; all: any language."),
    time_range=(TIME_RANGE, False, "Maximum age of the results."),
    safesearch=(SAFESEARCH, False, "0 off, 1 moderate, 2 strict; default: the setting of the server."),
)


@router.post(
    "/llm-platform/web-search",
    summary="Search the web",
    response_model=WebSearchApiResponse,
    responses=problem_responses(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=body_of(WebSearchApiRequest),
)
async def web_search(request: Request) -> Response:
    body = await read_body(request, WebSearchApiRequest)
    async with CancelOnDisconnect(request.receive):
        response = await services(request).web_search.search(body)
    request.scope[ANSWER] = response
    return json_response(response, exclude=HIDDEN_FIELDS)


@router.get(
    "/search",
    summary="Search in the format of SearXNG",
    response_model=SearxngAnswer,
    responses=problem_responses(422, *UPSTREAM_STATUSES),
    openapi_extra=PASS_THROUGH,
)
async def search_by_query(request: Request) -> Response:
    return await search_passed_through(request, validate(SearchApiRequest, from_query(request.query_params), "query"))


@router.post(
    "/search",
    summary="Search in the format of SearXNG",
    response_model=SearxngAnswer,
    responses=problem_responses(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=body_of(SearchApiRequest, form=PASS_THROUGH),
)
async def search_by_body(request: Request) -> Response:
    return await search_passed_through(request, await read_body(request, SearchApiRequest, from_form))


async def search_passed_through(request: Request, search: SearchApiRequest) -> Response:
    """Return the answer in the format of SearXNG."""
    async with CancelOnDisconnect(request.receive):
        response = await services(request).web_search.search(search)
    request.scope[ANSWER] = response
    return raw_json_response(to_searxng(response))
