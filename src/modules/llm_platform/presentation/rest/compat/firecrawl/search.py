"""Firecrawl's API: search, with the pages of the results on request.

Reference of the vendor: https://docs.firecrawl.dev/api-reference/endpoint/search
"""

import re
from datetime import date
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.freshness import format_days
from modules.llm_platform.domain.research.long_message import LongQuery, find_question
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.firecrawl.shared import (
    MAX_TIMEOUT_MS,
    FirecrawlOptions,
    add_post,
    build_document,
    get_type,
    wait_within,
)
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import request_id
from modules.llm_platform.presentation.rest.search_routes import search_web
from shared.exceptions import AppException

router = APIRouter(tags=["compatible"])

MAX_SENT_LIMIT: Final = 100  # The vendor's limit.
TIME_RANGES: Final[dict[str, dtos.TimeRange]] = {"h": "day", "d": "day", "w": "week", "m": "month", "y": "year"}
SOURCES: Final[dict[str, dtos.SourceKind]] = {"web": "web", "news": "news"}

_QDR = re.compile(r"(?:qdr:)?([hdwmy])")
_CDR = re.compile(r"cdr:1,cd_min:(\d{1,2})/(\d{1,2})/(\d{4}),cd_max:(\d{1,2})/(\d{1,2})/(\d{4})")


def _check_range(tbs: str) -> str:
    """Refuse a time range that is none of Google's: `qdr:d`, or `cdr:1,cd_min:1/31/2026,cd_max:2/28/2026`."""
    if not tbs or _QDR.fullmatch(tbs):
        return tbs
    try:
        first, last = _parse_days(tbs)
    except ValueError:
        raise ValueError(
            "must be qdr:h, qdr:d, qdr:w, qdr:m, qdr:y or cdr:1,cd_min:MM/DD/YYYY,cd_max:MM/DD/YYYY"
        ) from None
    if last < first:
        raise ValueError("must not end before it begins")
    return tbs


def _parse_days(tbs: str) -> tuple[date, date]:
    found = _CDR.fullmatch(tbs)
    if found is None:
        raise ValueError
    month, day, year, last_month, last_day, last_year = map(int, found.groups())
    return date(year, month, day), date(last_year, last_month, last_day)


class FirecrawlSearchRequest(dialect.DialectBody, frozen=True):
    """A search. With `scrapeOptions.formats`, each result has its page, too."""

    query: LongQuery
    limit: int = Field(default=5, ge=1, le=MAX_SENT_LIMIT, strict=True)
    tbs: Annotated[str, Field(max_length=100), AfterValidator(_check_range)] | None = None
    timeout: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS, strict=True)
    scrapeOptions: FirecrawlOptions | None = None  # noqa: N815  the vendor's name

    @property
    def time_range(self) -> dtos.TimeRange | None:
        found = _QDR.fullmatch(self.tbs or "")
        return TIME_RANGES[found[1]] if found else None

    @property
    def freshness(self) -> str | None:
        return format_days(*_parse_days(self.tbs)) if self.tbs and not self.time_range else None

    @property
    def partly_served(self) -> tuple[str, ...]:
        options = self.scrapeOptions
        names = [f"scrapeOptions.{name}" for name in options.partly_served] if options else []
        return (*names, *(["limit"] if self.limit > dtos.MAX_COUNT else []))

    def search(self, kind: dtos.SourceKind = "web", domains: tuple[str, ...] = ()) -> dtos.WebSearchRequest:
        return dtos.WebSearchRequest(
            query=find_question(self.query),
            count=min(self.limit, dtos.MAX_COUNT),
            sources=(kind,),
            time_range=self.time_range,
            freshness=self.freshness,
            domains=domains,
        )


class FirecrawlSearchV2Request(FirecrawlSearchRequest, frozen=True):
    """Version 2 has kinds of sources, each with results of its own, and domains. Images are not searched."""

    sources: tuple[Annotated[Literal["web", "news", "images"], BeforeValidator(get_type)], ...] = Field(
        default=("web",), max_length=10
    )
    includeDomains: dialect.Sites | None = None  # noqa: N815
    excludeDomains: Annotated[dialect.Sites | None, dialect.limit_sites_with("includeDomains")] = None  # noqa: N815

    @field_validator("sources")
    @classmethod
    def _require_searched_kind(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        if not SOURCES.keys() & sources:
            raise ValueError("must have web or news: images are not searched")
        return sources

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in dict.fromkeys(self.sources) if kind in SOURCES)

    @property
    def domains(self) -> tuple[str, ...]:
        return dialect.join_domains(self.includeDomains, self.excludeDomains)


class FirecrawlSearchResponse(BaseModel):
    """The results, best first."""

    success: bool
    data: list[dict[str, Any]]


class FirecrawlSearchV2Response(BaseModel):
    """The results of each kind of source, best first."""

    success: bool
    data: dict[str, list[dict[str, Any]]]
    id: str
    creditsUsed: int  # noqa: N815


async def search(request: Request) -> Response:
    body = await read_body(request, FirecrawlSearchRequest)
    results = await wait_within(body.timeout, _find_results(request, body, body.search()))
    return dialect.make_json_answer({"success": True, "data": results}, body, *body.partly_served)


async def search_v2(request: Request) -> Response:
    body = await read_body(request, FirecrawlSearchV2Request)
    data = {
        kind: await wait_within(body.timeout, _find_results(request, body, body.search(SOURCES[kind], body.domains)))
        for kind in body.kinds
    }
    if "news" in data:
        data["news"] = [{**result, "snippet": result["description"]} for result in data["news"]]
    answer = {"success": True, "data": data, "id": request_id(request), "creditsUsed": 0}
    partly_served = (*body.partly_served, *(["sources"] if len(body.kinds) < len(set(body.sources)) else []))
    return dialect.make_json_answer(answer, body, *partly_served)


async def _find_results(
    request: Request, body: FirecrawlSearchRequest, search: dtos.WebSearchRequest
) -> list[dict[str, Any]]:
    found = await search_web(request, search)
    results: list[dict[str, Any]] = [
        {"url": item.url, "title": item.title, "description": item.text, "position": position}
        | ({"date": item.published_date} if item.published_date else {})
        for position, item in enumerate(found.results[: body.limit], 1)
    ]
    options = body.scrapeOptions
    if options is None or not options.formats:
        return results
    read = await dialect.read_pages(request, [result["url"] for result in results], are_whole=options.is_whole)
    for result in results:
        page = read[result["url"]]
        if isinstance(page, AppException):
            result["metadata"] = {"sourceURL": result["url"], "error": page.message}
        else:
            result |= build_document(page, options, result["url"])
    return results


add_post(
    router,
    "/search",
    "Search, for clients of Firecrawl",
    {
        "v1": (FirecrawlSearchRequest, FirecrawlSearchResponse, search),
        "v2": (FirecrawlSearchV2Request, FirecrawlSearchV2Response, search_v2),
    },
)
