"""domain/concurrency/page_allowance.py: what one request of a caller may fetch of other servers."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.domain.concurrency.page_allowance import (
    FETCHES_PER_REQUEST,
    MAX_PAGES_PER_HOST,
    MAX_WAIT_S,
    count_fetch,
    page_allowance,
    set_page_charge,
)
from modules.llm_platform.domain.exceptions import PageLimitError

HOST = "a.example"


class Bucket:
    """The limit of a caller: `free` requests now, and another one each `interval_s`."""

    def __init__(self, free: int, interval_s: float = 2.0) -> None:
        self.free, self.interval_s = free, interval_s
        self.charged = 0
        self.next_at = 0.0

    async def charge(self) -> float:
        now = asyncio.get_running_loop().time()
        if not self.free and now < self.next_at:
            return self.next_at - now
        self.free, self.next_at = max(0, self.free - 1), now + self.interval_s
        self.charged += 1
        return 0.0


async def fetch(count: int, host: str = HOST) -> None:
    for _ in range(count):
        await count_fetch(host)


async def test_no_host_has_all_pages() -> None:
    """A request may read MAX_PAGES_PER_HOST pages of a host.

    Redirects within the host belong to its pages, and other hosts are counted separately.
    """
    with page_allowance():
        await fetch(MAX_PAGES_PER_HOST)
        for _ in range(2):
            with pytest.raises(PageLimitError, match="one host"):
                await count_fetch(HOST)
        await count_fetch(HOST, is_same_page=True)
        await count_fetch("b.example")
    with page_allowance():
        await count_fetch(HOST)
    with page_allowance(max_of_host=None):
        await fetch(MAX_PAGES_PER_HOST + 1)


@in_virtual_time
async def test_further_fetches_are_charged_and_paced() -> None:
    """The first FETCHES_PER_REQUEST are paid with the request. When the limit is reached, the request waits for it."""
    bucket = Bucket(free=2)
    set_page_charge(bucket.charge)
    with page_allowance(max_of_host=None):
        await fetch(FETCHES_PER_REQUEST)
        assert bucket.charged == 0
        await fetch(2 * FETCHES_PER_REQUEST)
        assert (bucket.charged, asyncio.get_running_loop().time()) == (2, 0.0)
        await asyncio.gather(*(fetch(FETCHES_PER_REQUEST) for _ in range(3)))
    assert (bucket.charged, asyncio.get_running_loop().time()) == (5, 3 * bucket.interval_s)


@in_virtual_time
async def test_a_limit_that_is_far_away_refuses() -> None:
    """Nobody waits longer than MAX_WAIT_S, and a refused fetch does not pay for the next ones."""
    bucket = Bucket(free=1, interval_s=MAX_WAIT_S * 3)
    set_page_charge(bucket.charge)
    with page_allowance(max_of_host=None):
        await fetch(2 * FETCHES_PER_REQUEST)
        for _ in range(3):
            with pytest.raises(PageLimitError, match="rate limit of this caller"):
                await count_fetch(HOST)
    assert (bucket.charged, asyncio.get_running_loop().time()) == (1, 0.0)


@in_virtual_time
async def test_a_page_that_is_cancelled_while_it_waits_blocks_no_other() -> None:
    """A cancelled page does not block the queue."""
    bucket = Bucket(free=1)
    set_page_charge(bucket.charge)
    with page_allowance(max_of_host=None):
        await fetch(2 * FETCHES_PER_REQUEST)
        waiting = asyncio.create_task(count_fetch(HOST))
        await asyncio.sleep(0.5)
        waiting.cancel()
        await count_fetch(HOST)
    assert (bucket.charged, asyncio.get_running_loop().time()) == (2, 2.0)


async def test_outside_of_an_allowance_nothing_is_counted() -> None:
    """Answers read few pages, and have separate limits."""
    set_page_charge(Bucket(free=0, interval_s=60.0).charge)
    await fetch(MAX_PAGES_PER_HOST + 1)
