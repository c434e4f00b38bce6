"""Both readers and the fake fulfil the contract of the port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.guards import guarded_reader
from tests.support.loopback_upstream import Exchange, head, serving
from tests.support.reading_pages import InProcess, Names, html

from modules.llm_platform.domain.exceptions import PageBlockedError, PageConnectionError, PageError, PageRequestError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import Guard
from modules.llm_platform.infrastructure.limits.upstream_limits import RateLimiter
from modules.llm_platform.infrastructure.pages.direct import DirectPageReader
from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
from modules.llm_platform.infrastructure.pages.jina import JinaPageReader
from modules.llm_platform.infrastructure.pages.page_readers import FailoverPageReader, GuardedPageReader, LazyPageReader
from modules.llm_platform.testing import FakePageReader, PageCase, PageReaderContract, SlowPage
from modules.llm_platform.testing.reader_probe import FakeNetwork

SITE = "http://a.example.net"


async def respond(ip: str, port: int, host: str, target: str) -> Any:
    """Return a site with a page of each kind."""
    if target == "/silent":
        await asyncio.Event().wait()
    if target == "/refused":
        raise ConnectionRefusedError
    if target == "/missing":
        return 404, {}, b"nothing here"
    body = (
        html("<p>Log in to continue.</p><input type=password>", "Log in")
        if target == "/login"
        else html("<p>Text.</p>")
    )
    return 200, {"Content-Type": "text/html"}, body


class Kept(PageReaderContract):
    """Each address of the site tests one rule of the contract."""

    @pytest.fixture
    def reader(self) -> IPageReader:
        raise AssertionError("given by each reader")

    @pytest.fixture
    def readable(self, reader: IPageReader) -> PageCase:
        return PageCase(reader, f"{SITE}/page")

    @pytest.fixture
    def unreachable(self, reader: IPageReader) -> PageCase:
        return PageCase(reader, f"{SITE}/refused")

    @pytest.fixture
    def refused(self, reader: IPageReader) -> PageCase:
        return PageCase(reader, "http://10.0.0.1/admin")

    @pytest.fixture
    def walled(self, reader: IPageReader) -> PageCase:
        return PageCase(reader, f"{SITE}/login")

    @pytest.fixture
    def missing(self, reader: IPageReader) -> PageCase:
        return PageCase(reader, f"{SITE}/missing")


class TestDirect(Kept):
    @pytest.fixture
    def served(self) -> FakeNetwork:
        return FakeNetwork(respond)

    @pytest.fixture
    def reader(self, served: FakeNetwork) -> IPageReader:
        return DirectPageReader(SafeFetcher(Guard(Names()), PinnedConnections(served)), InProcess())

    @pytest.fixture
    def slow(self, reader: IPageReader, served: FakeNetwork) -> SlowPage:
        return SlowPage(reader, f"{SITE}/silent", lambda: served.open)


class TestDirectBehindEveryPolicy(TestDirect):
    @pytest.fixture
    def reader(self, served: FakeNetwork) -> IPageReader:
        guard = Guard(Names())
        direct = DirectPageReader(SafeFetcher(guard, PinnedConnections(served)), InProcess())
        guarded = GuardedPageReader(guarded_reader(direct, RateLimiter(100, max_concurrent=5)), guard)
        only = FailoverPageReader([LazyPageReader(direct.name, lambda: guarded)])
        assert only.name == "direct"
        return only


def jina_text(title: str, text: str, *more: str) -> bytes:
    lines = [f"Title: {title}", "", f"URL Source: {SITE}/page", "", *more, "Markdown Content:", text]
    return "\n".join(lines).encode()


async def jina(exchange: Exchange) -> None:
    """A server with the interface of r.jina.ai."""
    page = exchange.path.rpartition("/")[2]
    if page == "silent":
        await exchange.reader.read()
    status = 503 if page == "refused" else 200
    body = {
        "missing": jina_text("404", "nothing", "Warning: Target URL returned error 404: Not Found", ""),
        "login": jina_text("Log in", "Log in to continue."),
    }.get(page, jina_text("A page", "# Text\n\nof the page"))
    await exchange.send(head(status, "Content-Type: text/plain", length=len(body)) + body)


class TestJina(Kept):
    @pytest.fixture
    async def upstream(self) -> AsyncIterator[Any]:
        async with serving(jina) as upstream:
            yield upstream

    @pytest.fixture
    async def reader(self, upstream: Any) -> AsyncIterator[IPageReader]:
        async with make_client(upstream.url) as client:
            yield GuardedPageReader(JinaPageReader("", upstream.url, client=client), Guard(Names()))

    @pytest.fixture
    def slow(self, reader: IPageReader, upstream: Any) -> SlowPage:
        return SlowPage(reader, f"{SITE}/silent", lambda: upstream.busy)


class TestFake(Kept):
    @pytest.fixture
    def reader(self) -> IPageReader:
        return FakePageReader(
            {
                f"{SITE}/page": "Text.",
                f"{SITE}/refused": PageConnectionError(),
                f"{SITE}/login": PageBlockedError(),
                f"{SITE}/missing": PageError(),
                "http://10.0.0.1/admin": PageRequestError(),
            }
        )

    @pytest.fixture
    def slow(self) -> SlowPage:
        silent = FakePageReader({}, delay_s=60)
        return SlowPage(silent, SITE, lambda: silent.running)


async def test_the_fake_records_addresses() -> None:
    """In order; its pages are returned unchanged."""
    first = FakePageReader({"a": "text"})
    page = await first.read("a")
    again = FakePageReader({"b": page})
    assert await again.read("b") is page
    with pytest.raises(PageError):
        await again.read("c")
    assert again.urls == ["b", "c"]
