"""Search over HTTP: in our shape (requirement WS7) and in SearXNG's (requirements RB2 to RB4)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_PAGE,
    MAX_QUERY_CHARS,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.presentation.rest.body import checked, read_body
from modules.llm_platform.presentation.rest.openapi import body_of, query_of
from modules.llm_platform.presentation.rest.problems import GUARDED, PROVIDER, WITH_BODY, documented
from modules.llm_platform.presentation.rest.responses import json_answer, raw_answer, services
from modules.llm_platform.presentation.rest.searxng_shape import (
    SAFESEARCH,
    TIME_RANGE,
    SearchApiRequest,
    SearxngAnswer,
    from_form,
    from_query,
    to_searxng,
)
from modules.llm_platform.presentation.rest.sse import CancelOnDisconnect

router = APIRouter(tags=["search"])


class WebSearchApiRequest(WebSearchRequest):
    """A web search; the fields of WebSearchRequest."""


class WebSearchApiResult(WebSearchResultItem):
    """One hit."""

    source: str | None = Field(default=None, exclude=True)
    score: float | None = Field(default=None, exclude=True)


class WebSearchApiResponse(WebSearchResponse):
    """What was found, best first, by whom, and who could not look."""

    results: tuple[WebSearchApiResult, ...] = ()
    correction: str | None = Field(default=None, exclude=True)
    suggestions: tuple[str, ...] = Field(default=(), exclude=True)
    cached: bool = Field(default=False, exclude=True)
    raw: dict[str, Any] | None = Field(default=None, exclude=True)


# What the API model leaves out, told to the serializer of the DTO: nothing is copied or validated again.
LEFT_OUT: dict[str, Any] = {
    **{name: True for name, field in WebSearchApiResponse.model_fields.items() if field.exclude},
    "results": {"__all__": {name for name, field in WebSearchApiResult.model_fields.items() if field.exclude}},
}

PASS_THROUGH = query_of(
    q=(
        {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS},
        True,
        "The query, passed on with its bangs; `!!` is refused.",
    ),
    engines=({"type": "string"}, False, "Comma list of engine names."),
    categories=({"type": "string"}, False, "Comma list, passed on to SearXNG. Others know general, news, science."),
    page=({"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1}, False, "Page; `pageno` is read too."),
    language=({"type": "string"}, False, "Language tag such as en or pt-BR; all: none in particular."),
    time_range=(TIME_RANGE, False, "How far back."),
    safesearch=(SAFESEARCH, False, "0 off, 1 moderate, 2 strict; default: the server's setting."),
)


@router.post(
    "/llm-platform/web-search",
    summary="Search the web",
    response_model=WebSearchApiResponse,
    responses=documented(*GUARDED, *WITH_BODY, *PROVIDER),
    openapi_extra=body_of(WebSearchApiRequest),
)
async def web_search(request: Request) -> Response:
    asked = await read_body(request, WebSearchApiRequest)
    async with CancelOnDisconnect(request.receive):
        found = await services(request).web_search.search(asked)
    return json_answer(found, exclude=LEFT_OUT)


@router.get(
    "/search",
    summary="Search as SearXNG does",
    response_model=SearxngAnswer,
    responses=documented(*GUARDED, 422, *PROVIDER),
    openapi_extra=PASS_THROUGH,
)
async def search_by_query(request: Request) -> Response:
    return await _pass_through(request, checked(SearchApiRequest, from_query(request.query_params), "query"))


@router.post(
    "/search",
    summary="Search as SearXNG does",
    response_model=SearxngAnswer,
    responses=documented(*GUARDED, *WITH_BODY, *PROVIDER),
    openapi_extra=body_of(SearchApiRequest, form=PASS_THROUGH),
)
async def search_by_body(request: Request) -> Response:
    return await _pass_through(request, await read_body(request, SearchApiRequest, from_form))


async def _pass_through(request: Request, asked: SearchApiRequest) -> Response:
    async with CancelOnDisconnect(request.receive):
        found = await services(request).web_search.search(asked)
    return raw_answer(to_searxng(found))
