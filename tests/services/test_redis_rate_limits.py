"""Rate limits in a real Redis are exact for several servers. While Redis is unavailable, each process counts itself."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from tests.fakes.rate_limiter import MakeLimiter, RateLimiterContract
from tests.kafka.child_process import free_port
from tests.support.forked_command import ForkedPython
from tests.support.patient_command import REDIS_LIMITS, patient
from tests.support.redis_server import RedisServer

from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.infrastructure.limits.redis_rate_limiter import (
    RateLimitProbe,
    RedisRateLimiter,
    rate_limit_key,
)
from modules.llm_platform.infrastructure.redis_client import RedisClient

pytestmark = pytest.mark.services

DAY_S = 86_400
CLIENT = RateLimit("client", 5, DAY_S, burst=5)
SERVER = RateLimit("server", 50, DAY_S, burst=50)
START_S = 180.0  # start of a server on a busy machine
GLOBAL_BURST = 50
AT_ONCE = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[RedisClient]:
    client = RedisClient(server.url, cooldown_s=0.0)
    await client.call("TEST", lambda redis: redis.flushall())
    yield client
    await client.aclose()


class TestRedisRateLimiter(RateLimiterContract):
    @pytest.fixture
    def make_limiter(self, redis: RedisClient) -> MakeLimiter:
        return lambda limits: RedisRateLimiter(redis, MemoryRateLimiter(limits))

    async def test_two_processes_share_the_limits(self, server: RedisServer, redis: RedisClient) -> None:
        """Of 200 parallel requests to two limiters exactly the burst is allowed."""
        other = RedisClient(server.url)
        limiters = [
            RedisRateLimiter(client, MemoryRateLimiter(RateLimits(CLIENT, SERVER))) for client in (redis, other)
        ]
        decisions = await asyncio.gather(*(limiter.take("a") for limiter in limiters for _ in range(100)))
        assert sum(decision.exceeded is None for decision in decisions) == CLIENT.burst
        await other.aclose()

    async def test_other_limits_have_a_separate_count(self, redis: RedisClient) -> None:
        """A server with a higher limit, as during a change of limits, does not use the count of the old limit."""
        slow, fast = (
            RedisRateLimiter(redis, MemoryRateLimiter(RateLimits(RateLimit("client", quota, 60, burst=5))))
            for quota in (60, 600)
        )
        for _ in range(5):
            await slow.take("a")
        decision = await fast.take("a")
        assert decision.exceeded is None
        assert decision.client is not None
        assert decision.client.remaining == 4

    async def test_one_round_trip_a_request(self, redis: RedisClient) -> None:
        """One command counts both limits, and every key expires."""
        limiter = RedisRateLimiter(redis, MemoryRateLimiter(RateLimits(CLIENT, SERVER)))
        await limiter.take("a")  # loads the script
        before = await redis.call("TEST", lambda client: client.info("commandstats"))
        await limiter.take("b")
        after = await redis.call("TEST", lambda client: client.info("commandstats"))
        assert after["cmdstat_evalsha"]["calls"] == before["cmdstat_evalsha"]["calls"] + 1
        for key in (rate_limit_key(CLIENT, "b"), rate_limit_key(SERVER)):
            assert 0 < await redis.call("TEST", lambda client, key=key: client.ttl(key)) <= DAY_S  # type: ignore[misc]

    @pytest.mark.parametrize("damaged", ["text", "list"])
    async def test_damaged_value_is_replaced(self, redis: RedisClient, damaged: str) -> None:
        """A value of another program or type counts as none."""
        key = rate_limit_key(CLIENT, "a")
        if damaged == "list":
            await redis.call("TEST", lambda client: client.rpush(key, "x"))
        else:
            await redis.call("TEST", lambda client: client.set(key, "no number"))
        limiter = RedisRateLimiter(redis, MemoryRateLimiter(RateLimits(CLIENT)))
        states = [(await limiter.take("a")).client for _ in range(6)]
        assert [state.is_exceeded for state in states if state] == [False] * 5 + [True]


async def test_redis_goes_down_and_comes_back(tmp_path: Path) -> None:
    """While Redis is down, the process counts, and health reports it. Later Redis counts again."""
    with RedisServer(tmp_path) as server:
        redis = RedisClient(server.url, cooldown_s=0.0)
        limiter, probe = RedisRateLimiter(redis, MemoryRateLimiter(RateLimits(CLIENT))), RateLimitProbe(redis)
        assert [(await limiter.take("a")).exceeded is None for _ in range(6)] == [True] * 5 + [False]
        server.kill()
        assert [(await limiter.take("a")).exceeded is None for _ in range(6)] == [True] * 5 + [False]
        assert await probe.ping() == "counted in this process, because Redis is away"
        server.start()
        assert [(await limiter.take("a")).exceeded is None for _ in range(6)] == [True] * 5 + [False]
        assert (await probe.ping()).startswith("counted in Redis")
        await redis.aclose()


async def test_two_servers_with_one_redis(server: RedisServer, redis: RedisClient, tmp_path: Path) -> None:
    """Of 200 requests to two servers exactly 50, the burst of all clients, are answered.

    AT_ONCE is needed, because a server on a busy machine may treat Redis as slow and count alone.
    """
    (tmp_path / "sails.md").write_text("# Solar sails\n\nSolar sails are pushed by light.\n")
    settings = {
        "DOCUMENTS_DIR": str(tmp_path),
        "LLM_PLATFORM_OFFLINE": "true",
        "REDIS_URL": server.url,
        "RATE_LIMIT_PER_MINUTE": "0",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "1",
        "LLM_PLATFORM_DATA_DIR": str(tmp_path / "data"),
    }
    ports = [free_port(), free_port()]
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(_serving(port, settings, tmp_path / f"{port}.log"))
        async with httpx2.AsyncClient(timeout=60.0, limits=httpx2.Limits(max_connections=200)) as client:
            await asyncio.gather(*(_wait_until_ready(client, port) for port in ports))
            turns = asyncio.Semaphore(AT_ONCE)

            async def ask(port: int) -> httpx2.Response:
                async with turns:
                    return await client.get(f"http://127.0.0.1:{port}/nothing-here")

            answers = await asyncio.gather(*(ask(ports[number % 2]) for number in range(200)))
            async with asyncio.timeout(START_S):
                while not (await _limits_at(client, ports[0])).startswith("counted in Redis"):
                    await asyncio.sleep(0.5)  # a slow check is cached for some seconds
    assert sorted(answer.status_code for answer in answers) == [404] * GLOBAL_BURST + [429] * (200 - GLOBAL_BURST)


async def test_reads_of_a_key_are_counted_by_all_servers(
    server: RedisServer, redis: RedisClient, tmp_path: Path
) -> None:
    """Of 60 reads of each of two keys at two servers, the burst of a key is answered, regardless of the global limit.

    AT_ONCE is needed, because a server on a busy machine may treat Redis as slow and count alone.
    """
    keys = ("a-long-enough-key-1", "a-long-enough-key-2")
    settings = {
        "DOCUMENTS_DIR": str(tmp_path),
        "LLM_PLATFORM_OFFLINE": "true",
        "REDIS_URL": server.url,
        "LLM_PLATFORM_API_KEYS": ",".join(keys),
        "RATE_LIMIT_READS_PER_MINUTE": "1",
        "RATE_LIMIT_READS_BURST": "20",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "1",
        "LLM_PLATFORM_DATA_DIR": str(tmp_path / "data"),
    }
    ports = [free_port(), free_port()]
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(_serving(port, settings, tmp_path / f"{port}.log"))
        async with httpx2.AsyncClient(timeout=60.0, limits=httpx2.Limits(max_connections=120)) as client:
            await asyncio.gather(*(_wait_until_ready(client, port) for port in ports))
            begun, turns = time.monotonic(), asyncio.Semaphore(AT_ONCE)

            async def read(port: int, key: str) -> httpx2.Response:
                async with turns:
                    return await client.get(f"http://127.0.0.1:{port}/research", headers={"X-API-Key": key})

            answers = await asyncio.gather(*(read(ports[number % 2], key) for number in range(60) for key in keys))
            minutes = (time.monotonic() - begun) // 60 + 1
    for key in keys:
        mine = [answer for answer in answers if answer.request.headers["x-api-key"] == key]
        refused = [answer for answer in mine if answer.status_code == 429]
        assert 20 <= len(mine) - len(refused) <= 20 + minutes
        assert all(answer.headers["ratelimit"].startswith('"reads"') for answer in refused)


async def _limits_at(client: httpx2.AsyncClient, port: int) -> str:
    """Return the health report's line about the limits."""
    report = (await client.get(f"http://127.0.0.1:{port}/health")).json()
    return str(report["components"]["rate_limits"]["detail"])


class _serving:  # noqa: N801  used like a function
    """A context manager that runs a server process on a port."""

    def __init__(self, port: int, settings: dict[str, str], log: Path) -> None:
        self._port = port
        self._environment = {**os.environ, **settings}
        self._log = log

    def __enter__(self) -> None:
        with self._log.open("wb") as log:
            self._process = ForkedPython(
                patient(REDIS_LIMITS), "serve", "--port", str(self._port), env=self._environment, stdout=log, stderr=log
            )

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(START_S)


async def _wait_until_ready(client: httpx2.AsyncClient, port: int) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                if (await client.get(f"http://127.0.0.1:{port}/ready")).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.1)
