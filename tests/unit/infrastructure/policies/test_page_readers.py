"""The policies around page readers: order, guard, throttle, late making."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.reading_pages import Names

from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
    PageTimeoutError,
)
from modules.llm_platform.infrastructure.policies.failover import FailoverPageReader
from modules.llm_platform.infrastructure.policies.page_reader_guards import GuardedPageReader, LatePageReader
from modules.llm_platform.infrastructure.policies.rate_limits import RateLimiter, ThrottledPageReader
from modules.llm_platform.infrastructure.policies.unconfigured import UnconfiguredPageReader
from modules.llm_platform.infrastructure.safe_reader.guard import MAX_ADDRESSES, AllowedHosts, Guard
from modules.llm_platform.infrastructure.safe_reader.url import parse_address
from modules.llm_platform.testing import FakePageReader

URL = "http://a.example.net/"


class TestFailover:
    @pytest.mark.parametrize(
        "error", [PageError(), PageBlockedError(), PageConnectionError(), PageTimeoutError(), PageConfigError()]
    )
    async def test_the_next_one_reads(self, error: Exception) -> None:
        """Whatever keeps the first one from reading."""
        first, second = FakePageReader({URL: error}), FakePageReader({URL: "text"}, name="second")  # type: ignore[dict-item]
        chain = FailoverPageReader([first, second])
        assert (await chain.read(URL)).text == "text"
        assert chain.name == "fake,second"

    async def test_what_may_not_be_read_is_not_tried_elsewhere(self) -> None:
        """The caller's mistake is one for every reader."""
        second = FakePageReader({URL: "text"})
        with pytest.raises(PageRequestError):
            await FailoverPageReader([FakePageReader({URL: PageRequestError()}), second]).read(URL)
        assert second.urls == []

    async def test_the_last_error_counts(self) -> None:
        """When none can read; and without a reader the setting is named."""
        readers = [FakePageReader({URL: PageBlockedError()}), FakePageReader({URL: PageTimeoutError()})]
        with pytest.raises(PageTimeoutError):
            await FailoverPageReader(readers).read(URL)
        with pytest.raises(PageConfigError, match="READERS"):
            await FailoverPageReader([]).read(URL)


class TestGuarded:
    @pytest.mark.parametrize(
        "url", ["http://10.0.0.1/", "http://db/", "ftp://a.example.net/", "http://a.example.net:22/"]
    )
    async def test_the_reader_never_hears_of_what_is_refused(self, url: str) -> None:
        """Checked before it is told to anybody."""
        inner = FakePageReader({})
        with pytest.raises(PageRequestError):
            await GuardedPageReader(inner, Guard(Names())).read(url)
        assert inner.urls == []

    @pytest.mark.parametrize(
        "answer", [["10.0.0.1"], ["9.9.9.9", "::1"], [], ["x"], OSError(), ["9.9.9.9"] * (MAX_ADDRESSES + 1)]
    )
    async def test_the_name_is_resolved_before(self, answer: Sequence[str] | Exception) -> None:
        """A name that leads inside, or nowhere, is not told either."""
        inner = FakePageReader({})
        with pytest.raises((PageRequestError, PageConnectionError)):
            await GuardedPageReader(inner, Guard(Names(answer))).read(URL)
        assert inner.urls == []

    async def test_it_hears_the_checked_form(self) -> None:
        """And nothing of a fragment."""
        inner = FakePageReader({URL: "text"})
        await GuardedPageReader(inner, Guard(Names())).read("HTTP://A.example.NET#part")
        assert inner.urls == [URL]

    @pytest.mark.parametrize("at_home", [True, False])
    async def test_an_allowed_host_is_told_at_home_alone(self, at_home: bool) -> None:
        """What only the operator's permission opens leaves the house for no reader outside."""
        inner = FakePageReader({"http://wiki/": "text"})
        guard = Guard(Names(["10.0.0.1"]), AllowedHosts(["wiki"]))
        reader = GuardedPageReader(inner, guard, at_home=at_home)
        if at_home:
            assert (await reader.read("http://wiki/")).text == "text"
        else:
            with pytest.raises(PageConfigError, match="READERS"):
                await reader.read("http://wiki/")
            assert inner.urls == []

    async def test_a_silent_name_server_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The guard waits for DNS no longer than a while."""
        monkeypatch.setattr("modules.llm_platform.infrastructure.safe_reader.guard.RESOLVES_WITHIN_S", 0.02)

        class Silent(Names):
            async def resolve(self, host: str, port: int) -> Sequence[str]:
                await asyncio.sleep(60)
                return []

        with pytest.raises(PageConnectionError, match="in time"):
            await Guard(Silent()).check(parse_address(URL))

    @pytest.mark.parametrize(
        ("url", "allowed"),
        [
            ("http://jina:3000", True),
            ("http://10.1.0.9:3000/x", True),
            ("https://r.jina.ai", False),
            ("nonsense", False),
        ],
    )
    def test_whether_an_upstream_is_allowed(self, url: str, allowed: bool) -> None:
        """By its name or its literal address; nothing is resolved."""
        assert Guard(Names(), AllowedHosts(["jina", "10.1.0.0/16"])).allows(url) is allowed


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.now += seconds


def throttled(reader: Any, rps: float, time: Time, **options: Any) -> ThrottledPageReader:
    return ThrottledPageReader(reader, RateLimiter(rps, at_once=5, clock=time.clock, sleep=time.sleep), **options)


class TestThrottled:
    async def test_five_a_second(self) -> None:
        """Five go at once, the sixth when a second has passed since the first."""
        time = Time()
        reader = throttled(FakePageReader({URL: "text"}), 5, time)
        for _ in range(11):
            await reader.read(URL)
        assert time.slept == [1.0, 1.0]
        assert reader.name == "fake"

    async def test_one_in_three_seconds(self) -> None:
        """A rate below one is a pause between two."""
        time = Time()
        reader = throttled(FakePageReader({URL: "text"}), 0.33, time)
        for _ in range(3):
            await reader.read(URL)
        assert time.slept == [3.03, 3.03]

    async def test_side_by_side_each_waits_for_its_turn(self) -> None:
        """Turns are given out in the order of asking."""
        time = Time()
        inner = FakePageReader({str(number): "text" for number in range(4)})
        reader = throttled(inner, 0.5, time)
        await asyncio.gather(*(reader.read(str(number)) for number in range(4)))
        assert time.slept == [2.0, 2.0, 2.0]
        assert inner.urls == ["0", "1", "2", "3"]

    async def test_who_would_wait_too_long_is_sent_away(self) -> None:
        """The next reader is quicker; the wait is told."""
        time = Time()
        reader = throttled(FakePageReader({URL: "text"}), 0.01, time)
        await reader.read(URL)
        with pytest.raises(PageBlockedError) as caught:
            await reader.read(URL)
        assert caught.value.retry_after_s == 100
        assert time.slept == []

    async def test_being_asked_to_wait_holds_for_all(self) -> None:
        """After a Retry-After nobody asks before its time; a page's own wall closes nothing."""
        time = Time()
        inner = FakePageReader({URL: PageBlockedError(retry_after_s=30.0), "wall": PageBlockedError(), "good": "text"})
        reader = throttled(inner, 100, time)
        with pytest.raises(PageBlockedError):
            await reader.read("wall")
        await reader.read("good")
        with pytest.raises(PageBlockedError):
            await reader.read(URL)
        with pytest.raises(PageBlockedError, match="30 s"):
            await reader.read("good")
        assert inner.urls == ["wall", "good", URL]
        time.now += 30
        assert (await reader.read("good")).text == "text"


async def test_a_late_reader_is_made_once() -> None:
    """When it is first asked, and not before."""
    made: list[int] = []

    def make() -> FakePageReader:
        made.append(1)
        return FakePageReader({URL: "text"})

    reader = LatePageReader("late", make)
    assert made == []
    await reader.read(URL)
    await reader.read(URL)
    assert made == [1]


async def test_who_is_not_configured_says_so() -> None:
    """At the call."""
    with pytest.raises(PageConfigError, match="set this"):
        await UnconfiguredPageReader("offline", "set this").read(URL)
