"""Firecrawl's scrape, search and map."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices, app_client, hits

from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConnectionError,
    PageError,
    PageRequestError,
    PageTimeoutError,
)
from modules.llm_platform.presentation.rest.compat.firecrawl.crawl import FirecrawlCrawlRequest

ROOT = "https://example.org/"
VERSIONS = ("/firecrawl/v1", "/firecrawl/v2", "/v2")


@pytest.mark.parametrize("prefix", VERSIONS)
async def test_scrape_has_the_fields_of_the_client(client: httpx2.AsyncClient, prefix: str) -> None:
    answer = await client.post(f"{prefix}/scrape", json={"url": ROOT})
    assert answer.json() == {
        "success": True,
        "data": {
            "markdown": "An event loop runs tasks.",
            "metadata": {
                "title": "asyncio",
                "url": ROOT,
                "sourceURL": ROOT,
                "statusCode": 200,
                "contentType": "text/html",
            },
        },
    }
    assert "x-ignored-fields" not in answer.headers


async def test_links_are_those_of_the_page(client: httpx2.AsyncClient) -> None:
    sent = {"url": "example.org/", "formats": [{"type": "links"}, "markdown"], "onlyMainContent": True}
    data = (await client.post("/firecrawl/v2/scrape", json=sent)).json()["data"]
    assert (data["links"], data["markdown"]) == ([f"{ROOT}a"], f"Text of {ROOT}")
    alone = (await client.post("/firecrawl/v2/scrape", json={"url": ROOT, "formats": ["links"]})).json()["data"]
    assert "markdown" not in alone


async def test_a_whole_page_has_all_of_its_visible_text(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """With `onlyMainContent` false, a page, a result and the pages of a crawl also contain menus and notices."""
    answer = await client.post("/firecrawl/v2/scrape", json={"url": ROOT, "onlyMainContent": False})
    assert (answer.json()["data"]["markdown"], "links" in answer.json()["data"]) == (f"All text of {ROOT}", False)
    assert "x-ignored-fields" not in answer.headers
    both = {"url": ROOT, "onlyMainContent": False, "formats": ["links", "markdown"]}
    data = (await client.post("/firecrawl/v1/scrape", json=both)).json()["data"]
    assert (data["links"], data["markdown"]) == ([f"{ROOT}a"], f"All text of {ROOT}")
    options = {"formats": ["markdown"], "onlyMainContent": False}
    assert FirecrawlCrawlRequest.model_validate({"url": ROOT, "scrapeOptions": options}).crawl.whole_pages
    assert not FirecrawlCrawlRequest.model_validate({"url": ROOT}).crawl.whole_pages


async def test_html_beside_markdown_is_left_out_with_a_warning(client: httpx2.AsyncClient) -> None:
    """LibreChat always requests both formats, and uses the Markdown if there is no HTML."""
    sent = {"url": ROOT, "formats": ["markdown", "rawHtml"], "onlyMainContent": False, "waitFor": 0}
    answer = await client.post("/firecrawl/v2/scrape", json=sent)
    assert answer.headers["x-ignored-fields"] == "formats, waitFor"
    assert answer.json()["data"]["warning"].startswith("rawHtml is not served")
    assert "rawHtml" not in answer.json()["data"]


@for_each(
    ("sent", "message"),
    [
        ({}, "url: "),
        ({"url": ""}, "url: "),
        ({"url": "x" * 2001}, "url: "),
        ({"url": 1}, "url: "),
        ({"formats": ["html"]}, "formats: is not served: pages are kept as text"),
        ({"formats": ["json"]}, "formats: "),
        ({"formats": "markdown"}, "formats: "),
        ({"formats": [{}]}, "formats.0: "),
        ({"formats": ["links"] * 21}, "formats: "),
        ({"formats": [["markdown"]]}, "formats.0: "),
        ({"timeout": 0}, "timeout: "),
        ({"timeout": "1"}, "timeout: "),
    ],
)
async def test_invalid_field_is_a_400_with_its_name(sent: dict[str, Any], message: str) -> None:
    async with app_client() as client:
        for prefix in VERSIONS:
            refused = await client.post(f"{prefix}/scrape", json={"url": ROOT, **sent} if sent else {})
            assert refused.status_code == 400, refused.text
            assert refused.json()["success"] is False
            assert message in refused.json()["error"], refused.text


@for_each(
    ("error", "status"),
    [
        (PageRequestError("private"), 400),
        (PageBlockedError("login"), 403),
        (PageError("404"), 400),
        (PageTimeoutError("slow"), 408),
        (PageConnectionError("refused"), 400),
    ],
)
async def test_page_that_cannot_be_read_is_an_error_with_its_reason(error: Exception, status: int) -> None:
    """No status of it makes the clients ask again, as a 502 does."""
    services = FakeServices()
    services.error = error
    async with app_client(services) as client:
        for prefix in VERSIONS:
            answer = await client.post(f"{prefix}/scrape", json={"url": ROOT})
            assert (answer.status_code, answer.json()["success"]) == (status, False)
            assert str(error) in answer.json()["error"]


async def test_timeout_of_the_request_ends_the_read(services: FakeServices) -> None:
    services.gate.clear()
    async with app_client(services) as client:
        answer = await client.post("/firecrawl/v2/scrape", json={"url": ROOT, "timeout": 20})
    assert (answer.status_code, services.cancelled) == (408, 1)
    assert "timeout" in answer.json()["error"]


async def test_search_has_the_results_of_its_version(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.found = services.found.model_copy(update={"results": hits(9)})
    first = {"url": hits(1)[0].url, "title": HIT.title, "description": HIT.snippet, "position": 1}
    v1 = (await client.post("/firecrawl/v1/search", json={"query": "asyncio", "limit": 2})).json()
    assert (v1["data"][0], len(v1["data"])) == (first, 2)
    sent = {"query": "asyncio", "sources": ["web", {"type": "news"}, "images"], "tbs": "qdr:h"}
    answer = await client.post("/firecrawl/v2/search", json=sent)
    data = answer.json()["data"]
    assert (data["web"][0], len(data["web"]), data["news"][0]["snippet"]) == (first, 5, HIT.snippet)
    assert [(search.sources, search.time_range) for search in services.requests[1:]] == [
        (("web",), "day"),
        (("news",), "day"),
    ]
    assert answer.headers["x-ignored-fields"] == "sources"


async def test_search_has_a_range_of_days_and_domains(client: httpx2.AsyncClient, services: FakeServices) -> None:
    sent = {"query": "asyncio", "tbs": "cdr:1,cd_min:1/31/2026,cd_max:02/28/2026", "excludeDomains": ["a.org"]}
    await client.post("/v2/search", json=sent)
    [search] = services.requests
    assert (search.freshness, search.domains) == ("2026-01-31..2026-02-28", ("-a.org",))


async def test_search_reads_the_pages_on_request(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A page that cannot be read has the reason, and its result stays."""
    sent = {"query": "asyncio", "scrapeOptions": {"formats": ["markdown"]}}
    [result] = (await client.post("/firecrawl/v1/search", json=sent)).json()["data"]
    assert (result["markdown"], result["metadata"]["url"]) == ("An event loop runs tasks.", HIT.url)

    async def fail(url: str) -> Any:
        raise PageError("The page has no text.")

    services.read = fail  # type: ignore[method-assign]
    async with app_client(services) as failing:
        [result] = (await failing.post("/firecrawl/v2/search", json=sent)).json()["data"]["web"]
    assert (result["url"], result["metadata"]["error"]) == (HIT.url, "The page has no text.")


@for_each(
    ("sent", "name"),
    [
        ({"query": ""}, "query"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"tbs": "yesterday"}, "tbs"),
        ({"tbs": "cdr:1,cd_min:13/1/2026,cd_max:1/1/2026"}, "tbs"),
        ({"tbs": "cdr:1,cd_min:2/1/2026,cd_max:1/1/2026"}, "tbs"),
        ({"sources": ["images"]}, "sources"),
        ({"sources": [{"type": "x"}]}, "sources.0"),
        ({"scrapeOptions": {"formats": ["html"]}}, "scrapeOptions.formats"),
        ({"includeDomains": ["a b"]}, "includeDomains"),
    ],
)
async def test_invalid_field_of_a_search_is_a_400_with_its_name(sent: dict[str, Any], name: str) -> None:
    async with app_client() as client:
        refused = await client.post("/firecrawl/v2/search", json={"query": "asyncio", **sent})
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"].startswith(name), refused.text


async def test_map_lists_the_addresses_of_the_host(client: httpx2.AsyncClient, services: FakeServices) -> None:
    v1 = await client.post("/firecrawl/v1/map", json={"url": ROOT})
    v2 = await client.post("/v2/map", json={"url": ROOT, "search": "a", "limit": 5000})
    assert v1.json() == {"success": True, "links": [ROOT, f"{ROOT}a"]}
    assert v2.json() == {"success": True, "links": [{"url": ROOT}, {"url": f"{ROOT}a"}]}
    assert v2.headers["x-ignored-fields"] == "limit"


async def test_map_without_subdomains_leaves_them_out() -> None:
    services = FakeServices()
    services.site = type(services.site)({ROOT: ["/a", "https://docs.example.org/"]}, others=())
    async with app_client(services) as client:
        for prefix, sent, is_in in (
            ("/firecrawl/v1", {}, False),
            ("/firecrawl/v1", {"includeSubdomains": True}, True),
            ("/firecrawl/v2", {}, True),
            ("/firecrawl/v2", {"includeSubdomains": False}, False),
        ):
            answer = (await client.post(f"{prefix}/map", json={"url": ROOT, **sent})).json()
            assert ("https://docs.example.org/" in str(answer["links"])) is is_in, (prefix, sent)


async def test_scrapes_and_searches_count_as_reads() -> None:
    settings = {"LLM_PLATFORM_API_KEYS": "long-enough-key", "RATE_LIMIT_BURST": 1, "RATE_LIMIT_PER_MINUTE": 1}
    async with app_client(**settings) as client:
        for prefix in VERSIONS:
            for path, sent in (("scrape", {"url": ROOT}), ("search", {"query": "asyncio"})):
                answer = await client.post(
                    f"{prefix}/{path}", json=sent, headers={"Authorization": "Bearer long-enough-key"}
                )
                assert answer.status_code == 200
