"""Firecrawl's API: the pages of a site, read in the background.

Reference of the vendor: https://docs.firecrawl.dev/api-reference/endpoint/crawl-post
"""

import re
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, StrictBool

from modules.llm_platform.application.research.events import Read
from modules.llm_platform.application.services.site_crawl_job import READ
from modules.llm_platform.domain.dtos import site_crawl_dtos as dtos
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.firecrawl.map import make_host_filter
from modules.llm_platform.presentation.rest.compat.firecrawl.shared import LINKS, PREFIXES, FirecrawlOptions, add_post
from modules.llm_platform.presentation.rest.compat.responses import runs
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services

router = APIRouter(tags=["compatible"])

API: Final = "firecrawl"
STATUSES: Final = {"queued": "scraping", "running": "scraping", "done": "completed"}
MAX_SENT_LIMIT: Final = 100_000  # The vendor's limit.
MAX_SENT_DEPTH: Final = 1000
ENDED: Final = "The crawl has ended: there is nothing to cancel."
PAGE_SIZE: Final = 100  # Documents of one answer.
STORED_FOR: Final = timedelta(days=1)  # A lower bound: STORE_TTL_DAYS counts from the end of the crawl.
CRAWLED_PATH_CHARS: Final = 90  # The patterns of a crawl contain it and have at most 200 characters.
BLOCKED: Final = "page_blocked"  # The code of a page that robots.txt or a wall blocks.


class FirecrawlCrawlRequest(dialect.DialectBody, frozen=True):
    """The first page and the bounds. Without `crawlEntireDomain` only pages below its path are read."""

    url: dtos.StartUrl
    includePaths: dtos.Patterns = ()  # noqa: N815  the vendor's names
    excludePaths: dtos.Patterns = ()  # noqa: N815
    maxDepth: int | None = Field(default=None, ge=0, le=MAX_SENT_DEPTH, strict=True)  # noqa: N815
    maxDiscoveryDepth: int | None = Field(default=None, ge=0, le=MAX_SENT_DEPTH, strict=True)  # noqa: N815
    limit: int | None = Field(default=None, ge=1, le=MAX_SENT_LIMIT, strict=True)
    allowBackwardLinks: StrictBool | None = None  # noqa: N815
    crawlEntireDomain: StrictBool | None = None  # noqa: N815
    allowExternalLinks: StrictBool | None = None  # noqa: N815
    allowSubdomains: StrictBool | None = None  # noqa: N815
    scrapeOptions: FirecrawlOptions | None = None  # noqa: N815

    @property
    def depth(self) -> int:
        depths = [depth for depth in (self.maxDepth, self.maxDiscoveryDepth) if depth is not None]
        return min([dtos.MAX_CRAWL_DEPTH, *depths])

    @property
    def crawl(self) -> dtos.SiteCrawlRequest:
        limit = min(self.limit or dtos.MAX_CRAWL_PAGES, dtos.MAX_CRAWL_PAGES) if self.depth else 1
        is_whole = self.crawlEntireDomain or self.allowBackwardLinks or self.allowExternalLinks
        return dtos.SiteCrawlRequest(
            url=self.url,
            max_depth=max(1, self.depth),
            max_breadth=dtos.MAX_CRAWL_BREADTH,
            limit=limit,
            select_paths=self.includePaths or (() if is_whole else make_path_filter(self.url)),
            exclude_paths=self.excludePaths,
            select_domains=() if self.allowSubdomains or self.allowExternalLinks else make_host_filter(self.url),
            allow_external=bool(self.allowExternalLinks),
            whole_pages=self.scrapeOptions is not None and self.scrapeOptions.is_whole,
        )

    @property
    def partly_served(self) -> tuple[str, ...]:
        options = self.scrapeOptions
        names = [f"scrapeOptions.{name}" for name in options.partly_served] if options else []
        if options and LINKS in options.wanted:
            names.append("scrapeOptions.formats")
        names += ["limit"] if self.limit and self.limit > dtos.MAX_CRAWL_PAGES else []
        depths = ("maxDepth", "maxDiscoveryDepth")
        names += [name for name in depths if (getattr(self, name) or 0) > dtos.MAX_CRAWL_DEPTH]
        return tuple(dict.fromkeys(names))


def make_path_filter(url: str) -> tuple[str, ...]:
    """Return the pattern of the paths below the path of an address. There is none for the root."""
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        return ()  # The page reader refuses the address with a reason.
    return (f"^{re.escape(path)}(/|$)",) if path and len(path) <= CRAWLED_PATH_CHARS else ()


class FirecrawlCrawlTask(BaseModel):
    """The id of a crawl, and the address of its status."""

    success: bool
    id: str
    url: str


class FirecrawlCrawlState(BaseModel):
    """The state of a crawl. `status` is `scraping`, `completed`, `failed` or `cancelled`. `next` is the next page."""

    success: bool
    status: str
    completed: int
    total: int
    creditsUsed: int  # noqa: N815
    expiresAt: str  # noqa: N815
    data: list[dict[str, Any]]
    next: str | None = None
    error: str | None = None


class FirecrawlCrawlErrors(BaseModel):
    """The pages that could not be read, and those among them that robots.txt or a wall keeps."""

    errors: list[dict[str, str]]
    robotsBlocked: list[str]  # noqa: N815


async def start_crawl(request: Request) -> Response:
    body = await read_body(request, FirecrawlCrawlRequest)
    job = await get_services(request).research_jobs.submit_crawl(body.crawl, owner=get_caller_id(request), api=API)
    answer = {"success": True, "id": job.id, "url": f"{_address(request)}/{job.id}"}
    return dialect.make_json_answer(answer, body, *body.partly_served)


async def get_crawl(
    request: Request,
    crawl_id: str,
    skip: Annotated[int, Query(ge=0, le=dtos.MAX_CRAWL_PAGES, description="Documents that are left out")] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_SIZE, description="Documents of one answer")] = PAGE_SIZE,
) -> Response:
    job = await runs.find_job(request, API, crawl_id)
    jobs, owner = get_services(request).research_jobs, get_caller_id(request)
    sources = (await jobs.get_sources(crawl_id, owner=owner)).sources if job.status == "done" else ()
    metadata = job.response.metadata if job.response else None
    total = metadata.pages_read + metadata.pages_failed if metadata else 0
    state: dict[str, Any] = {
        "success": True,
        "status": STATUSES.get(job.status, job.status),
        "completed": len(sources),
        "total": total,
        "creditsUsed": 0,
        "expiresAt": (job.created_at + STORED_FOR).isoformat(),
        "data": [
            {
                "markdown": source.text,
                "metadata": {"title": source.title, "url": source.url, "sourceURL": source.url, "statusCode": 200},
            }
            for source in sources[skip : skip + limit]
        ],
    }
    if skip + limit < len(sources):
        state["next"] = f"{_address(request)}?skip={skip + limit}&limit={limit}"
    if job.status == "failed" and job.problem:
        state["error"] = job.problem["detail"]
    return dialect.make_json_response(state)


async def cancel_crawl(request: Request, crawl_id: str) -> Response:
    await runs.find_job(request, API, crawl_id)
    job = await get_services(request).research_jobs.cancel(crawl_id, owner=get_caller_id(request))
    if job.status != "cancelled":
        return dialect.make_json_response({"success": False, "error": ENDED}, HTTPStatus.CONFLICT)
    return dialect.make_json_response({"success": True, "status": "cancelled", "message": "The crawl was cancelled."})


async def get_crawl_errors(request: Request, crawl_id: str) -> Response:
    await runs.find_job(request, API, crawl_id)
    events = await get_services(request).research_jobs.list_stored_events(crawl_id, owner=get_caller_id(request))
    pages = [Read.model_validate_json(event.data) for event in events if event.type == "read"]
    unread = [page for page in pages if page.status != READ]
    errors = [
        {"id": str(number), "url": page.url, "code": page.status, "error": page.status}
        for number, page in enumerate(unread, 1)
    ]
    blocked = [page.url for page in unread if page.status == BLOCKED]
    return dialect.make_json_response({"errors": errors, "robotsBlocked": blocked})


def _address(request: Request) -> str:
    """Return the address of the request. Clients of version 1 need a whole one, and replace its host by theirs."""
    return str(request.url.replace(query="", fragment=""))


class FirecrawlCancelled(BaseModel):
    """The crawl has stopped."""

    success: bool
    status: str
    message: str


def _add(
    path: str, method: str, summary: str, answer: type[BaseModel], route: Callable[..., Any], *statuses: int
) -> None:
    for prefix in (prefix for prefixes in PREFIXES.values() for prefix in prefixes):
        router.add_api_route(
            f"{prefix}/crawl/{{crawl_id}}{path}",
            route,
            methods=[method],
            summary=f"{summary}, for clients of Firecrawl",
            response_model=answer,
            responses=dialect.declare_errors(400, 404, 422, *statuses),
            include_in_schema=prefix != "/v2",
        )


_ROUTE: Any = (FirecrawlCrawlRequest, FirecrawlCrawlTask, start_crawl)
add_post(router, "/crawl", "Read the pages of a site, for clients of Firecrawl", {"v1": _ROUTE, "v2": _ROUTE})
_add("", "GET", "A crawl", FirecrawlCrawlState, get_crawl)
_add("/errors", "GET", "The pages that a crawl could not read", FirecrawlCrawlErrors, get_crawl_errors)
_add("", "DELETE", "Stop a crawl", FirecrawlCancelled, cancel_crawl, 409)
