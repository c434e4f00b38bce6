"""A real Redis that is out of memory: evictions and refusals reset no budget, and no request exceeds its limit."""

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
ENTRY = b"x" * 10_000  # an entry of a cache
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
    """Store more than fits, as caches do, with an expiry for each entry. Without eviction no memory is left."""
    try:
        for number in range(ENTRIES):
            name = f"{KEY_PREFIX}cache:test:{number}"
            await redis.call("SET", lambda client, name=name: client.set(name, ENTRY, px=600_000))  # type: ignore[misc]
    except RedisUnavailableError as error:
        assert "out of memory" in error.message  # noqa: PT017
        await redis.call("TEST", lambda client: client.config_set("maxmemory", LESS_MEMORY))


class Process:
    """A process with a budget of a dollar a day, at noon. `later` makes its last read stale."""

    def __init__(self, redis: RedisClient) -> None:
        self._now = NOON
        self._budget = DailyBudget(RedisSpendingStore(redis), DailyLimits(all=1.0), lambda: self._now)

    async def spend(self, usd: float) -> None:
        self._budget.settle(await self._budget.reserve(usd), usd)
        await self._budget.aclose()

    def later(self) -> None:
        self._now += timedelta(minutes=1)


async def test_an_evicted_sum_is_restored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With allkeys-lru the sum of the day is evicted.

    A process that has seen it spends no second budget, restores it for the others, and logs the policy to set.
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
    """With volatile-lru caches are evicted, but not the sum of the day, so a new process knows it."""
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
    """They have no expiry in Redis."""
    async with redis_with(tmp_path, "volatile-lru") as (_, redis):
        store = RedisSpendingStore(redis)
        for day in ("2026-01-30", "2026-01-31", "2026-02-01"):
            await store.add(day, {"all": 0.25}, {})
        keys = await redis.call("KEYS", lambda client: client.keys(f"{KEY_PREFIX}spending:*"))
        assert keys == [f"{KEY_PREFIX}spending:2026-02-01".encode()]


async def test_a_full_redis_does_not_stop_the_count(tmp_path: Path) -> None:
    """With noeviction nothing can be added, so the process counts alone, from the sum that can still be read."""
    async with redis_with(tmp_path, "noeviction") as (_, redis):
        await Process(redis).spend(0.5)
        await fill(redis)
        process = Process(redis)
        await process.spend(0.5)
        process.later()
        with pytest.raises(DailyBudgetError):
            await process.spend(0.25)


async def test_a_full_redis_does_not_disable_rate_limits(tmp_path: Path) -> None:
    """With noeviction its script may write nothing. The process counts itself, as without Redis, and health reports it.

    A client whose count is in Redis is still limited.
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
