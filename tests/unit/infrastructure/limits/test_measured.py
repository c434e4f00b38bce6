"""What upstreams and caches did is counted, whatever the result."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.support.guards import guarded_model, guarded_reader, guarded_search

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import LLMConnectionError, WebSearchBlockedError
from modules.llm_platform.infrastructure.cache.measured import MeasuredCache
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.testing import BrokenStream, FakeLLM, FakePageReader, FakeWebSearch, result_item

SECRET_WORDS = "a private question"
CALLS = "llm_platform_upstream_requests_total"
TOKENS = "llm_platform_llm_tokens_total"


@pytest.fixture
def metrics() -> MemoryMetrics:
    return MemoryMetrics()


def chat() -> LLMRequest:
    return LLMRequest(messages=(ChatMessage(role="user", content=SECRET_WORDS),))


async def test_searches_are_counted_by_result(metrics: MemoryMetrics) -> None:
    """ok, the code of an error, and cancelled are three results."""
    for outcome in ([result_item(1)], WebSearchBlockedError()):
        search = guarded_search(FakeWebSearch(outcome), metrics=metrics)
        await asyncio.gather(search.search(WebSearchRequest(query="x")), return_exceptions=True)
    fake = FakeWebSearch(delay_s=60)
    slow = asyncio.create_task(guarded_search(fake, metrics=metrics).search(WebSearchRequest(query="x")))
    while not fake.running:
        await asyncio.sleep(0)
    slow.cancel()
    await asyncio.wait([slow])
    for result in ("ok", "web_search_blocked", "cancelled"):
        assert metrics.values[CALLS, "search", "fake", result] == 1
    assert metrics.values["llm_platform_upstream_request_duration_seconds", "search", "fake"] >= 0


async def test_tokens_of_failed_calls_count(metrics: MemoryMetrics) -> None:
    """A call that fails half-way has a cost too."""
    llm = guarded_model(
        FakeLLM(["some words", "some words", LLMConnectionError(), BrokenStream("half of it")]), metrics=metrics
    )
    answer = await llm.generate(chat())
    spent = answer.spent.completion_tokens
    assert metrics.values[TOKENS, "fake", "fake-1", "completion"] == spent > 0
    assert [part async for part in llm.stream(chat())]
    assert metrics.values[TOKENS, "fake", "fake-1", "completion"] == 2 * spent
    with pytest.raises(LLMConnectionError):
        await llm.generate(chat())
    with pytest.raises(LLMConnectionError):
        assert [part async for part in llm.stream(chat())]
    assert metrics.values[TOKENS, "fake", "fake-1", "completion"] > 2 * spent
    assert metrics.values[CALLS, "llm", "fake", "ok"] == 2
    assert metrics.values[CALLS, "llm", "fake", "llm_connection"] == 2


async def test_pages_are_counted_without_their_addresses(metrics: MemoryMetrics) -> None:
    """No label contains an address."""
    url = "https://secret.example.net/"
    await guarded_reader(FakePageReader({url: "text"}), metrics=metrics).read(url)
    assert metrics.values[CALLS, "page_reader", "fake", "ok"] == 1
    assert "secret" not in str(metrics.values)


async def test_hits_and_misses_are_counted(metrics: MemoryMetrics) -> None:
    """By the name of the cache."""
    cache: MeasuredCache[WebSearchResponse] = MeasuredCache(MemoryCache(10), "search", metrics)
    assert await cache.get("a") is None
    await cache.set("a", WebSearchResponse(query="q"), 60)
    assert await cache.get("a") == WebSearchResponse(query="q")
    assert metrics.values["llm_platform_cache_requests_total", "search", "hit"] == 1
    assert metrics.values["llm_platform_cache_requests_total", "search", "miss"] == 1


async def test_calls_are_logged_at_debug_without_content(
    metrics: MemoryMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    """Each call has one line without the query or the answer."""
    caplog.set_level(logging.DEBUG, "modules.llm_platform.infrastructure.limits.upstream_guard")
    await guarded_model(FakeLLM([SECRET_WORDS]), metrics=metrics).generate(chat())
    [record] = caplog.records
    assert (record.levelno, vars(record)["upstream"], vars(record)["result"]) == (logging.DEBUG, "fake", "ok")
    assert SECRET_WORDS not in str(vars(record))
