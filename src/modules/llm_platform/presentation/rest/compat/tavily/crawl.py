"""Tavily's API: crawl, the pages of a site, and map, their addresses.

References of the vendor: https://docs.tavily.com/documentation/api-reference/endpoint/crawl and .../endpoint/map
"""

import asyncio
import time
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, StrictBool

from modules.llm_platform.domain.dtos import site_crawl_dtos as dtos
from modules.llm_platform.domain.retrieval.excerpt import select_excerpt
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.tavily.shared import TavilyBody, count_call, make_footer
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import get_server_state, get_services

router = APIRouter(prefix="/tavily", tags=["compatible"])

ANSWER_SHARE: Final = 0.9  # The share of `timeout` for the crawl: after `timeout` the client no longer waits.
EXCERPT_SHARE: Final = 0.95  # The share of `timeout` after which no page is ranked.
CHUNK_TOKENS: Final = 125  # The size of one of the `chunks_per_source`.
CHUNK_CHARS: Final = 500  # The approximate size of such a chunk in characters.
MAX_RANKED_CHARS: Final = 500_000  # The longest text whose passages are ranked. It takes 0.5 s.
MAX_CHUNKS: Final = 5


class TavilyMapRequest(TavilyBody, frozen=True):
    """The first page and the bounds. Links of other sites are left out unless `allow_external` is true."""

    url: dtos.StartUrl
    instructions: Annotated[str, Field(max_length=dtos.MAX_CRAWL_INSTRUCTION_CHARS)] | None = None
    max_depth: int = Field(default=1, ge=1, le=dtos.MAX_CRAWL_DEPTH, strict=True)
    max_breadth: int = Field(default=20, ge=1, le=dtos.MAX_CRAWL_BREADTH, strict=True)
    limit: int = Field(default=50, ge=1, strict=True)
    select_paths: dtos.Patterns = ()
    select_domains: dtos.Patterns = ()
    exclude_paths: dtos.Patterns = ()
    exclude_domains: dtos.Patterns = ()
    allow_external: StrictBool = False
    timeout: float = Field(default=dtos.MAX_CRAWL_S, ge=1, le=dtos.MAX_CRAWL_S, allow_inf_nan=False)

    @property
    def request(self) -> dtos.SiteCrawlRequest:
        same = ("url", "instructions", "max_depth", "max_breadth", "allow_external")
        patterns = ("select_paths", "select_domains", "exclude_paths", "exclude_domains")
        return dtos.SiteCrawlRequest(
            **{name: getattr(self, name) for name in (*same, *patterns)},
            limit=min(self.limit, dtos.MAX_CRAWL_PAGES),
            timeout_s=self.timeout * ANSWER_SHARE,
        )

    @property
    def partly_served(self) -> tuple[str, ...]:
        """The fields with a part of their effect. `instructions` order the links, and no model follows them."""
        return ("instructions", *(["limit"] if self.limit > dtos.MAX_CRAWL_PAGES else []))


class TavilyCrawlRequest(TavilyMapRequest, frozen=True):
    """The request of a crawl, with the fields of a map. The texts are Markdown.

    `chunks_per_source` shortens them to the parts that fit the instructions.
    """

    chunks_per_source: int | None = Field(default=None, ge=1, le=MAX_CHUNKS, strict=True)
    extract_depth: Literal["basic", "advanced"] = "basic"
    format: Literal["markdown", "text"] = "markdown"
    include_images: StrictBool = False
    include_favicon: StrictBool = False

    @property
    def partly_served(self) -> tuple[str, ...]:
        names = super().partly_served
        names += ("extract_depth",) if self.extract_depth == "advanced" else ()
        names += ("format",) if self.format == "text" else ()
        return names if self.instructions else (*names, "chunks_per_source")


class TavilyMapResponse(BaseModel):
    """The addresses in the order in which they were found, and those that could not be read, with the reason."""

    base_url: str
    results: list[str]
    failed_results: list[dict[str, str]]
    response_time: float
    request_id: str
    llm_platform: dict[str, Any]


class TavilyCrawlResponse(BaseModel):
    """The pages in the order in which they were found, and the others with the reason."""

    base_url: str
    results: list[dict[str, Any]]
    failed_results: list[dict[str, str]]
    response_time: float
    request_id: str
    llm_platform: dict[str, Any]


@router.post(
    "/crawl",
    **dialect.declare_route(
        "Read the pages of a site, for clients of Tavily",
        TavilyCrawlRequest,
        TavilyCrawlResponse,
        dialect.ERROR_STATUSES_400,
    ),
)
async def crawl(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilyCrawlRequest)
    count_call(request, "crawl")
    async with dialect.reading(request), get_server_state(request).crawls.slot():
        found = await get_services(request).site_crawl.crawl(body.request)
        until = began + body.timeout * EXCERPT_SHARE
        results = [_make_result(page, await _choose_text(page, body, until), body) for page in found.pages]
    content = {**_make_head(found), "results": results, **make_footer(request, began)}
    return dialect.make_json_answer(content, body, *body.partly_served)


@router.post(
    "/map",
    **dialect.declare_route(
        "List the pages of a site, for clients of Tavily",
        TavilyMapRequest,
        TavilyMapResponse,
        dialect.ERROR_STATUSES_400,
    ),
)
async def map_site(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilyMapRequest)
    count_call(request, "map")
    async with dialect.reading(request), get_server_state(request).crawls.slot():
        found = await get_services(request).site_crawl.map(body.request)
    content = {**_make_head(found), "results": found.urls, **make_footer(request, began)}
    return dialect.make_json_answer(content, body, *body.partly_served)


def _make_head(found: dtos.SiteCrawl) -> dict[str, Any]:
    return {
        "base_url": found.base_url,
        "failed_results": [{"url": page.url, "error": page.error} for page in found.failed],
        "llm_platform": {"stopped": found.stopped},
    }


async def _choose_text(linked: dtos.LinkedPage, body: TavilyCrawlRequest, until: float) -> str:
    """Return the text of a page, or what of it fits the instructions: after the time `until` its beginning."""
    text = linked.page.text
    if not body.instructions or not body.chunks_per_source:
        return text
    if time.perf_counter() >= until:
        return text[: body.chunks_per_source * CHUNK_CHARS]
    max_tokens = body.chunks_per_source * CHUNK_TOKENS
    return await asyncio.to_thread(select_excerpt, text[:MAX_RANKED_CHARS], body.instructions, max_tokens)


def _make_result(linked: dtos.LinkedPage, text: str, body: TavilyCrawlRequest) -> dict[str, Any]:
    result = {
        "url": linked.page.url,
        "title": linked.page.title,
        "raw_content": text,
        "images": linked.images if body.include_images else (),
    }
    return {**result, "favicon": linked.favicon} if body.include_favicon else result
