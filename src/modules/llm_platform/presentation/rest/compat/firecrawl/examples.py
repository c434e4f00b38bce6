"""Examples of the routes of Firecrawl's API for the OpenAPI document."""

from collections.abc import Mapping
from typing import Final

from modules.llm_platform.presentation.rest.http.route_example import Example

CRAWL_ID: Final = "3f2c8a5e9d7b4c61a0e4f19b7d2c6a58"
RESULT: Final = {"url": "https://example.org/tea", "title": "Tea", "description": "Tea is a drink.", "position": 1}
SITE: Final = {"url": "https://example.org/", "search": "tea"}

SCRAPE: Final = Example(
    {
        "success": True,
        "data": {
            "metadata": {
                "title": "Tea",
                "url": "https://example.org/tea",
                "sourceURL": "https://example.org/tea",
                "statusCode": 200,
                "contentType": "text/html",
            },
            "markdown": "Tea is a drink.",
            "links": ["https://example.org/"],
        },
    },
    {"url": "https://example.org/tea", "formats": ["markdown", "links"]},
)
CRAWLED: Final = Example(
    {
        "success": True,
        "status": "completed",
        "completed": 1,
        "total": 1,
        "creditsUsed": 0,
        "expiresAt": "2026-11-23T12:00:00Z",
        "data": [{"markdown": "Tea is a drink.", "metadata": {"title": "Tea", "url": "https://example.org/tea"}}],
    },
    parameters={"crawl_id": CRAWL_ID, "skip": 0, "limit": 100},
)
CANCELLED: Final = Example(
    {"success": True, "status": "cancelled", "message": "The crawl was cancelled."}, parameters={"crawl_id": CRAWL_ID}
)
UNREAD: Final = Example(
    {
        "errors": [{"id": "1", "url": "https://example.org/private", "code": "page_blocked", "error": "page_blocked"}],
        "robotsBlocked": ["https://example.org/private"],
    },
    parameters={"crawl_id": CRAWL_ID},
)


def _make_crawl_example(version: str) -> Example:
    return Example(
        {"success": True, "id": CRAWL_ID, "url": f"http://localhost:8000/firecrawl/{version}/crawl/{CRAWL_ID}"},
        {"url": "https://example.org/", "limit": 20, "includePaths": ["/tea.*"]},
    )


EXAMPLES: Final[Mapping[str, Example]] = {
    "post /firecrawl/v2/scrape": SCRAPE,
    "post /firecrawl/v2/search": Example(
        {"success": True, "data": {"web": [RESULT]}, "id": "3f2c8a5e", "creditsUsed": 0},
        {"query": "What is tea?", "sources": ["web"], "tbs": "qdr:w"},
    ),
    "post /firecrawl/v2/map": Example(
        {"success": True, "links": [{"url": "https://example.org/"}, {"url": "https://example.org/tea"}]}, SITE
    ),
    "post /firecrawl/v2/crawl": _make_crawl_example("v2"),
    "get /firecrawl/v2/crawl/{crawl_id}": CRAWLED,
    "delete /firecrawl/v2/crawl/{crawl_id}": CANCELLED,
    "get /firecrawl/v2/crawl/{crawl_id}/errors": UNREAD,
    "post /firecrawl/v1/scrape": SCRAPE,
    "post /firecrawl/v1/search": Example({"success": True, "data": [RESULT]}, {"query": "What is tea?", "limit": 3}),
    "post /firecrawl/v1/map": Example(
        {"success": True, "links": ["https://example.org/", "https://example.org/tea"]}, SITE
    ),
    "post /firecrawl/v1/crawl": _make_crawl_example("v1"),
    "get /firecrawl/v1/crawl/{crawl_id}": CRAWLED,
    "delete /firecrawl/v1/crawl/{crawl_id}": CANCELLED,
    "get /firecrawl/v1/crawl/{crawl_id}/errors": UNREAD,
}
