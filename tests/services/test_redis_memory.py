"""A real Redis without memory: what it evicts or refuses gives nobody a new budget and no request past its limit."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.redis_server import RedisServer

from modules.llm_platform.domain.exceptions import DailyBudgetError
from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.daily_budget import DailyBudget, DailyLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.infrastructure.limits.redis_rate_limiter import RateLimitProbe, RedisRateLimiter
from modules.llm_platform.infrastructure.redis_client import KEY_PREFIX, RedisClient, RedisUnavailableError
from modules.llm_platform.infrastructure.stores.spending import redis as spending_store
from modules.llm_platform.infrastructure.stores.spending.redis import RedisSpendingStore

pytestmark = pytest.mark.services

MAXMEMORY, LESS_MEMORY = "4mb", "2mb"
ENTRY = b"x" * 10_000  # entry of a cache
ENTRIES = 1000  # 10 MB
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SPENDING_KEY = f"{KEY_PREFIX}spending:2026-01-31"


@asynccontextmanager
async def redis_with(folder: Path, policy: str) -> AsyncIterator[tuple[RedisServer, RedisClient]]:
    folder.mkdir(exist_ok=True)
    with RedisServer(folder, "--maxmemory", MAXMEMORY, "--maxmemory-policy", policy) as server:
        client = RedisClient(server.url, cooldown_s=0.0)
        yield server, client
        await client.aclose()


async def fill(redis: RedisClient) -> None:
    """Store more than fits, as caches do: each entry expires by itself. Where nothing is evicted no room is left at all."""
    try:
        for number in range(ENTRIES):
            name = f"{KEY_PREFIX}cache:test:{number}"
            await redis.call("SET", lambda client, name=name: client.set(name, ENTRY, px=600_000))  # type: ignore[misc]
    except RedisUnavailableError as error:
        assert "out of memory" in error.message  # noqa: PT017
        await redis.call("TEST", lambda client: client.config_set("maxmemory", LESS_MEMORY))


class Process:
    """A process with a budget of a dollar a day, at noon; `later` lets the age of what it has read pass."""

    def __init__(self, redis: RedisClient) -> None:
        self._now = NOON
        self._budget = DailyBudget(RedisSpendingStore(redis), DailyLimits(all=1.0), lambda: self._now)

    async def spend(self, usd: float) -> None:
        self._budget.settle(await self._budget.reserve(usd), usd)
        await self._budget.aclose()

    def later(self) -> None:
        self._now += timedelta(minutes=1)


async def test_what_an_eviction_takes_is_put_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With allkeys-lru the sum of the day is evicted. The process that has seen it spends no second budget, puts it back for
    the others, and the log names the policy to set.
    """
    caplog.set_level(logging.WARNING, spending_store.__name__)
    async with redis_with(tmp_path, "allkeys-lru") as (_, redis):
        process, other = Process(redis), Process(redis)
        for _ in range(4):
            await process.spend(0.25)
        while await redis.call("EXISTS", lambda client: client.exists(SPENDING_KEY)):
            await fill(redis)
        process.later()
        for refused in (process, other):
            with pytest.raises(DailyBudgetError):
                await refused.spend(0.25)
    [record] = caplog.records
    assert record.__dict__["remedy"] == spending_store.EVICTED


async def test_the_policy_of_our_files_keeps_the_sum(tmp_path: Path) -> None:
    """With volatile-lru caches are evicted and the sum of the day is not: a process that is new knows it."""
    async with redis_with(tmp_path, "volatile-lru") as (_, redis):
        for _ in range(4):
            await Process(redis).spend(0.25)
        for _ in range(3):
            await fill(redis)
        with pytest.raises(DailyBudgetError):
            await Process(redis).spend(0.25)
        assert await redis.call("TTL", lambda client: client.ttl(SPENDING_KEY)) == -1
        info = await redis.call("INFO", lambda client: client.info("stats"))
        assert info["evicted_keys"] > 0


async def test_the_sums_of_earlier_days_are_removed(tmp_path: Path) -> None:
    """They do not expire by themselves."""
    async with redis_with(tmp_path, "volatile-lru") as (_, redis):
        store = RedisSpendingStore(redis)
        for day in ("2026-01-30", "2026-01-31", "2026-02-01"):
            await store.add(day, {"all": 0.25}, {})
        keys = await redis.call("KEYS", lambda client: client.keys(f"{KEY_PREFIX}spending:*"))
        assert keys == [f"{KEY_PREFIX}spending:2026-02-01".encode()]


async def test_a_full_redis_does_not_stop_the_count(tmp_path: Path) -> None:
    """With noeviction nothing can be added: the process counts alone, from the sum that can still be read."""
    async with redis_with(tmp_path, "noeviction") as (_, redis):
        await Process(redis).spend(0.5)
        await fill(redis)
        process = Process(redis)
        await process.spend(0.5)
        process.later()
        with pytest.raises(DailyBudgetError):
            await process.spend(0.25)


async def test_a_full_redis_does_not_switch_rate_limits_off(tmp_path: Path) -> None:
    """With noeviction its script may write nothing: this process counts, as when Redis is away, and the health report says so.
    The limit of a client whose count is in Redis holds, too.
    """
    limits = RateLimits(RateLimit("client", 5, 86_400, burst=5), RateLimit("server", 12, 86_400, burst=12))
    async with redis_with(tmp_path, "noeviction") as (_, redis):
        limiter, probe = RedisRateLimiter(redis, MemoryRateLimiter(limits)), RateLimitProbe(redis)
        assert (await limiter.take("known")).exceeded is None
        await fill(redis)
        one_client = [await limiter.take("known") for _ in range(100)]
        many_clients = [await limiter.take(f"client {number}") for number in range(238)]
        allowed = [sum(decision.exceeded is None for decision in found) for found in (one_client, many_clients)]
        assert allowed == [5, 7]
        assert await probe.ping() == "counted in this process, because Redis is full"
        with pytest.raises(RedisUnavailableError, match="out of memory"):
            await redis.ping()
        await redis.call("TEST", lambda client: client.flushall())
        assert (await limiter.take("known")).exceeded is None
        assert await probe.ping() == "counted in Redis, with all servers that use it"
