"""Firecrawl's API: the addresses of a site. It also has the bounds of a crawl in the words of the vendor.

Reference of the vendor: https://docs.firecrawl.dev/api-reference/endpoint/map
"""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, StrictBool

from modules.llm_platform.domain.dtos import site_crawl_dtos as dtos
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.firecrawl.shared import MAX_TIMEOUT_MS, add_post
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import get_server_state, get_services

router = APIRouter(tags=["compatible"])

MAP_DEPTH: Final = 2  # Links from the first page to the last ones that are listed.
MAP_S: Final = 30.0  # The time of a map without `timeout`. Addresses that were found until then are listed.
MAX_SENT_LIMIT: Final = 100_000  # The vendor's limit.
MAPPED_HOST_CHARS: Final = 90  # The patterns of a crawl contain it and have at most 200 characters.


class FirecrawlMapRequest(dialect.DialectBody, frozen=True):
    """The first page. Links with words of `search` come first. Sitemaps are not read."""

    url: dtos.StartUrl
    search: str | None = Field(default=None, max_length=dtos.MAX_CRAWL_INSTRUCTION_CHARS)
    includeSubdomains: StrictBool | None = None  # noqa: N815  the vendor's name
    limit: int | None = Field(default=None, ge=1, le=MAX_SENT_LIMIT, strict=True)
    timeout: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS, strict=True)

    def crawl_request(self, *, with_subdomains: bool) -> dtos.SiteCrawlRequest:
        seconds = MAP_S if self.timeout is None else min(self.timeout / 1000, dtos.MAX_CRAWL_S)
        return dtos.SiteCrawlRequest(
            url=self.url,
            max_depth=MAP_DEPTH,
            max_breadth=dtos.MAX_CRAWL_BREADTH,
            limit=min(self.limit or dtos.MAX_CRAWL_PAGES, dtos.MAX_CRAWL_PAGES),
            select_domains=() if with_subdomains else make_host_filter(self.url),
            instructions=self.search,
            timeout_s=seconds,
        )

    @property
    def partly_served(self) -> tuple[str, ...]:
        return ("limit",) if self.limit and self.limit > dtos.MAX_CRAWL_PAGES else ()


def make_host_filter(url: str) -> tuple[str, ...]:
    """Return the pattern of the host of an address, with and without `www.`. There is none without a host."""
    try:
        host = (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return ()  # The page reader refuses the address with a reason.
    return (rf"^(www\.)?{re.escape(host)}$",) if host and len(host) <= MAPPED_HOST_CHARS else ()


class FirecrawlMapResponse(BaseModel):
    """The addresses in the order in which they were found."""

    success: bool
    links: list[str]


class FirecrawlMapV2Response(BaseModel):
    """The addresses in the order in which they were found."""

    success: bool
    links: list[dict[str, str]]


async def map_site(request: Request) -> Response:
    body = await read_body(request, FirecrawlMapRequest)
    urls = await _map_site(request, body.crawl_request(with_subdomains=bool(body.includeSubdomains)))
    return dialect.make_json_answer({"success": True, "links": urls}, body, *body.partly_served)


async def map_site_v2(request: Request) -> Response:
    body = await read_body(request, FirecrawlMapRequest)
    urls = await _map_site(request, body.crawl_request(with_subdomains=body.includeSubdomains is not False))
    answer: dict[str, Any] = {"success": True, "links": [{"url": url} for url in urls]}
    return dialect.make_json_answer(answer, body, *body.partly_served)


async def _map_site(request: Request, crawl: dtos.SiteCrawlRequest) -> tuple[str, ...]:
    async with dialect.reading(request), get_server_state(request).crawls.slot():
        return (await get_services(request).site_crawl.map(crawl)).urls


add_post(
    router,
    "/map",
    "List the pages of a site, for clients of Firecrawl",
    {
        "v1": (FirecrawlMapRequest, FirecrawlMapResponse, map_site),
        "v2": (FirecrawlMapRequest, FirecrawlMapV2Response, map_site_v2),
    },
)
