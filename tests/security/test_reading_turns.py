"""Slow pages and names of one caller do not block reading for other callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime

import pytest
from tests.support.reading_pages import HTML, PUBLIC, InProcess, fetcher, html, page

from modules.llm_platform.domain.callers.current_caller import set_current_caller
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageBlockedError, PageError, PageTimeoutError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.http.guarded.guard import MAX_RESOLUTIONS, SystemResolver
from modules.llm_platform.infrastructure.pages.direct import DirectPageReader
from modules.llm_platform.infrastructure.pages.page_readers import TurnsPageReader
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed, ParserEndedError
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true

HANGING_NAMES = 70


async def test_hanging_names_do_not_block_another_caller() -> None:
    """A thread that waits for a silent name server cannot be stopped, so some threads are reserved for other callers."""
    silent, hanging = threading.Event(), []

    def resolve(host: str, port: int) -> Sequence[str]:
        if host.startswith("slow"):
            hanging.append(host)
            silent.wait(START_TIMEOUT_S)
        return [PUBLIC]

    resolver = SystemResolver(resolve)
    set_current_caller("attacker")
    slow = [asyncio.create_task(resolver.resolve(f"slow{number}.net", 80)) for number in range(HANGING_NAMES)]
    try:
        assert await becomes_true(lambda: len(hanging) == MAX_RESOLUTIONS // 2, START_TIMEOUT_S)
        for task in slow:  # like the guard does after its timeout; the threads continue
            task.cancel()
        set_current_caller("victim")
        assert await resolver.resolve("quick.net", 80) == [PUBLIC]
        assert not silent.is_set()
    finally:
        silent.set()
        await asyncio.wait(slow)
        await resolver.aclose()


class SlowReader(IPageReader):
    """Reads the page `slow` only when `may_end` is set, and other pages at once."""

    name = "slow"

    def __init__(self) -> None:
        self.read_addresses: list[str] = []
        self.may_end = asyncio.Event()

    async def read(self, url: str) -> Page:
        self.read_addresses.append(url)
        if "slow" in url:
            await self.may_end.wait()
        now = datetime.now(UTC)
        return Page(url=url, title="", text="text", read_at=now, reader=self.name, sha256="", media_type="text/html")


async def test_pages_that_do_not_load_leave_room_for_another_caller() -> None:
    """Pages of another caller are opened first. The places of hanging pages become free after the page timeout."""
    slow = SlowReader()
    reader = TurnsPageReader(slow, 8, max_wait_s=START_TIMEOUT_S)
    set_current_caller("attacker")
    pages = [asyncio.create_task(reader.read(f"https://a.example.net/slow{number}")) for number in range(50)]
    assert await becomes_true(lambda: len(slow.read_addresses) == 4, START_TIMEOUT_S)
    set_current_caller("victim")
    assert (await reader.read("https://b.example.net/")).text == "text"
    slow.may_end.set()
    assert len(await asyncio.gather(*pages)) == 50


async def test_a_page_that_waits_too_long_is_an_error() -> None:
    """The error says that too many pages are being read."""
    slow = SlowReader()
    reader = TurnsPageReader(slow, 2, max_wait_s=0.05)
    first = asyncio.create_task(reader.read("https://a.example.net/slow"))
    assert await becomes_true(lambda: bool(slow.read_addresses), START_TIMEOUT_S)
    with pytest.raises(PageTimeoutError, match="too many others"):
        await reader.read("https://a.example.net/next")
    slow.may_end.set()
    await first


async def test_concurrent_reads_of_one_address_are_merged() -> None:
    """Concurrent reads of one address share a request, whatever their fragments."""
    slow = SlowReader()
    reader = TurnsPageReader(slow, 8, max_wait_s=START_TIMEOUT_S)
    pages = [asyncio.create_task(reader.read(f"https://a.example.net/slow#{number}")) for number in range(50)]
    assert await becomes_true(lambda: bool(slow.read_addresses), START_TIMEOUT_S)
    slow.may_end.set()
    await asyncio.gather(*pages)
    assert len(slow.read_addresses) == 1


async def test_few_pages_are_in_memory_and_many_wait_for_their_servers() -> None:
    """A page takes its turn when its body begins to arrive, and releases it when it is read or fails."""
    asked, begun, may_end = list[str](), list[str](), asyncio.Event()

    async def respond(ip: str, port: int, host: str, target: str) -> tuple[int, object, object]:
        asked.append(host)

        async def body() -> AsyncGenerator[bytes]:
            begun.append(host)
            await may_end.wait()
            yield html(f"<p>{'A long text. ' * 50}")
            if "broken" in host:
                raise ConnectionResetError

        return 200, HTML, body()

    reader = DirectPageReader(fetcher(respond), InProcess(), max_bodies=8)  # type: ignore[arg-type]  of any answer
    hosts = [f"{kind}{number}.example.net" for number in range(10) for kind in ("whole", "broken")]
    pages = [asyncio.create_task(reader.read(f"https://{host}/")) for host in hosts]
    assert await becomes_true(lambda: len(asked) == len(hosts), START_TIMEOUT_S)
    assert await becomes_true(lambda: len(begun) == 4, START_TIMEOUT_S)  # a single caller gets half of the turns
    set_current_caller("another")
    other = asyncio.create_task(reader.read("https://other.example.net/"))
    assert await becomes_true(lambda: "other.example.net" in begun, START_TIMEOUT_S)
    assert len(begun) == 5
    may_end.set()
    read = await asyncio.gather(*pages, other, return_exceptions=True)
    assert [isinstance(page, Page) for page in read] == [True, False] * 10 + [True]
    assert len(begun) == len(hosts) + 1


class DyingParsers(InProcess):
    """Parsers that crash on a page with the word `deadly`."""

    async def html(self, html: str) -> Parsed:
        if "deadly" in html:
            raise ParserEndedError("reading it took longer than 3 s of CPU time")
        return await super().html(html)


async def test_a_host_whose_page_ended_a_parser_waits() -> None:
    """After a page has crashed a parser, the next page of its host is not fetched for this caller.

    Other hosts, other callers and merely unreadable pages are not affected, so nobody can block a shared host for
    others.
    """
    asked: list[str] = []

    def respond(ip: str, port: int, host: str, target: str) -> object:
        asked.append(host + target)
        body = html("deadly" if target == "/deadly" else "" if target == "/empty" else f"<p>{'A long text. ' * 50}")
        return page(body)(ip, port, host, target)

    reader = DirectPageReader(fetcher(respond), DyingParsers())  # type: ignore[arg-type]  of any answer
    with pytest.raises(PageError):
        await reader.read("https://a.example.net/empty")
    assert (await reader.read("https://a.example.net/text")).text
    with pytest.raises(PageError, match="CPU time"):
        await reader.read("https://a.example.net/deadly")
    asked.clear()
    with pytest.raises(PageBlockedError, match="ended its parser"):
        await reader.read("https://a.example.net/text")
    assert not asked
    assert (await reader.read("https://b.example.net/text")).text
    set_current_caller("another")
    assert (await reader.read("https://a.example.net/text")).text
