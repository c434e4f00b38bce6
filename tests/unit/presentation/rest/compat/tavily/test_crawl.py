"""Tavily's crawl and map. What a crawl opens is in application/services/test_site_crawl_service.py."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx2
import pytest
from tests.fakes.site_reader import FakeSiteReader
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageError,
    PageRequestError,
    PageTimeoutError,
)
from modules.llm_platform.presentation.rest.compat.tavily import crawl
from modules.llm_platform.presentation.rest.http import server_state
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true

CRAWL, MAP = "/tavily/crawl", "/tavily/map"
ROOT = "https://example.org/"


async def test_crawl_has_the_fields_of_the_client(client: httpx2.AsyncClient) -> None:
    response = await client.post(CRAWL, json={"url": ROOT, "include_favicon": True})
    answer = response.json()
    assert "x-ignored-fields" not in response.headers
    assert answer.pop("response_time") >= 0
    assert answer.pop("request_id")
    assert answer == {
        "base_url": ROOT,
        "results": [
            {"url": url, "title": "A page", "raw_content": f"Text of {url}", "images": [], "favicon": None}
            for url in (ROOT, f"{ROOT}a")
        ],
        "failed_results": [],
        "llm_platform": {"stopped": None},
    }


async def test_map_has_the_addresses(client: httpx2.AsyncClient, services: FakeServices) -> None:
    answer = (await client.post(MAP, json={"url": ROOT})).json()
    assert (answer["base_url"], answer["results"]) == (ROOT, [ROOT, f"{ROOT}a"])
    assert services.site.urls == [ROOT]


async def test_fields_without_effect_are_named(client: httpx2.AsyncClient) -> None:
    """Partially supported fields are named too. A field that asks for the default behaviour is not."""
    sent = {
        "url": ROOT,
        "extract_depth": "advanced",
        "format": "text",
        "chunks_per_source": 2,
        "limit": 5000,
        "categories": ["Blogs"],
        "include_usage": True,
    }
    ignored = (await client.post(CRAWL, json=sent)).headers["x-ignored-fields"]
    assert set(ignored.split(", ")) == {*sent} - {"url"}
    served = await client.post(CRAWL, json={"url": ROOT, "extract_depth": "basic", "format": "markdown", "limit": 5})
    assert "x-ignored-fields" not in served.headers
    ordered = await client.post(CRAWL, json={"url": ROOT, "instructions": "tea", "chunks_per_source": 1})
    assert ordered.headers["x-ignored-fields"] == "instructions"


@for_each(
    ("sent", "name"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": " "}, "url"),
        ({"max_depth": 0}, "max_depth"),
        ({"max_depth": 6}, "max_depth"),
        ({"max_breadth": 501}, "max_breadth"),
        ({"limit": 0}, "limit"),
        ({"select_paths": ["(a"]}, "select_paths"),
        ({"exclude_domains": [r"(a)\1"]}, "exclude_domains"),
        ({"timeout": 151}, "timeout"),
        ({"format": "html"}, "format"),
        ({"instructions": "x" * 2001}, "instructions"),
        ({"allow_external": "yes"}, "allow_external"),
    ],
)
async def test_invalid_field_is_a_400_with_its_name(sent: dict[str, Any], name: str) -> None:
    async with app_client() as client:
        refused = await client.post(CRAWL, json={"url": ROOT, **sent} if sent else {})
    assert refused.status_code == 400
    assert refused.json()["detail"]["error"].startswith(name), refused.text


@for_each(
    ("error", "status"),
    [
        (PageRequestError("private"), 400),
        (PageBlockedError("robots"), 403),
        (PageError("404"), 400),
        (PageTimeoutError("slow"), 400),
        (PageConfigError("off"), 503),
    ],
)
async def test_first_page_that_cannot_be_read_is_the_error(error: Exception, status: int) -> None:
    """The SDK raises a 400 and a 403 with our message, and any other status without it."""
    services = FakeServices()
    services.site = FakeSiteReader({ROOT: error})  # type: ignore[dict-item]
    async with app_client(services) as client:
        for path in (CRAWL, MAP):
            answer = await client.post(path, json={"url": ROOT})
            message = f"url: {error}" if isinstance(error, PageRequestError) else str(error)
            assert (answer.status_code, answer.json()) == (status, {"detail": {"error": message}})
            assert "retry-after" not in answer.headers


async def test_excerpts_do_not_block_other_requests(
    client: httpx2.AsyncClient, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passages are ranked outside of the event loop, page by page and up to a limit of text, while the crawl holds its
    slot.
    """
    threads: list[threading.Thread] = []

    def excerpt(text: str, *_: object) -> str:
        threads.append(threading.current_thread())
        return text

    monkeypatch.setattr(crawl, "select_excerpt", excerpt)
    monkeypatch.setattr(crawl, "MAX_RANKED_CHARS", 10)
    answer = (await client.post(CRAWL, json={"url": ROOT, "instructions": "tea", "chunks_per_source": 1})).json()
    assert [result["raw_content"] for result in answer["results"]] == ["Text of ht", "Text of ht"]
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_excerpts_end_with_the_time_of_the_client(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is not ranked before the client's timeout has its beginning as excerpt."""
    monkeypatch.setattr(crawl, "EXCERPT_SHARE", 0.0)
    monkeypatch.setattr(crawl, "CHUNK_CHARS", 4)
    monkeypatch.setattr(crawl, "select_excerpt", lambda *_: pytest.fail("a page was ranked"))
    answer = (await client.post(CRAWL, json={"url": ROOT, "instructions": "tea", "chunks_per_source": 2})).json()
    assert [result["raw_content"] for result in answer["results"]] == ["Text of ", "Text of "]


async def test_client_that_leaves_ends_the_crawl() -> None:
    services = FakeServices()
    services.site = FakeSiteReader({}, {ROOT: asyncio.Event()})
    async with app_client(services) as client:
        task = asyncio.create_task(client.post(CRAWL, json={"url": ROOT}))
        assert await becomes_true(lambda: services.site.running == 1, CLOSE_TIMEOUT_S)
        task.cancel()
        await asyncio.wait([task])
        assert await becomes_true(lambda: services.site.running == 0, CLOSE_TIMEOUT_S)


async def test_crawls_at_once_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl may hold many pages: the others wait for a slot, then get 503."""
    monkeypatch.setattr(server_state, "MAX_CRAWLS", 1)
    services = FakeServices()
    gate = asyncio.Event()
    services.site = FakeSiteReader({ROOT: []}, {ROOT: gate})
    async with app_client(services) as client:
        first, second = (asyncio.create_task(client.post(CRAWL, json={"url": ROOT})) for _ in range(2))
        assert await becomes_true(lambda: services.site.running == 1, CLOSE_TIMEOUT_S)
        refused = (await asyncio.wait([first, second], timeout=30, return_when=asyncio.FIRST_COMPLETED))[0]
        assert ["the maximum number of sites" in task.result().text for task in refused] == [True]
        gate.set()
        assert sorted([(await first).status_code, (await second).status_code]) == [200, 503]
