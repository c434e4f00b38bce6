"""Search over HTTP: in the platform's format and in SearXNG's format."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.research.long_message import LONG_MESSAGE_ABOVE_CHARS, MAX_MESSAGE_CHARS
from modules.llm_platform.presentation.rest import searxng_shape
from modules.llm_platform.presentation.rest.http.body import read_body, validate
from modules.llm_platform.presentation.rest.http.disconnect import run_until_disconnect
from modules.llm_platform.presentation.rest.http.ignored_fields import tell_ignored_fields
from modules.llm_platform.presentation.rest.http.openapi import describe_body, describe_query
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.rest.http.responses import (
    find_excluded_fields,
    make_json_response,
    make_raw_json_response,
)

router = APIRouter(tags=["search"])


class WebSearchApiRequest(dtos.WebSearchRequest, frozen=True):
    """A web search with the fields of WebSearchRequest."""


class WebSearchApiResult(dtos.WebSearchResultItem, frozen=True):
    """One search result."""

    source: str | None = Field(default=None, exclude=True)
    score: float | None = Field(default=None, exclude=True)


class WebSearchApiResponse(dtos.WebSearchResponse, frozen=True):
    """The results, best first, with their provider and the providers that failed."""

    results: tuple[WebSearchApiResult, ...] = ()
    correction: str | None = Field(default=None, exclude=True)
    suggestions: tuple[str, ...] = Field(default=(), exclude=True)
    cached: bool = Field(default=False, exclude=True)
    sent_to: tuple[Sent, ...] = Field(default=(), exclude=True)
    raw: dict[str, Any] | None = Field(default=None, exclude=True)


HIDDEN_FIELDS: dict[str, Any] = {
    **find_excluded_fields(WebSearchApiResponse),
    "results": {"__all__": find_excluded_fields(WebSearchApiResult)},
}

PASS_THROUGH = describe_query(
    q=(
        {"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_CHARS},
        True,
        "The query, passed on to SearXNG with its bangs; `!!` is refused. "
        f"Of more than {LONG_MESSAGE_ABOVE_CHARS} characters, the question in it.",
    ),
    engines=({"type": "string"}, False, "Comma-separated list of engine names."),
    categories=(
        {"type": "string"},
        False,
        "Comma-separated list, passed on to SearXNG. Other providers support general, news and science.",
    ),
    page=(
        {"type": "integer", "minimum": 1, "maximum": dtos.MAX_PAGE, "default": 1},
        False,
        "Page; `pageno` is accepted too.",
    ),
    language=({"type": "string"}, False, "Language tag such as en or pt-BR; all: any language."),
    time_range=(searxng_shape.TIME_RANGE, False, "Maximum age of the results."),
    safesearch=(searxng_shape.SAFESEARCH, False, "0 off, 1 moderate, 2 strict; default: the setting of the server."),
)


@router.post(
    "/llm-platform/web-search",
    summary="Search the web",
    response_model=WebSearchApiResponse,
    responses=declare_problems(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=describe_body(WebSearchApiRequest),
)
async def web_search(request: Request) -> Response:
    body = await read_body(request, WebSearchApiRequest)
    response = await search_web(request, body)
    return make_json_response(tell_ignored_fields(request, response), exclude=HIDDEN_FIELDS)


async def search_web(request: Request, search: dtos.WebSearchRequest) -> dtos.WebSearchResponse:
    return await run_until_disconnect(request, get_services(request).web_search.search(search))


@router.get(
    "/search",
    summary="Search in the format of SearXNG",
    response_model=searxng_shape.SearxngAnswer,
    responses=declare_problems(422, *UPSTREAM_STATUSES),
    openapi_extra=PASS_THROUGH,
)
async def search_by_query(request: Request) -> Response:
    return await search_passed_through(
        request, validate(searxng_shape.SearchApiRequest, searxng_shape.from_query(request.query_params), "query")
    )


@router.post(
    "/search",
    summary="Search in the format of SearXNG",
    response_model=searxng_shape.SearxngAnswer,
    responses=declare_problems(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=describe_body(searxng_shape.SearchApiRequest, form=PASS_THROUGH),
)
async def search_by_body(request: Request) -> Response:
    return await search_passed_through(
        request, await read_body(request, searxng_shape.SearchApiRequest, searxng_shape.from_form)
    )


async def search_passed_through(request: Request, search: searxng_shape.SearchApiRequest) -> Response:
    return make_raw_json_response(searxng_shape.to_searxng(await search_web(request, search)))
