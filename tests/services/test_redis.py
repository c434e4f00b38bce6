"""Caches, locks and servers that share a real redis-server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.fakes.cache import CacheContract
from tests.fakes.synthesizer import FakeSynthesizer
from tests.kafka.child_process import free_port
from tests.support.chat_server import ChatServer, answer, completion
from tests.support.forked_command import ForkedPython
from tests.support.guards import guarded_search
from tests.support.loopback_upstream import Exchange, json_reply, reply, serving
from tests.support.patient_command import REDIS_LIMITS, patient
from tests.support.redis_server import RedisServer

from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisToken
from modules.llm_platform.domain.dtos.citation_dtos import StoredVerdicts
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.infrastructure import redis_client
from modules.llm_platform.infrastructure.cache.redis import MAX_VALUE_BYTES, RedisCache
from modules.llm_platform.infrastructure.cache.redis_key_lock import RedisKeyLock
from modules.llm_platform.infrastructure.redis_client import RedisClient
from modules.llm_platform.infrastructure.search.web_search_chain import SearchCaches, WebSearchChain
from modules.llm_platform.testing.waiting import Elapse
from modules.llm_platform.testing.web_search import FakeWebSearch, result_item

pytestmark = pytest.mark.services

TIMEOUT_S = 180.0
HOUR_S = 3600.0
CONNECTING = ("CLIENT ", "SELECT ", "AUTH ", "HELLO ", "SCRIPT ")  # commands of a new connection
FOUND = WebSearchResponse(query="q", results=(result_item(1),), provider="fake")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), password="a-long-password") as server:
        yield server


@asynccontextmanager
async def connected(server: RedisServer, cooldown_s: float = 0.0) -> AsyncIterator[RedisClient]:
    client = RedisClient(server.url, cooldown_s=cooldown_s)
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[RedisClient]:
    async with connected(server) as client:
        await client.call("TEST", lambda redis: redis.flushall())
        yield client


class TestRedisCache(CacheContract):
    """The contract of caches, and additional rules for a cache outside of this process."""

    @pytest.fixture
    def cache(self, client: RedisClient) -> RedisCache[WebSearchResponse]:
        return RedisCache(client, WebSearchResponse, "search")

    @pytest.fixture
    def elapse(self) -> Elapse:
        return asyncio.sleep

    @pytest.mark.parametrize(
        "value",
        [
            FOUND,
            Synthesis(text="An answer [1].", synthesizer="fake/one"),
            ResearchPlan(query="q", language="en", questions=("a", "b"), planner="fake"),
            StoredVerdicts(verdicts={"a": "supported", "b": None}),
        ],
    )
    async def test_each_cached_type_keeps_its_value(self, client: RedisClient, value: Any) -> None:
        """The value is equal after a round trip in all four caches."""
        cache = RedisCache(client, type(value), "any")
        await cache.set("key", value, HOUR_S)
        assert await cache.get("key") == value

    @pytest.mark.parametrize(
        "damage",
        [
            b"\x80\x04\x95\x00pickle",
            b"not json",
            b"{}",
            b'{"version":2,"type":"WebSearchResponse","value":{"query":"q"}}',
            b'{"version":1,"type":"Synthesis","value":{"query":"q"}}',
            b'{"version":1,"type":"WebSearchResponse","value":{"query":',
            b'{"version":1,"type":"WebSearchResponse","value":{"query":["q"]}}',
            b"[" * 100_000,
            b" " * (MAX_VALUE_BYTES + 2),
        ],
        ids=lambda damage: repr(damage[:50]),
    )
    async def test_damaged_value_is_a_miss(
        self, client: RedisClient, cache: RedisCache[WebSearchResponse], damage: bytes
    ) -> None:
        """A value of another program or version under the key is a miss, and the next set replaces it."""
        await cache.set("key", FOUND, HOUR_S)
        (name,) = await client.call("TEST", lambda redis: redis.keys("llm-platform:cache:*"))
        await client.call("TEST", lambda redis: redis.set(name, damage))
        assert await cache.get("key") is None
        await cache.set("key", FOUND, HOUR_S)
        assert await cache.get("key") == FOUND

    async def test_list_under_the_key_is_a_miss(
        self, client: RedisClient, cache: RedisCache[WebSearchResponse]
    ) -> None:
        """A value of another Redis type is a miss, and no failure of Redis."""
        await client.call("TEST", lambda redis: redis.rpush("llm-platform:cache:search:key", "x"))
        assert await cache.get("key") is None
        assert client.status.connected

    async def test_value_without_json_form_is_not_stored(self, cache: RedisCache[WebSearchResponse]) -> None:
        """A lone surrogate has no UTF-8 form, so nothing is stored and nothing fails. The same is true of a huge value."""
        for query in ("\ud800", "x" * MAX_VALUE_BYTES):
            await cache.set("key", WebSearchResponse(query=query), HOUR_S)
            assert await cache.get("key") is None

    async def test_get_and_set_are_one_command_each(
        self, client: RedisClient, cache: RedisCache[WebSearchResponse]
    ) -> None:
        """A cached search costs one round trip, and a new one two, without the lock."""
        commands = await _commands(client)
        await cache.get("key")
        await cache.set("key", FOUND, HOUR_S)
        await cache.get("key")
        assert await _commands(client) - commands == 3 + 1  # and the INFO command itself

    async def test_every_key_expires(self, client: RedisClient, cache: RedisCache[WebSearchResponse]) -> None:
        """Every lifetime gives the key an expiry."""
        await cache.set("key", FOUND, 1e30)
        (name,) = await client.call("TEST", lambda redis: redis.keys("*"))
        assert 0 < await client.call("TEST", lambda redis: redis.ttl(name)) <= 366 * 86_400


async def _commands(client: RedisClient) -> int:
    facts = await client.call("TEST", lambda redis: redis.info("stats"))
    return int(facts["total_commands_processed"])


async def test_cache_misses_while_redis_is_down_and_works_again_later(tmp_path: Path) -> None:
    """While Redis is down, gets miss and sets do nothing, without an error. After the restart the same cache works."""
    with RedisServer(tmp_path) as server:
        async with connected(server) as client:
            cache = RedisCache(client, WebSearchResponse, "search")
            await cache.set("key", FOUND, HOUR_S)
            server.kill()
            assert await cache.get("key") is None
            await cache.set("key", FOUND, HOUR_S)
            assert client.status.away_since is not None
            server.start()
            await cache.set("key", FOUND, HOUR_S)
            assert await cache.get("key") == FOUND
            assert client.status.connected


async def test_frozen_redis_costs_a_bounded_time_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is unavailable after a timeout. During the cooldown calls fail at once."""
    monkeypatch.setattr(redis_client, "CALL_TIMEOUT_S", 3.0)
    with RedisServer(tmp_path) as server:
        async with connected(server, cooldown_s=HOUR_S) as client:
            cache = RedisCache(client, WebSearchResponse, "search")
            await cache.set("key", FOUND, HOUR_S)
            server.freeze()
            async with asyncio.timeout(TIMEOUT_S):
                for _ in range(1000):
                    assert await cache.get("key") is None


async def test_processes_with_one_redis_search_once(server: RedisServer, client: RedisClient) -> None:
    """Equal concurrent searches in several processes cost one upstream call, and all get the answer."""
    async with AsyncExitStack() as stack:
        fakes = [FakeWebSearch(FOUND, delay_s=1.0) for _ in range(4)]
        policies = [_policy(await stack.enter_async_context(connected(server)), fake) for fake in fakes]
        request = WebSearchRequest(query="q")
        answers = await asyncio.gather(*(policy.search(request) for policy in policies for _ in range(5)))
    assert sum(len(fake.requests) for fake in fakes) == 1
    assert [answer.results for answer in answers] == [FOUND.results] * 20
    assert await client.call("TEST", lambda redis: redis.keys("llm-platform:lock:*")) == []


async def test_waiting_search_continues_when_the_first_one_fails(server: RedisServer, client: RedisClient) -> None:
    """A failure is not cached, so the waiting process searches itself."""
    failing = FakeWebSearch(WebSearchConnectionError("refused"), delay_s=2.0)
    async with connected(server) as other:
        first = asyncio.create_task(_policy(client, failing).search(WebSearchRequest(query="q")))
        await _until_locked(client)
        second = await _policy(other, FakeWebSearch(FOUND)).search(WebSearchRequest(query="q"))
        with pytest.raises(WebSearchConnectionError, match="refused"):
            await first
    assert (second.results, second.cached) == (FOUND.results, False)


async def test_processes_with_one_redis_write_an_answer_once(server: RedisServer, client: RedisClient) -> None:
    """Equal concurrent answers, complete or streamed, cost one model call, and each caller gets the whole text."""
    sources = (Source(index=1, title="Tides", url="https://docs.test/1", text="Tides follow the moon."),)
    request = SynthesisRequest("What do tides follow?", sources, "en")
    async with connected(server) as other:
        writers = [FakeSynthesizer("Tides follow the moon [1].", delay_s=2.0) for _ in range(2)]
        first, second = (
            SharedSynthesizer(
                writer,
                RedisCache(server, Synthesis, "synthesis"),
                HOUR_S,
                "1",
                RedisKeyLock(server, "synthesis", max_wait_s=TIMEOUT_S),
            )
            for writer, server in zip(writers, (client, other), strict=True)
        )
        writing = asyncio.create_task(first.synthesize(request))
        await _until_locked(client)
        parts = [part async for part in second.stream(request)]
        written = await writing
    last = parts[-1]
    assert isinstance(last, Synthesis)
    assert (last.text, last.cached, last.spent) == (written.text, True, NOTHING_SPENT)
    assert "".join(part.text for part in parts if isinstance(part, SynthesisToken)) == written.text
    assert [len(writer.calls) for writer in writers] == [1, 0]


async def test_lock_of_a_dead_holder_expires(server: RedisServer, client: RedisClient) -> None:
    """A lock that is not renewed expires, and a renewed lock does not."""
    expiry_s = 9.0  # a renewal, due after each third, may be late by two thirds on a busy machine
    lock = RedisKeyLock(client, "search", max_wait_s=HOUR_S, expiry_s=expiry_s)
    async with connected(server) as other, asyncio.timeout(TIMEOUT_S):
        waiting = RedisKeyLock(other, "search", max_wait_s=HOUR_S, expiry_s=expiry_s)
        name, looks = "llm-platform:lock:search:dead", await _looks(client)
        await client.call("TEST", lambda redis: redis.set(name, "its token", ex=int(HOUR_S)))
        waiter = asyncio.create_task(_hold(waiting, "dead"))
        await _until_looked(client, looks)
        await client.call("TEST", lambda redis: redis.pexpire(name, 500))  # the hour is almost over
        assert await waiter
        async with lock.hold("living") as has_waited:
            assert not has_waited
            waiter = asyncio.create_task(_hold(waiting, "living"))
            await asyncio.sleep(1.5 * expiry_s)
            assert not waiter.done()
        assert await waiter


async def test_no_process_waits_for_an_unavailable_redis(tmp_path: Path) -> None:
    """If Redis stops while a process waits, the process continues. A process that starts later does not wait at all."""
    with RedisServer(tmp_path) as server:
        async with connected(server) as client, connected(server) as other, asyncio.timeout(TIMEOUT_S):
            lock = RedisKeyLock(other, "search", max_wait_s=HOUR_S)
            async with RedisKeyLock(client, "search", max_wait_s=HOUR_S).hold("key"):
                waiter = asyncio.create_task(_hold(lock, "key"))
                await _until_looked(client, 0)
                server.kill()
                assert await waiter
            assert not await _hold(lock, "key")


async def _hold(lock: RedisKeyLock, key: str) -> bool:
    async with lock.hold(key) as has_waited:
        return has_waited


async def _until_locked(client: RedisClient) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await client.call("TEST", lambda redis: redis.keys("llm-platform:lock:*")):
            await asyncio.sleep(0.01)


async def _until_looked(client: RedisClient, before: int) -> None:
    """Wait until a process that found the lock taken checks it again."""
    async with asyncio.timeout(TIMEOUT_S):
        while await _looks(client) == before:
            await asyncio.sleep(0.01)


async def _looks(client: RedisClient) -> int:
    commands = await client.call("TEST", lambda redis: redis.info("commandstats"))
    return int(commands.get("cmdstat_exists", {"calls": 0})["calls"])


def _policy(client: RedisClient, fake: FakeWebSearch) -> WebSearchChain:
    lock = RedisKeyLock(client, "search", max_wait_s=TIMEOUT_S)
    answers = RedisCache(client, WebSearchResponse, "search")
    return guarded_search(fake, caches=SearchCaches(HOUR_S, answers, lock=lock))


@asynccontextmanager
async def _platform_server(folder: Path, redis: RedisServer, upstreams: dict[str, str]) -> AsyncIterator[str]:
    """Run `llm-platform serve` in a separate process, and yield its URL."""
    port = free_port()
    settings = {
        "REDIS_URL": redis.url,
        "RATE_LIMIT_PER_MINUTE": "0",  # the limiter sends its own commands
        "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
        **upstreams,
        "LLM_PLATFORM_PORT": str(port),
        "LLM_PLATFORM_DATA_DIR": str(folder),
    }
    with (
        (folder / "server.log").open("ab") as log,
        ForkedPython(
            patient(REDIS_LIMITS), "serve", cwd=folder, env={**os.environ, **settings}, stdout=log, stderr=log
        ) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S) as http, asyncio.timeout(TIMEOUT_S):
                while not await _is_ready(http, url):
                    assert process.poll() is None, (folder / "server.log").read_text()
                    await asyncio.sleep(0.1)
            yield url
        finally:
            process.terminate()


async def _is_ready(http: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/ready")).status_code == 200
    except httpx2.TransportError:
        return False


@asynccontextmanager
async def _two_servers(
    folder: Path, redis: RedisServer, **settings: str
) -> AsyncIterator[tuple[list[str], list[Exchange], ChatServer]]:
    """Yield two servers that share one Redis, one search engine and one model: their URLs, the searches, and the model."""
    rows = [{"title": "Page", "url": "https://docs.test/1", "content": "Tides follow the moon.", "engine": "google"}]
    page = json_reply({"results": rows, "unresponsive_engines": []})
    model = ChatServer(answer(completion("Tides follow the moon [1].")))
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(serving(page))
        await stack.enter_async_context(model.running())
        upstreams = {
            "SEARXNG_URL": engine.url,
            "LLM_KIND": "vllm",
            "LLM_BASE_URL": model.url,
            "LLM_MODEL": "m",
            "READERS": "direct",
            **settings,
        }
        urls = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            urls.append(await stack.enter_async_context(_platform_server(folder / name, redis, upstreams)))
        yield urls, engine.requests, model


async def test_second_server_answers_from_the_shared_cache(tmp_path: Path) -> None:
    """A result of one server is a hit of the other one with three commands. Without Redis both still answer."""
    with RedisServer(tmp_path, password="a-long-password") as redis:
        async with (
            _two_servers(tmp_path, redis) as (urls, searches, model),
            httpx2.AsyncClient(timeout=TIMEOUT_S) as http,
            connected(redis) as client,
        ):
            question = {"query": "What do tides follow?"}
            first = (await http.post(f"{urls[0]}/research", json=question)).json()
            await http.post(f"{urls[1]}/research", json={"query": "What does the moon do?"})  # opens its connection
            asked = (len(searches), len(model.asked))
            commands = await _commands(client)
            second = (await http.post(f"{urls[1]}/research", json=question)).json()
            commands = await _commands(client) - commands - 1
            assert (first["metadata"]["cache_hit"], second["metadata"]["cache_hit"]) == (False, True)
            assert second["synthesis"] == first["synthesis"]
            assert (len(searches), len(model.asked)) == asked
            assert commands == 3  # the search, the text, and the turn for a follow-up question
            redis.kill()
            other = {"query": "What do the tides follow at night?"}
            answers = [await http.post(f"{url}/research", json=body) for url in urls for body in (question, other)]
            assert [answer.status_code for answer in answers] == [200] * 4
            # Each server has its own copy of what it answered within the last half minute.
            assert [answer.json()["metadata"]["cache_hit"] for answer in answers] == [True, False, True, False]
            health = (await http.get(f"{urls[1]}/health")).json()
            assert (health["status"], health["components"]["redis"]["status"]) == ("degraded", "unhealthy")
            assert "a-long-password" not in json.dumps(health)
            redis.start()
            await _until_hit(http, urls, other)


@pytest.mark.parametrize("depth", ["shallow", "deep"])
async def test_repeated_question_costs_two_round_trips(tmp_path: Path, depth: str) -> None:
    """With rate limits, a repeated question sends two commands to Redis: for the limits, and for the turn of a
    follow-up question.
    """
    limits = {"RATE_LIMIT_PER_MINUTE": "1000", "RATE_LIMIT_GLOBAL_PER_HOUR": "1000"}
    with RedisServer(tmp_path) as redis:
        async with (
            _two_servers(tmp_path, redis, **limits) as (urls, _, _),
            httpx2.AsyncClient(timeout=TIMEOUT_S) as http,
            connected(redis) as client,
        ):
            body = {"query": "What do tides follow?", "depth": depth}
            trips = [await _round_trips(client, http.post(f"{url}/research", json=body)) for url in (*urls, urls[1])]
            assert trips[2] == 2
            assert trips[1] <= (4 if depth == "shallow" else 9)  # the other server's entries, and one round
            assert trips[0] > trips[1]


async def _round_trips(client: RedisClient, asking: Awaitable[httpx2.Response]) -> int:
    """Return the servers' commands during a question with status 200, without those of scripts and of new connections."""

    async def count(redis: Any) -> int:
        async with redis.monitor() as monitor:
            assert (await asking).status_code == 200
            await redis.echo("end")
            commands = 0
            while (command := await monitor.next_command())["command"] != "ECHO end":
                commands += command["client_type"] != "lua" and not command["command"].startswith(CONNECTING)
            return commands

    return await count(client._redis)


async def _until_hit(http: httpx2.AsyncClient, urls: list[str], question: dict[str, str]) -> None:
    """Repeat a question at both servers until it is a hit, which requires Redis."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            answers = [(await http.post(f"{url}/research", json=question)).json() for url in urls]
            if all(answer["metadata"]["cache_hit"] for answer in answers):
                return
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_verification_continues_without_its_redis(tmp_path: Path, fault: str) -> None:
    """If Redis stops or hangs while the sources of a text are read, the verification is complete, the process counts
    its limits, its quotes can be opened, and the next verification works, too.
    """
    asked, gate = asyncio.Event(), asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        asked.set()
        await gate.wait()
        page = b"<html><body><p>Tea is a drink that is made of leaves.</p></body></html>"
        await reply(200, page, "Content-Type: text/html")(exchange)

    with RedisServer(tmp_path) as redis:
        async with serving(handle) as pages:
            sentences = " ".join(f"Tea number {number} is a drink [{number}]." for number in range(1, 41))
            sources = "\n".join(f"[{number}] {pages.url}/{number}" for number in range(1, 41))
            body = {"text": f"{sentences}\n\n{sources}"}
            settings = {"READER_ALLOWED_HOSTS": "127.0.0.1", "READERS": "direct", "RATE_LIMIT_PER_MINUTE": "600"}
            async with (
                _platform_server(tmp_path, redis, settings) as url,
                httpx2.AsyncClient(timeout=TIMEOUT_S) as http,
            ):
                verifying = asyncio.create_task(http.post(f"{url}/verify", json=body))
                await asyncio.wait_for(asked.wait(), TIMEOUT_S)
                getattr(redis, fault)()
                gate.set()
                answered = await verifying
                again = await http.post(f"{url}/verify", json=body)
                number = answered.json()["metadata"]["request_id"]
                source = await http.get(f"{url}/research/{number}/sources/1")
                health = (await http.get(f"{url}/health")).json()
    for answer_ in (answered, again):
        assert answer_.status_code == 200
        assert answer_.json()["counts"]["read"] == 40
    assert "Tea is a drink" in source.json()["text"]
    assert (health["status"], health["components"]["redis"]["status"]) == ("degraded", "unhealthy")
