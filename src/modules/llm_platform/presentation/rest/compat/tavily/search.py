"""Tavily's API: search, with an answer on request, and extraction of pages.

Reference of the vendor: https://docs.tavily.com/documentation/api-reference/endpoint/search
"""

import time
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, StrictBool

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.freshness import format_days
from modules.llm_platform.domain.dtos.request_dtos import MAX_URLS, MIN_QUESTION_CHARS
from modules.llm_platform.domain.research.long_message import LongQuery, find_question
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.tavily.shared import (
    TavilyBody,
    TavilyDomains,
    count_call,
    make_footer,
)
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.middleware import COUNT_REQUEST
from modules.llm_platform.presentation.rest.http.run_research import answer_message
from modules.llm_platform.presentation.rest.search_routes import search_web
from shared.exceptions import AppException

router = APIRouter(prefix="/tavily", tags=["compatible"])

TAVILY_RESULTS: Final = 20  # the vendor's limit
SOURCES: Final[Mapping[str, tuple[dtos.SourceKind, ...]]] = {
    "general": ("web",),
    "finance": ("web",),
    "news": ("news",),
}


def _check_text(value: object) -> object:
    """Refuse a number, which pydantic would read as a time stamp."""
    if not isinstance(value, str):
        raise ValueError("must be a date such as 2026-03-31")
    return value


_Urls = Annotated[tuple[dialect.PageUrl, ...], Field(min_length=1, max_length=MAX_URLS)]
Day = Annotated[date, BeforeValidator(_check_text, json_schema_input_type=str)]


class TavilySearchRequest(TavilyDomains, frozen=True):
    """A search. `include_answer` adds a research run with the same filters, and `advanced` a deep one."""

    query: LongQuery
    topic: Literal["general", "news", "finance"] = "general"
    time_range: Literal["day", "week", "month", "year", "d", "w", "m", "y"] | None = None
    start_date: Day | None = None
    end_date: Annotated[Day | None, dialect.not_before("start_date")] = None
    max_results: int = Field(default=5, ge=0, le=TAVILY_RESULTS, strict=True)
    include_answer: StrictBool | Literal["basic", "advanced"] = False
    include_raw_content: StrictBool | Literal["markdown", "text"] = False

    @property
    def range(self) -> dtos.TimeRange | None:
        """The time range by its whole name."""
        names: Mapping[str, dtos.TimeRange] = {"d": "day", "w": "week", "m": "month", "y": "year"}
        return names.get((self.time_range or "")[:1])

    @property
    def freshness(self) -> str | None:
        """The days between the two dates."""
        return format_days(self.start_date, self.end_date)


class TavilyExtractRequest(TavilyBody, frozen=True):
    """One address or several."""

    urls: Annotated[dialect.PageUrl | _Urls, dialect.accept_one_or_several(dialect.PageUrl, _Urls)]


class TavilySearchResponse(BaseModel):
    """The results, best first. `score` is 1 / position. `answer` has markers such as [1] with the number of a result."""

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
    **dialect.declare_route(
        "Search, for clients of Tavily", TavilySearchRequest, TavilySearchResponse, dialect.ERROR_STATUSES_400
    ),
)
async def search(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilySearchRequest)
    count_call(request, "search")
    if body.include_answer:
        await request.scope[COUNT_REQUEST]()  # The answer is a research run, which counts beside the search.
    answer, results = await (_find_answer(request, body) if body.include_answer else _search(request, body))
    results = results[: body.max_results]
    if body.include_raw_content:
        read = await dialect.read_pages(request, [result["url"] for result in results])
        for result in results:
            page = read[result["url"]]
            result["raw_content"] = None if isinstance(page, AppException) else page.text
    content = {
        "query": body.query,
        "follow_up_questions": None,
        "answer": answer,
        "images": [],
        "results": [{**result, "score": round(1 / position, 4)} for position, result in enumerate(results, 1)],
        **make_footer(request, began),
    }
    partly_served = ("topic",) if body.topic == "finance" else ()
    return dialect.make_json_answer(content, body, *partly_served)


@router.post(
    "/extract",
    **dialect.declare_route(
        "Read pages, for clients of Tavily", TavilyExtractRequest, TavilyExtractResponse, dialect.ERROR_STATUSES_400
    ),
)
async def extract(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilyExtractRequest)
    count_call(request, "extract")
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
        **make_footer(request, began),
    }
    return dialect.make_json_answer(content, body)


async def _search(request: Request, body: TavilySearchRequest) -> tuple[None, list[dict[str, Any]]]:
    found = await search_web(
        request,
        dtos.WebSearchRequest(
            query=find_question(body.query),
            count=max(1, body.max_results),
            sources=SOURCES[body.topic],
            time_range=body.range,
            freshness=body.freshness,
            domains=body.domains,
        ),
    )
    return None, [
        _make_result(result.title, result.url, result.text, result.published_date) for result in found.results
    ]


async def _find_answer(request: Request, body: TavilySearchRequest) -> tuple[str, list[dict[str, Any]]]:
    """Return the answer of a research run and its numbered sources: [n] in the answer is result n.

    A query that is too short for a research run is answered in words, and has the results of a search.
    """
    question = find_question(body.query)
    response = await answer_message(
        request,
        body.query,
        depth="deep" if body.include_answer == "advanced" else "shallow",
        sources=SOURCES[body.topic],
        time_range=body.range,
        freshness=body.freshness,
        domains=body.domains,
    )
    if len(question) < MIN_QUESTION_CHARS:
        return response.synthesis, (await _search(request, body))[1]
    return response.synthesis, [
        _make_result(result.title, result.url, dialect.select_snippet(result, question), result.published)
        for result in response.raw_results or ()
    ]


def _make_result(title: str, url: str, content: str, published: str | None) -> dict[str, Any]:
    return {"title": title, "url": url, "content": content, "raw_content": None, "published_date": published}
