"""The API of Tavily: search, with an answer on request, and extraction of pages (docs/reference/compatible-apis.md).

Reference of the vendor: https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, StrictBool
from pydantic_core import from_json
from starlette.types import Message, Receive, Scope

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.research_dtos import MAX_URLS, ResearchRequest
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.chat_completions import refused
from modules.llm_platform.presentation.rest.http.access import Headers
from modules.llm_platform.presentation.rest.http.body import read_body, receive_body_with_key, validate
from modules.llm_platform.presentation.rest.http.responses import request_id, run_research
from shared.exceptions import AppException

router = APIRouter(prefix="/tavily", tags=["compatible"])

MAX_RESULTS: Final = 20  # the vendor's limit
FIRST_DAY: Final = date(1970, 1, 1)  # of a range that has an end only: no page of the web is older
SOURCES: Final[Mapping[str, tuple[dtos.SourceKind, ...]]] = {"general": ("web",), "finance": ("web",), "news": ("news",)}


def _text_only(value: object) -> object:
    """Refuse a number, which pydantic would read as a time stamp."""
    if not isinstance(value, str):
        raise ValueError("must be a date such as 2026-03-31")
    return value


Day = Annotated[date, BeforeValidator(_text_only, json_schema_input_type=str)]
Domains = Annotated[tuple[dtos.Domain, ...], Field(max_length=dtos.MAX_DOMAINS)]


class TavilySearchRequest(dialect.DialectBody):
    """A search; `include_answer` adds a research run with the same filters, `advanced` a deep one."""

    query: dtos.Query
    api_key: str | None = Field(default=None, repr=False)
    topic: Literal["general", "news", "finance"] = "general"
    time_range: Literal["day", "week", "month", "year", "d", "w", "m", "y"] | None = None
    start_date: Day | None = None
    end_date: Day | None = None
    max_results: int = Field(default=5, ge=0, le=MAX_RESULTS, strict=True)
    include_domains: Domains | None = None
    exclude_domains: Domains | None = None
    include_answer: StrictBool | Literal["basic", "advanced"] = False
    include_raw_content: StrictBool | Literal["markdown", "text"] = False

    @property
    def range(self) -> dtos.TimeRange | None:
        """The time range by its whole name."""
        names: Mapping[str, dtos.TimeRange] = {"d": "day", "w": "week", "m": "month", "y": "year"}
        return names.get((self.time_range or "")[:1])

    @property
    def domains(self) -> tuple[str, ...]:
        return (*(self.include_domains or ()), *(f"-{domain}" for domain in self.exclude_domains or ()))


class TavilyExtractRequest(dialect.DialectBody):
    """One address or several."""

    urls: dialect.PageUrl | Annotated[tuple[dialect.PageUrl, ...], Field(min_length=1, max_length=MAX_URLS)]
    api_key: str | None = Field(default=None, repr=False)


class TavilySearchResponse(BaseModel):
    """The results, best first; `score` is 1 / place. `answer` has markers such as [1]: the number of a result."""

    query: str
    follow_up_questions: None
    answer: str | None
    images: list[str]
    results: list[dict[str, Any]]
    response_time: float
    request_id: str


class TavilyExtractResponse(BaseModel):
    """The pages that were read, and the others with the reason."""

    results: list[dict[str, Any]]
    failed_results: list[dict[str, Any]]
    response_time: float
    request_id: str


@router.post(
    "/search",
    **dialect.declaration(
        "Search, for clients of Tavily", TavilySearchRequest, TavilySearchResponse, dialect.ERROR_STATUSES_400
    ),
)
async def search(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilySearchRequest)
    answer, results = await (_answered(request, body) if body.include_answer else _searched(request, body))
    results = results[: body.max_results]
    if body.include_raw_content:
        await _add_pages(request, results)
    content = {
        "query": body.query,
        "follow_up_questions": None,
        "answer": answer,
        "images": [],
        "results": [{**result, "score": round(1 / place, 4)} for place, result in enumerate(results, 1)],
        **_footer(request, began),
    }
    partly_served = ("topic",) if body.topic == "finance" else ()
    return dialect.json_answer(content, body, *partly_served)


@router.post(
    "/extract",
    **dialect.declaration(
        "Read pages, for clients of Tavily", TavilyExtractRequest, TavilyExtractResponse, dialect.ERROR_STATUSES_400
    ),
)
async def extract(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilyExtractRequest)
    urls = (body.urls,) if isinstance(body.urls, str) else body.urls
    read = await dialect.read_pages(request, urls)
    failed = {url: page for url, page in read.items() if isinstance(page, AppException)}
    content = {
        "results": [
            {"url": url, "raw_content": page.text, "title": page.title, "images": []}
            for url, page in read.items()
            if not isinstance(page, AppException)
        ],
        "failed_results": [{"url": url, "error": error.message} for url, error in failed.items()],
        **_footer(request, began),
    }
    return dialect.json_answer(content, body)


async def _searched(request: Request, body: TavilySearchRequest) -> tuple[None, list[dict[str, Any]]]:
    found = await dialect.search_web(
        request,
        dtos.WebSearchRequest(
            query=body.query,
            count=max(1, body.max_results),
            sources=SOURCES[body.topic],
            time_range=body.range,
            freshness=_freshness(body),
            domains=body.domains,
        ),
    )
    return None, [_result(each.title, each.url, each.text, each.published_date) for each in found.results]


def _freshness(body: TavilySearchRequest) -> str | None:
    if body.start_date is None and body.end_date is None:
        return None
    end = body.end_date or date.today()  # noqa: DTZ011  # the day of the operator
    return f"{body.start_date or FIRST_DAY}..{end}"


async def _answered(request: Request, body: TavilySearchRequest) -> tuple[str, list[dict[str, Any]]]:
    """Return the answer of a research run and its numbered sources: [n] in the answer is result n."""
    if body.start_date or body.end_date:
        raise refused("include_answer", "dates are not supported with an answer: use time_range")
    values = {
        "query": body.query,
        "depth": "deep" if body.include_answer == "advanced" else "shallow",
        "sources": SOURCES[body.topic],
        "time_range": body.range,
        "domains": body.domains,
    }
    response = await run_research(request, validate(ResearchRequest, values, "body"))
    return response.synthesis, [
        _result(each.title, each.url, dialect.snippet_of(each, body.query), each.published)
        for each in response.raw_results or ()
    ]


async def _add_pages(request: Request, results: list[dict[str, Any]]) -> None:
    """Add the text of each page; null where it cannot be read."""
    read = await dialect.read_pages(request, [result["url"] for result in results])
    for result in results:
        page = read[result["url"]]
        result["raw_content"] = None if isinstance(page, AppException) else page.text


def _result(title: str, url: str, content: str, published: str | None) -> dict[str, Any]:
    return {"title": title, "url": url, "content": content, "raw_content": None, "published_date": published}


def _footer(request: Request, began: float) -> dict[str, Any]:
    return {"response_time": round(time.perf_counter() - began, 3), "request_id": request_id(request)}


async def _find_key(scope: Scope, headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    """Return `api_key` of the body, which older clients send instead of a header."""
    if b"authorization" in headers or b"x-api-key" in headers:
        return b"", receive
    body = await receive_body_with_key(receive, headers)

    async def receive_again() -> Message:
        nonlocal body
        sent, body = body, b""
        return {"type": "http.request", "body": sent, "more_body": False} if sent else await receive()

    try:
        value = from_json(body)
    except ValueError:
        return b"", receive_again
    key = value.get("api_key") if isinstance(value, dict) else None
    return (key.encode("utf-8", "replace") if isinstance(key, str) else b""), receive_again


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    errors = problem.get("errors") or ()
    fields = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in errors if each["loc"][1:]]
    return dialect.status_400(error), {"detail": {"error": "; ".join(fields) or problem["detail"]}}


DIALECT: Final = dialect.Dialect(
    prefix="/tavily",
    router=router,
    examples={
        ("post", "/tavily/search"): dialect.Example(
            {
                "query": "What is tea?",
                "follow_up_questions": None,
                "answer": None,
                "images": [],
                "results": [
                    {
                        "title": "Tea",
                        "url": "https://example.org/tea",
                        "content": "Tea is a drink.",
                        "raw_content": None,
                        "published_date": None,
                        "score": 1.0,
                    }
                ],
                "response_time": 0.42,
                "request_id": "3f2c8a5e",
            },
            {"query": "What is tea?", "max_results": 3},
        ),
        ("post", "/tavily/extract"): dialect.Example(
            {
                "results": [
                    {"url": "https://example.org/tea", "raw_content": "Tea is a drink.", "title": "Tea", "images": []}
                ],
                "failed_results": [],
                "response_time": 0.42,
                "request_id": "3f2c8a5e",
            },
            {"urls": ["https://example.org/tea"]},
        ),
    },
    format_error=_format_error,
    find_key=_find_key,
)
