"""Firecrawl's crawl. What a crawl opens is in application/services/test_site_crawl_service.py."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from tests.fakes.site_reader import FakeSiteReader
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.exceptions import PageBlockedError, PageError
from modules.llm_platform.presentation.rest.compat.firecrawl import crawl

ROOT = "https://example.org/"
VERSIONS = ("/firecrawl/v1", "/firecrawl/v2", "/v2")
GUARD_S = 30.0


async def ended(client: httpx2.AsyncClient, task: dict[str, Any], prefix: str = "/v2") -> dict[str, Any]:
    async with asyncio.timeout(GUARD_S):
        while True:
            state: dict[str, Any] = (await client.get(f"{prefix}/crawl/{task['id']}")).json()
            if state["status"] != "scraping":
                return state
            await asyncio.sleep(0.01)


async def started(client: httpx2.AsyncClient, prefix: str = "/v2", **sent: Any) -> dict[str, Any]:
    answer = await client.post(f"{prefix}/crawl", json={"url": ROOT, **sent})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("prefix", VERSIONS)
async def test_crawl_has_the_pages_when_it_has_ended(client: httpx2.AsyncClient, prefix: str) -> None:
    task = await started(client, prefix)
    assert task["success"] is True
    assert task["url"].endswith(f"{prefix}/crawl/{task['id']}")
    state = await ended(client, task, prefix)
    assert (state["status"], state["completed"], state["total"], "next" in state) == ("completed", 2, 2, False)
    assert state["data"][0] == {
        "markdown": f"Text of {ROOT}",
        "metadata": {"title": "A page", "url": ROOT, "sourceURL": ROOT, "statusCode": 200},
    }


async def test_next_is_the_address_of_more_pages(client: httpx2.AsyncClient) -> None:
    """Clients follow `next` until it is missing."""
    task = await started(client)
    await ended(client, task)
    first = (await client.get(f"/v2/crawl/{task['id']}", params={"limit": 1})).json()
    second = (await client.get(first["next"])).json()
    assert [page["metadata"]["url"] for page in first["data"] + second["data"]] == [ROOT, f"{ROOT}a"]
    assert "next" not in second


async def test_page_that_cannot_be_read_is_among_the_errors() -> None:
    services = FakeServices()
    pages = {ROOT: ["/a", "/b"], f"{ROOT}a": PageBlockedError("robots.txt"), f"{ROOT}b": PageError("empty")}
    services.site = FakeSiteReader(pages, others=())  # type: ignore[arg-type]
    async with app_client(services) as client:
        task = await started(client)
        state = await ended(client, task)
        assert (state["completed"], state["total"]) == (1, 3)
        answer = (await client.get(f"/v2/crawl/{task['id']}/errors")).json()
    assert [(error["url"], error["code"]) for error in answer["errors"]] == [
        (f"{ROOT}a", "page_blocked"),
        (f"{ROOT}b", "page_error"),
    ]
    assert answer["robotsBlocked"] == [f"{ROOT}a"]


async def test_first_page_that_cannot_be_read_fails_the_crawl() -> None:
    services = FakeServices()
    services.site = FakeSiteReader({ROOT: PageError("The page has no text.")})  # type: ignore[dict-item]
    async with app_client(services) as client:
        state = await ended(client, await started(client))
    assert (state["status"], state["error"], state["data"]) == ("failed", "The page has no text.", [])


async def test_crawl_can_be_cancelled_once() -> None:
    """One that has ended is a conflict, which clients take for nothing to cancel."""
    services = FakeServices()
    services.site = FakeSiteReader({ROOT: []}, {ROOT: asyncio.Event()})
    async with app_client(services) as client:
        task = await started(client)
        cancelled = await client.delete(f"/v2/crawl/{task['id']}")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        assert (await ended(client, task))["status"] == "cancelled"
    async with app_client() as client:
        task = await started(client)
        await ended(client, task)
        assert (await client.delete(f"/v2/crawl/{task['id']}")).status_code == 409


async def test_crawl_belongs_to_its_key() -> None:
    """A crawl id of another caller and the id of a research run are not found."""
    keys = {"Authorization": "Bearer first-long-key"}, {"Authorization": "Bearer other-long-key"}
    async with app_client(LLM_PLATFORM_API_KEYS="first-long-key,other-long-key") as client:
        task = (await client.post("/v2/crawl", json={"url": ROOT}, headers=keys[0])).json()
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/errors")):
            foreign = await client.request(method, f"/v2/crawl/{task['id']}{path}", headers=keys[1])
            assert (foreign.status_code, foreign.json()["success"]) == (404, False)
        run = await client.post("/tavily/research", json={"input": "What is asyncio?"}, headers=keys[0])
        research_id = run.json()["request_id"].rpartition("-")[0]
        assert (await client.get(f"/v2/crawl/{research_id}", headers=keys[0])).status_code == 404


@pytest.mark.parametrize("path", ["crawl", "map", "scrape"])
@pytest.mark.parametrize("url", ["\x00", "https://a.example/\x00", " "])
async def test_unusable_address_is_a_400_that_names_the_field(path: str, url: str) -> None:
    """NUL or nothing but blanks is refused before anything is stored or read."""
    async with app_client(FakeServices()) as client:
        for prefix in VERSIONS:
            refused = await client.post(f"{prefix}/{path}", content=json.dumps({"url": url}))
            assert (refused.status_code, "url" in refused.text) == (400, True), refused.text


@for_each(
    ("sent", "name"),
    [
        ({"url": ""}, "url"),
        ({"limit": 0}, "limit"),
        ({"limit": 100_001}, "limit"),
        ({"maxDepth": -1}, "maxDepth"),
        ({"includePaths": ["(a"]}, "includePaths"),
        ({"excludePaths": ["a"] * 21}, "excludePaths"),
        ({"allowExternalLinks": "yes"}, "allowExternalLinks"),
        ({"scrapeOptions": {"formats": ["html"]}}, "scrapeOptions.formats"),
    ],
)
async def test_invalid_field_is_a_400_with_its_name(sent: dict[str, Any], name: str) -> None:
    async with app_client() as client:
        refused = await client.post("/firecrawl/v1/crawl", json={"url": ROOT, **sent})
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"].startswith(name), refused.text


@for_each(
    ("sent", "expected"),
    [
        ({}, {"select_domains": (r"^(www\.)?example\.org$",), "select_paths": (), "max_depth": 5, "limit": 500}),
        ({"url": "https://example.org/docs/"}, {"select_paths": ("^/docs(/|$)",)}),
        ({"url": "https://example.org/docs/", "crawlEntireDomain": True}, {"select_paths": ()}),
        ({"url": "https://example.org/docs/", "includePaths": ["/a"]}, {"select_paths": ("/a",)}),
        ({"allowSubdomains": True}, {"select_domains": (), "allow_external": False}),
        ({"allowExternalLinks": True}, {"select_domains": (), "allow_external": True}),
        ({"maxDiscoveryDepth": 0}, {"limit": 1, "max_depth": 1}),
        ({"maxDepth": 2, "limit": 7}, {"max_depth": 2, "limit": 7}),
        ({"url": f"https://example.org/{'x' * 200}"}, {"select_paths": ()}),
    ],
)
def test_bounds_are_those_of_the_request(sent: dict[str, Any], expected: dict[str, Any]) -> None:
    request = crawl.FirecrawlCrawlRequest.model_validate({"url": ROOT, **sent}).crawl
    assert {name: getattr(request, name) for name in expected} == expected


async def test_what_changes_nothing_is_named(client: httpx2.AsyncClient) -> None:
    sent = {
        "url": ROOT,
        "limit": 5000,
        "maxDepth": 9,
        "webhook": "https://example.org/",
        "ignoreSitemap": True,
        "scrapeOptions": {"formats": ["markdown", "links"]},
    }
    answer = await client.post("/firecrawl/v1/crawl", json=sent)
    ignored = set(answer.headers["x-ignored-fields"].split(", "))
    assert ignored == {"limit", "maxDepth", "webhook", "ignoreSitemap", "scrapeOptions.formats"}
