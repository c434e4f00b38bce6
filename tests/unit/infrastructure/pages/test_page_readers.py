"""The policies around page readers: failover, guard, rate limit, lazy building."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.clock import Clock
from tests.support.guards import guarded_reader
from tests.support.reading_pages import Names

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    PageTimeoutError,
)
from modules.llm_platform.domain.research.page_links import keep_links, keeps_links
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.http.guarded.guard import MAX_ADDRESSES, AllowedHosts, Guard
from modules.llm_platform.infrastructure.http.guarded.url import parse_address
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker, RateLimiter
from modules.llm_platform.infrastructure.pages.page_readers import (
    CachedPageReader,
    FailoverPageReader,
    GuardedPageReader,
    LazyPageReader,
)
from modules.llm_platform.infrastructure.pages.upstream_page_reader import UpstreamPageReader
from modules.llm_platform.infrastructure.unconfigured import unconfigured_page_reader
from modules.llm_platform.testing import FakePageReader

URL = "http://a.example.net/"


class TestFailover:
    @for_each("error", [PageError(), PageBlockedError(), PageConnectionError(), PageTimeoutError(), PageConfigError()])
    async def test_the_next_reader_reads_after_a_failure(self, error: Exception) -> None:
        """This holds for any error of the first reader."""
        first, second = FakePageReader({URL: error}), FakePageReader({URL: "text"}, name="second")  # type: ignore[dict-item]
        chain = FailoverPageReader([first, second])
        assert (await chain.read(URL)).text == "text"
        assert chain.name == "fake,second"

    async def test_a_request_error_is_raised_at_once(self) -> None:
        """No other reader gets the address."""
        second = FakePageReader({URL: "text"})
        with pytest.raises(PageRequestError):
            await FailoverPageReader([FakePageReader({URL: PageRequestError()}), second]).read(URL)
        assert second.urls == []

    async def test_the_last_error_is_raised_when_all_fail(self) -> None:
        """Without a reader the error names the setting."""
        readers = [FakePageReader({URL: PageBlockedError()}), FakePageReader({URL: PageTimeoutError()})]
        with pytest.raises(PageTimeoutError):
            await FailoverPageReader(readers).read(URL)
        with pytest.raises(PageConfigError, match="READERS"):
            await FailoverPageReader([]).read(URL)


class TestGuarded:
    @for_each("url", ["http://10.0.0.1/", "http://db/", "ftp://a.example.net/", "http://a.example.net:22/"])
    async def test_a_refused_address_does_not_reach_the_reader(self, url: str) -> None:
        """The address is checked first."""
        inner = FakePageReader({})
        with pytest.raises(PageRequestError):
            await GuardedPageReader(inner, Guard(Names())).read(url)
        assert inner.urls == []

    @for_each("answer", [["10.0.0.1"], ["9.9.9.9", "::1"], [], ["x"], OSError(), ["9.9.9.9"] * (MAX_ADDRESSES + 1)])
    async def test_a_name_is_resolved_before_the_reader_gets_it(self, answer: Sequence[str] | Exception) -> None:
        """A name of a private address, or of none, is refused."""
        inner = FakePageReader({})
        with pytest.raises((PageRequestError, PageConnectionError)):
            await GuardedPageReader(inner, Guard(Names(answer))).read(URL)
        assert inner.urls == []

    async def test_the_reader_gets_the_checked_form(self) -> None:
        """Without the fragment."""
        inner = FakePageReader({URL: "text"})
        await GuardedPageReader(inner, Guard(Names())).read("HTTP://A.example.NET#part")
        assert inner.urls == [URL]

    @pytest.mark.parametrize("at_home", [True, False])
    async def test_a_private_host_is_only_passed_to_a_local_reader(self, at_home: bool) -> None:
        """A host of READER_ALLOWED_HOSTS reaches no external service."""
        inner = FakePageReader({"http://wiki/": "text"})
        guard = Guard(Names(["10.0.0.1"]), AllowedHosts(["wiki"]))
        reader = GuardedPageReader(inner, guard, is_local=at_home)
        if at_home:
            assert (await reader.read("http://wiki/")).text == "text"
        else:
            with pytest.raises(PageConfigError, match="READERS"):
                await reader.read("http://wiki/")
            assert inner.urls == []

    async def test_a_silent_name_server_is_a_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The guard limits its wait for DNS."""
        monkeypatch.setattr("modules.llm_platform.infrastructure.http.guarded.guard.RESOLVE_TIMEOUT_S", 0.02)

        class Silent(Names):
            async def resolve(self, host: str, port: int) -> Sequence[str]:
                await asyncio.sleep(60)
                return []

        with pytest.raises(PageConnectionError, match="in time"):
            await Guard(Silent()).check(parse_address(URL))

    @for_each(
        ("url", "allowed"),
        [
            ("http://jina:3000", True),
            ("http://10.1.0.9:3000/x", True),
            ("https://r.jina.ai", False),
            ("nonsense", False),
        ],
    )
    def test_an_upstream_is_allowed_by_name_or_address(self, url: str, allowed: bool) -> None:
        """Nothing is resolved."""
        assert Guard(Names(), AllowedHosts(["jina", "10.1.0.0/16"])).allows(url) is allowed


def throttled(reader: Any, rps: float, clock: Clock, **options: Any) -> UpstreamPageReader:
    limiter = RateLimiter(rps, max_concurrent=5, clock=clock, sleep=clock.sleep)
    return guarded_reader(reader, limiter, circuit=CircuitBreaker("fake", clock=clock), **options)


class TestRateLimited:
    async def test_a_wait_that_is_too_long_is_an_error(self) -> None:
        """The error names the wait."""
        clock = Clock()
        reader = throttled(FakePageReader({URL: "text"}), 0.01, clock)
        await reader.read(URL)
        with pytest.raises(PageBlockedError) as caught:
            await reader.read(URL)
        assert caught.value.retry_after_s == 100
        assert clock.slept == []

    async def test_a_retry_after_closes_the_service_for_all(self) -> None:
        """A bot wall of a page closes nothing."""
        clock = Clock()
        inner = FakePageReader({URL: PageBlockedError(retry_after_s=30.0), "wall": PageBlockedError(), "good": "text"})
        reader = throttled(inner, 100, clock)
        with pytest.raises(PageBlockedError):
            await reader.read("wall")
        await reader.read("good")
        with pytest.raises(PageBlockedError):
            await reader.read(URL)
        with pytest.raises(PageBlockedError, match="30 s"):
            await reader.read("good")
        assert inner.urls == ["wall", "good", URL]
        clock.now += 30
        assert (await reader.read("good")).text == "text"


class LinkingReader(FakePageReader):
    """Returns links if they are asked for, as the direct reader does."""

    async def read(self, url: str) -> Page:
        page = await super().read(url)
        return page.model_copy(update={"links": (("/b", "B"),)}) if keeps_links() else page


class TestCached:
    async def test_a_page_is_read_once(self) -> None:
        """Concurrent reads too."""
        inner = FakePageReader({URL: "text"})
        reader = CachedPageReader(inner, MemoryCache(10), 60.0)
        await asyncio.gather(reader.read(URL), reader.read(URL))
        await reader.read(URL)
        assert inner.urls == [URL]

    async def test_links_that_are_asked_for_are_there(self) -> None:
        """Whether the page was read before, or is being read, for an answer that follows no links."""
        reader = CachedPageReader(LinkingReader({URL: "text"}), MemoryCache(10), 60.0)

        async def read_with_links() -> Page:
            with keep_links():
                return await reader.read(URL)

        plain, linked = await asyncio.gather(reader.read(URL), read_with_links())
        assert (plain.links, linked.links) == ((), (("/b", "B"),))
        assert (await read_with_links()).links == linked.links

    async def test_a_page_with_links_serves_those_who_need_none(self) -> None:
        inner = LinkingReader({URL: "text"})
        reader = CachedPageReader(inner, MemoryCache(10), 60.0)
        with keep_links():
            await reader.read(URL)
        assert (await reader.read(URL)).text == "text"
        assert inner.urls == [URL]


async def test_a_lazy_reader_is_built_on_first_use() -> None:
    """Once."""
    made: list[int] = []

    def make() -> FakePageReader:
        made.append(1)
        return FakePageReader({URL: "text"})

    reader = LazyPageReader("late", make)
    assert made == []
    await reader.read(URL)
    await reader.read(URL)
    assert made == [1]


async def test_an_unconfigured_reader_raises_its_remedy() -> None:
    """At the call."""
    with pytest.raises(PageConfigError, match="set this"):
        await unconfigured_page_reader("offline", "set this").read(URL)
