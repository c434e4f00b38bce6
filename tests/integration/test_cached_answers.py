"""Cached answers over HTTP: which parts are reused, which are new for each request, and when they expire."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.support.chat_server import ChatServer, answer, completion
from tests.support.loopback_upstream import json_reply, serving
from tests.support.server_process import TIMEOUT_S

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.infrastructure.cache import memory as memory_cache
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.http import request_log
from shared.config import Settings

QUESTION = {"query": "What does the event loop run?", "depth": "shallow"}
SEARCH = {"query": "event loop", "count": 5}
ROW = {"title": "Loop", "url": "https://docs.test/loop", "content": "The event loop runs tasks.", "engine": "google"}
KEY, OTHER_KEY = "a-key-of-the-first-client", "a-key-of-the-second-client"
NEW = ("latency_ms", "request_id")
HOUR_S = 3600.0


class Caching:
    """A server with upstreams on loopback."""

    def __init__(self, client: httpx2.AsyncClient, metrics: MemoryMetrics) -> None:
        self.client = client
        self.metrics = metrics

    async def ask(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return await self.client.post(path, json=body, headers=headers)

    async def research(self, times: int, **headers: str) -> list[dict[str, Any]]:
        answers = [await self.ask("/research", QUESTION, **headers) for _ in range(times)]
        assert {answer.status_code for answer in answers} == {200}
        return [answer.json() for answer in answers]


@asynccontextmanager
async def server(folder: Path, rows: Sequence[Any] = (ROW,), **values: Any) -> AsyncIterator[Caching]:
    chat, metrics = ChatServer(answer(completion("The event loop runs tasks [1]."))), MemoryMetrics()
    async with serving(json_reply({"results": rows, "unresponsive_engines": []})) as search, chat.running():
        settings = Settings(
            _env_file=None,
            SEARXNG_URL=search.url,
            LLM_API_KEY="sk-of-a-test",
            LLM_BASE_URL=chat.url,
            LLM_MODEL="m",
            LLM_PLATFORM_DATA_DIR=folder,
            CACHE_TTL_S=HOUR_S,
            **{"RATE_LIMIT_PER_MINUTE": 0, **values},
        )
        app = create_app(build_platform(settings, {IMetrics: metrics}), settings)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=TIMEOUT_S) as client,
        ):
            yield Caching(client, metrics)


async def test_a_cached_answer_equals_the_original(tmp_path: Path) -> None:
    """Only latency and request id change, and the sources are stored under the new request id."""
    async with server(tmp_path) as ours:
        first, second, third = await ours.research(3)
        assert [answer["metadata"]["cache_hit"] for answer in (first, second, third)] == [False, True, True]
        assert second["metadata"]["request_id"] != third["metadata"]["request_id"]
        for answer in (second, third):
            source = await ours.client.get(f"/research/{answer['metadata']['request_id']}/sources/1")
            assert source.json()["text"] == ROW["content"]
            for name in NEW:
                del answer["metadata"][name]
        assert third == second
        assert list(third["metadata"]) == list(second["metadata"])


async def test_request_id_of_the_client_is_in_the_body(tmp_path: Path) -> None:
    """The client's request id is in the body, also if JSON must escape it.

    A cached answer has the same response headers as any other.
    """
    async with server(tmp_path) as ours:
        wanted = 'said "so" \\ twice'
        answers = [await ours.ask("/research", QUESTION, **{"X-Request-ID": wanted}) for _ in range(3)]
        assert answers[2].json()["metadata"]["request_id"] == wanted == answers[2].headers["x-request-id"]
        assert answers[2].headers.keys() == answers[1].headers.keys()


async def test_cached_search_has_the_same_bytes(tmp_path: Path) -> None:
    """A cached search is byte-identical."""
    async with server(tmp_path) as ours:
        answers = [await ours.ask("/llm-platform/web-search", SEARCH) for _ in range(3)]
        assert answers[2].content == answers[1].content == answers[0].content


async def test_answer_lives_as_long_as_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After CACHE_TTL_S the question is searched again."""
    now = 0.0
    monkeypatch.setattr(memory_cache.MemoryCache.__init__, "__defaults__", (lambda: now,))
    async with server(tmp_path) as ours:
        await ours.research(3)
        now = HOUR_S + 1
        (late,) = await ours.research(1)
        assert (late["metadata"]["cache_hit"], late["metadata"]["searches"]) == (False, 1)


async def test_other_requests_are_not_mixed_up(tmp_path: Path) -> None:
    """Requests with another key, other fields or an event stream are answered separately.

    An invalid body gets its error.
    """
    async with server(tmp_path, LLM_PLATFORM_API_KEYS=f"{KEY},{OTHER_KEY}") as ours:
        mine, theirs = {"X-API-Key": KEY}, {"X-API-Key": OTHER_KEY}
        third = (await ours.research(3, **mine))[2]
        await ours.research(1, **theirs)
        position = f"/research/{third['metadata']['request_id']}/sources/1"
        assert (await ours.client.get(position, headers=mine)).status_code == 200
        assert (await ours.client.get(position, headers=theirs)).status_code == 404
        assert (await ours.ask("/research", QUESTION)).status_code == 401
        events = await ours.ask("/research", QUESTION, Accept="text/event-stream", **mine)
        assert events.headers["content-type"].startswith("text/event-stream")
        bare = await ours.ask("/research", {**QUESTION, "omit_raw": True}, **mine)
        assert bare.json()["raw_results"] is None
        wrong = await ours.client.post(
            "/research", content=json.dumps(QUESTION), headers={**mine, "Content-Type": "text/x"}
        )
        assert wrong.status_code == 415


async def test_limits_metrics_and_log_are_as_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Cached answers are still counted, rate limited and logged."""
    limits = {"RATE_LIMIT_PER_MINUTE": 4, "RATE_LIMIT_BURST": 4}
    async with server(tmp_path, **limits) as ours:
        caplog.set_level(logging.INFO, request_log.__name__)
        await ours.research(2)
        before = dict(ours.metrics.values)
        await ours.research(1)
        between = dict(ours.metrics.values)
        await ours.research(1)
        for name in ("researches_total", "cache_requests_total", "http_requests_total"):
            assert _grown(between, before, name) > 0
            assert _grown(dict(ours.metrics.values), between, name) == _grown(between, before, name)
        assert (await ours.ask("/research", QUESTION)).status_code == 429
        lines = [vars(record) for record in caplog.records if record.message == "request"][1:4]
        assert {(line["cache"], line["route"], line["status"], line["tokens"]) for line in lines} == {
            ("hit", "/research", 200, 0)
        }


async def test_secret_stays_redacted(tmp_path: Path) -> None:
    """A secret in upstream text is redacted in cached answers too."""
    row = {**ROW, "content": f"The event loop runs tasks with {KEY}."}
    async with server(tmp_path, [row], LLM_PLATFORM_API_KEYS=KEY) as ours:
        for path, body in (("/research", QUESTION), ("/llm-platform/web-search", SEARCH)):
            answers = [await ours.ask(path, body, **{"X-API-Key": KEY}) for _ in range(3)]
            assert [(KEY in answer.text, "[redacted]" in answer.text) for answer in answers] == [(False, True)] * 3


def _grown(after: Any, before: Any, name: str) -> float:
    return sum(value - before.get(series, 0.0) for series, value in after.items() if name in str(series))
