"""Firecrawl's API: one page.

Reference of the vendor: https://docs.firecrawl.dev/api-reference/endpoint/scrape
"""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.dtos.site_crawl_dtos import StartUrl
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.firecrawl.shared import (
    LINKS,
    FirecrawlDocument,
    FirecrawlOptions,
    add_post,
    build_document,
    wait_within,
)
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import get_services

router = APIRouter(tags=["compatible"])


class FirecrawlScrapeRequest(FirecrawlOptions, frozen=True):
    """The page to read. `formats` are `markdown` and `links`."""

    url: StartUrl


class FirecrawlScrapeResponse(BaseModel):
    """The page."""

    success: bool
    data: FirecrawlDocument


async def scrape(request: Request) -> Response:
    body = await read_body(request, FirecrawlScrapeRequest)
    async with dialect.reading(request):
        page, links = await wait_within(body.timeout, _read(request, body))
    answer = {"success": True, "data": build_document(page, body, body.url, links)}
    return dialect.make_json_answer(answer, body, *body.partly_served)


async def _read(request: Request, body: FirecrawlScrapeRequest) -> tuple[Page, Sequence[PageLink]]:
    platform = get_services(request)
    if LINKS not in body.wanted and not body.is_whole:
        return await platform.pages.read(body.url), ()
    linked = await platform.site_crawl.read_page(body.url, is_whole=body.is_whole)
    return linked.page, linked.links


_ROUTE: Any = (FirecrawlScrapeRequest, FirecrawlScrapeResponse, scrape)
add_post(router, "/scrape", "Read a page, for clients of Firecrawl", {"v1": _ROUTE, "v2": _ROUTE})
