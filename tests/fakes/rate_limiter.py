"""The contract of `IRateLimiter`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter, RateLimit, RateLimits

MakeLimiter: TypeAlias = Callable[[RateLimits], IRateLimiter]

_DAY_S = 86_400  # no request becomes available during a test
_CLIENT = RateLimit("client", 5, _DAY_S, burst=5)
_SERVER = RateLimit("server", 7, _DAY_S, burst=7)
_READS = RateLimit("reads", 9, _DAY_S, burst=9)


class RateLimiterContract:
    """Subclass it and add the fixture `make_limiter`: a function that returns an IRateLimiter with these limits."""

    async def test_burst_then_refusal(self, make_limiter: MakeLimiter) -> None:
        """Exactly the burst is allowed, the remaining requests count down, and a refusal says when the next is allowed."""
        limiter = make_limiter(RateLimits(_CLIENT))
        decisions = [await limiter.take("a") for _ in range(7)]
        states = [decision.client for decision in decisions if decision.client]
        assert [state.is_exceeded for state in states] == [False] * 5 + [True] * 2
        assert [state.remaining for state in states] == [4, 3, 2, 1, 0, 0, 0]
        assert all(0 < state.next_s <= _CLIENT.interval_s for state in states)
        assert decisions[-1].exceeded == decisions[-1].client

    async def test_clients_are_independent(self, make_limiter: MakeLimiter) -> None:
        """One client at its limit does not affect another."""
        limiter = make_limiter(RateLimits(_CLIENT))
        for _ in range(6):
            refused = await limiter.take("a")
        assert refused.exceeded is not None
        assert (await limiter.take("b")).exceeded is None

    async def test_server_limit_counts_all_clients(self, make_limiter: MakeLimiter) -> None:
        """The limit of the server refuses a client that is below its own."""
        limiter = make_limiter(RateLimits(_CLIENT, _SERVER))
        for number in range(7):
            assert (await limiter.take(f"client {number}")).exceeded is None
        exceeded = (await limiter.take("another")).exceeded
        assert exceeded is not None
        assert exceeded.limit == _SERVER

    async def test_refused_requests_do_not_count_for_others(self, make_limiter: MakeLimiter) -> None:
        """A client that sends too much does not use up the limit of all clients."""
        limiter = make_limiter(RateLimits(_CLIENT, _SERVER))
        for _ in range(50):
            await limiter.take("greedy")
        decisions = [await limiter.take(f"client {number}") for number in range(3)]
        assert [decision.exceeded is None for decision in decisions] == [True, True, False]

    async def test_parallel_requests_are_counted_exactly(self, make_limiter: MakeLimiter) -> None:
        """Of 200 parallel requests exactly the burst is allowed."""
        limiter = make_limiter(RateLimits(_CLIENT))
        decisions = await asyncio.gather(*(limiter.take("a") for _ in range(200)))
        assert sum(decision.exceeded is None for decision in decisions) == _CLIENT.burst

    async def test_requests_become_available_again(self, make_limiter: MakeLimiter) -> None:
        """A refused client may proceed after the time that the refusal states."""
        limiter = make_limiter(RateLimits(RateLimit("client", 2, 1, burst=2)))
        refused = None
        while refused is None:
            refused = (await limiter.take("a")).exceeded
        await asyncio.sleep(refused.next_s + refused.limit.interval_s)
        assert (await limiter.take("a")).exceeded is None

    async def test_request_may_count_for_its_client_alone(self, make_limiter: MakeLimiter) -> None:
        """The limit of all clients neither counts such a request nor refuses it."""
        limiter = make_limiter(RateLimits(_CLIENT, _SERVER))
        alone = [await limiter.take("a", counts_for_all=False) for _ in range(6)]
        assert [decision.exceeded is None for decision in alone] == [True] * 5 + [False]
        assert [decision.server for decision in alone] == [None] * 6
        for number in range(7):
            assert (await limiter.take(f"client {number}")).exceeded is None
        assert (await limiter.take("another", counts_for_all=False)).exceeded is None
        unlimited = make_limiter(RateLimits(None, _SERVER))
        assert (await unlimited.take("a", counts_for_all=False)).exceeded is None

    async def test_reads_have_a_separate_limit(self, make_limiter: MakeLimiter) -> None:
        """Reads and other requests are counted separately. Without a limit of reads they are counted together."""
        limiter = make_limiter(RateLimits(_CLIENT, _SERVER, _READS))
        reads = [await limiter.take("a", only_reads=True) for _ in range(10)]
        assert [decision.exceeded is None for decision in reads] == [True] * 9 + [False]
        assert reads[-1].exceeded is not None
        assert reads[-1].exceeded.limit == _READS
        assert (await limiter.take("b", only_reads=True)).exceeded is None
        others = [await limiter.take("a") for _ in range(6)]
        assert [decision.exceeded is None for decision in others] == [True] * 5 + [False]
        without = make_limiter(RateLimits(_CLIENT))
        assert [(await without.take("c", only_reads=True)).exceeded is None for _ in range(6)] == [True] * 5 + [False]

    async def test_no_limit_refuses_nothing(self, make_limiter: MakeLimiter) -> None:
        """A limit that is not set does not count."""
        limiter = make_limiter(RateLimits(None, _SERVER))
        decisions = [await limiter.take("a") for _ in range(8)]
        assert [decision.client for decision in decisions] == [None] * 8
        assert sum(decision.exceeded is None for decision in decisions) == _SERVER.burst
