"""Jina's reader and search."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices, app_client

from modules.llm_platform.domain.exceptions import PageBlockedError, PageConnectionError, PageError, PageRequestError
from modules.llm_platform.infrastructure.pages.jina import JinaPageReader

URL = "https://example.org/a"
TEXT = "An event loop runs tasks."
JSON = {"Accept": "application/json"}


async def test_page_has_its_title_and_its_address_above_the_text(client: httpx2.AsyncClient) -> None:
    answer = await client.get(f"/jina/{URL}")
    assert answer.text == f"Title: asyncio\n\nURL Source: {URL}\n\nMarkdown Content:\n{TEXT}"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_page_as_json(client: httpx2.AsyncClient) -> None:
    answer = (await client.get(f"/jina/{URL}", headers=JSON)).json()
    assert (answer["code"], answer["status"]) == (200, 20000)
    assert (answer["data"]["title"], answer["data"]["url"], answer["data"]["content"]) == ("asyncio", URL, TEXT)


@pytest.mark.parametrize("header", ["X-Return-Format", "X-Respond-With"])
async def test_format_of_the_headers(client: httpx2.AsyncClient, header: str) -> None:
    """The headers select the text format. Other formats are refused with the reason."""
    for name in ("markdown", "text", "content", "Markdown"):
        assert (await client.get(f"/jina/{URL}", headers={header: name})).text == TEXT
    for name in ("html", "screenshot", "no-content", "x" * 9000):
        refused = await client.get(f"/jina/{URL}", headers={header: name})
        assert (refused.status_code, refused.json()["data"]) == (400, None)
        assert "without their HTML" in refused.json()["readableMessage"]


@for_each(
    ("sent", "read"),
    [
        ("https://example.org/a?b=c&d=%20e", "https://example.org/a?b=c&d=%20e"),
        ("https://example.org/a%20b/%C3%A9", "https://example.org/a%20b/%C3%A9"),
        ("https%3A%2F%2Fexample.org%2Fa%3Fb", "https://example.org/a?b"),
        ("example.org/a", "https://example.org/a"),
        ("https:/example.org/a", "https://example.org/a"),
        ("http:///example.org/", "http://example.org/"),
        ("https://example.org/a//b?c=https://d.org/", "https://example.org/a//b?c=https://d.org/"),
        ("https://example.org/jina/b", "https://example.org/jina/b"),
    ],
)
async def test_address_is_read_as_it_was_sent(sent: str, read: str) -> None:
    """With its query and its encoded characters; a proxy may have merged its slashes."""
    services = FakeServices()
    async with app_client(services) as client:
        answer = await client.get(f"/jina/{sent}")
    assert (answer.status_code, services.requests) == (200, [read]), answer.text


async def test_body_has_the_address_with_its_fragment(client: httpx2.AsyncClient, services: FakeServices) -> None:
    for path, sent in (("/jina", {"json": {"url": f"{URL}#/route"}}), ("/jina/", {"data": {"url": f"{URL}#/route"}})):
        assert TEXT in (await client.post(path, **sent)).text  # type: ignore[arg-type]
    assert services.requests == [f"{URL}#/route"] * 2


@for_each(
    ("error", "status"),
    [
        (PageRequestError("private"), 400),
        (PageBlockedError("login"), 422),
        (PageError("404"), 422),
        (PageConnectionError("refused"), 503),
    ],
)
async def test_page_that_cannot_be_read_is_an_error_with_its_reason(error: Exception, status: int) -> None:
    services = FakeServices()
    services.error = error
    async with app_client(services) as client:
        answer = await client.get(f"/jina/{URL}")
    assert (answer.status_code, answer.json()["code"], str(error) in answer.json()["message"]) == (status, status, True)


async def test_search_has_the_pages_of_its_results(client: httpx2.AsyncClient, services: FakeServices) -> None:
    found = (
        await client.get("/jina/search", params={"q": "asyncio", "count": 3, "site": "example.org"}, headers=JSON)
    ).json()
    [result] = found["data"]
    assert (result["title"], result["url"], result["description"]) == (HIT.title, HIT.url, HIT.snippet)
    assert result["content"] == TEXT
    search = services.requests[0]
    assert (search.count, search.domains) == (3, ("example.org",))
    text = (await client.get("/jina/search/What%20is%20asyncio%3F")).text
    assert text.startswith(f"[1] Title: {HIT.title}\n[1] URL Source: {HIT.url}\n")
    assert f"[1] Markdown Content:\n{TEXT}" in text
    assert services.requests[2].query == "What is asyncio?"


async def test_search_without_pages_reads_none(client: httpx2.AsyncClient, services: FakeServices) -> None:
    headers = {**JSON, "X-Respond-With": "no-content"}
    [result] = (await client.post("/jina/search", json={"q": "asyncio", "num": 2}, headers=headers)).json()["data"]
    assert "content" not in result
    assert len(services.requests) == 1


@for_each(
    ("sent", "name"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"count": 21}, "count"),
        ({"count": "x"}, "count"),
        ({"page": 0}, "page"),
        ({"site": "a b"}, "site"),
    ],
)
async def test_invalid_parameter_is_a_400_with_its_name(sent: dict[str, Any], name: str) -> None:
    async with app_client() as client:
        refused = await client.get("/jina/search", params={"q": "asyncio", **sent} if sent else {})
        assert (refused.status_code, refused.json()["message"].startswith(name)) == (400, True), refused.text
        empty = await client.get("/jina/")
        assert empty.status_code == 400


async def test_our_own_reader_reads_through_the_door(services: FakeServices) -> None:
    """`JINA_BASE_URL` may be another server of this project."""
    async with app_client(services) as client:
        reader = JinaPageReader("key", base_url=f"{client.base_url}/jina", client=client)
        page = await reader.read(URL)
    assert (page.title, page.url, page.text) == ("asyncio", URL, TEXT)


async def test_reads_count_as_reads() -> None:
    settings = {"LLM_PLATFORM_API_KEYS": "long-enough-key", "RATE_LIMIT_BURST": 1, "RATE_LIMIT_PER_MINUTE": 1}
    async with app_client(**settings) as client:
        routes = ("GET", f"/jina/{URL}"), ("POST", "/jina/"), ("GET", "/jina/search?q=a"), ("POST", "/jina/search")
        for method, path in routes:
            sent = {"url": URL, "q": "asyncio"} if method == "POST" else None
            headers = {"Authorization": "Bearer long-enough-key"}
            assert (await client.request(method, path, json=sent, headers=headers)).status_code == 200
