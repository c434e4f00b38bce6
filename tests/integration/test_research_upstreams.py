"""Research runs and their upstreams: identical runs share calls, no call outlives its run, and a broken model is
skipped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fakes.llm_contract import question
from tests.fakes.metrics import MemoryMetrics
from tests.support.cases import for_each
from tests.support.chat_server import ChatServer, Reply, answer, completion, error
from tests.support.loopback_upstream import Exchange, Handler, Loopback, json_reply, reply, serving, silence

from modules.llm_platform import (
    AppException,
    LLMConnectionError,
    LLMPlatform,
    PageConnectionError,
    ResearchRequest,
    ResearchTimeoutError,
)
from modules.llm_platform.container import Container, build_platform
from modules.llm_platform.domain.telemetry.metrics import BREAKER_OPEN
from modules.llm_platform.infrastructure.limits.upstream_limits import CIRCUIT_COOLDOWN_S, FAILURES_TO_OPEN
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true
from shared.config import Settings

QUESTION = "What does the event loop run?"
TEXT = "The event loop runs asynchronous tasks and callbacks, and performs network operations."
CALLERS = 500
HANGING = Reply(ending="hang")
UPSTREAM_TIMEOUT_S = 300.0  # far beyond the deadline of the research runs


async def found(exchange: Exchange) -> None:
    await asyncio.sleep(0.05)
    rows = [{"title": "Loop", "url": "https://docs.test/loop", "content": TEXT, "engine": "google"}]
    await json_reply({"results": rows, "unresponsive_engines": []})(exchange)


def written(text: str = "The event loop runs asynchronous tasks [1].") -> Reply:
    return Reply((0.05, *answer(completion(text, "stop", {"prompt_tokens": 10, "completion_tokens": 5})).parts))


@asynccontextmanager
async def world(
    chat: ChatServer, search: Handler = found, **settings: Any
) -> AsyncIterator[tuple[LLMPlatform, Loopback]]:
    async with serving(search) as upstream, chat.running():
        configured = Settings(
            SEARXNG_URL=upstream.url,
            LLM_API_KEY="k",
            LLM_BASE_URL=chat.url,
            LLM_MODEL="m",
            STORE_TTL_DAYS=0,
            **settings,
        )
        async with build_platform(configured) as platform:
            yield platform, upstream


def research_request(depth: str = "shallow", **more: Any) -> ResearchRequest:
    return ResearchRequest.model_validate({"query": QUESTION, "depth": depth, **more})


async def test_identical_concurrent_questions_cost_one_search_and_one_synthesis() -> None:
    """500 callers get the same answer for the cost of one run."""
    chat = ChatServer(written())
    async with world(chat) as (platform, upstream):
        answers = await asyncio.gather(*(platform.research.research(research_request()) for _ in range(CALLERS)))
    assert (len(upstream.requests), len(chat.asked)) == (1, 1)
    assert {response.synthesis for response in answers} == {answers[0].synthesis}
    assert sum(response.metadata.searches for response in answers) == 1
    assert sum(response.metadata.llm_calls for response in answers) == 1
    assert sum(response.metadata.cache_hit for response in answers) == CALLERS - 1


async def test_identical_deep_questions_share_the_plan_too() -> None:
    """Identical deep questions share one plan, one search for each planned question, and one synthesis."""
    plan = written(json.dumps(["What is an event loop?", "Which tasks does a loop run?", "What are callbacks?"]))
    chat = ChatServer(plan, written())
    async with world(chat) as (platform, upstream):
        answers = await asyncio.gather(*(platform.research.research(research_request("deep")) for _ in range(50)))
    assert len(chat.asked) == 2
    assert len(upstream.requests) == len({exchange.form["q"] for exchange in upstream.requests}) == 3
    assert sum(response.metadata.llm_calls for response in answers) == 2


@for_each("depth", ["shallow", "deep", "report"])
@for_each("hanging", ["search", "model"])
async def test_no_call_outlives_its_research(depth: str, hanging: str) -> None:
    """The upstream timeouts are minutes, but all calls end with the two seconds of the research run."""
    chat = ChatServer(HANGING if hanging == "model" else written())
    search = silence if hanging == "search" else found
    slow = {"SEARXNG_TIMEOUT_S": UPSTREAM_TIMEOUT_S, "LLM_TIMEOUT_S": UPSTREAM_TIMEOUT_S}
    async with world(chat, search, RESEARCH_TIMEOUT_S=2.0, REPORT_PAGES=1, **slow) as (platform, upstream):
        async with asyncio.timeout(UPSTREAM_TIMEOUT_S / 5):
            (outcome,) = await asyncio.gather(
                platform.research.research(research_request(depth)), return_exceptions=True
            )
        # On a busy machine the deadline may pass before the searches.
        assert isinstance(outcome, ResearchTimeoutError) or outcome.metadata.synthesizer == "extractive"  # type: ignore[union-attr]
        assert await becomes_true(lambda: upstream.busy == 0, CLOSE_TIMEOUT_S)
        if hanging == "model" and chat.asked:
            assert await becomes_true(chat.gone.is_set, CLOSE_TIMEOUT_S)


async def test_a_broken_model_is_skipped_and_the_metric_shows_it() -> None:
    """After repeated failures a chat fails at once with the wait, a research run quotes, and no call is made."""
    chat, metrics = ChatServer(error(503, {})), MemoryMetrics()
    async with chat.running():
        container = Container(settings=Settings(LLM_API_KEY="k", LLM_BASE_URL=chat.url, LLM_MODEL="m"))
        container.metrics.override(metrics)
        provider = container.llm_provider()
        assert provider is not None
        assert metrics.values[BREAKER_OPEN.name, "openai"] == 0
        for _ in range(3 * FAILURES_TO_OPEN):
            with pytest.raises(AppException) as caught:
                await provider.generate(question())
        assert len(chat.asked) == FAILURES_TO_OPEN
        assert isinstance(caught.value, LLMConnectionError)
        assert 0 < (caught.value.retry_after_s or 0) <= CIRCUIT_COOLDOWN_S
        assert caught.value.spent.calls == 0
        assert metrics.values[BREAKER_OPEN.name, "openai"] == 1
        assert container.circuits()["llm"]["openai"].state == "open"
        await container.resources().aclose()


async def test_a_broken_page_reader_is_skipped() -> None:
    """Reads through Jina have a circuit breaker too."""
    async with serving(reply(503)) as upstream:
        container = Container(
            settings=Settings(
                READERS="jina", JINA_BASE_URL=upstream.url, JINA_RPS=1000, READER_ALLOWED_HOSTS="192.0.2.1"
            )
        )
        reader = container.page_reader()
        for _ in range(3 * FAILURES_TO_OPEN):
            with pytest.raises(PageConnectionError) as caught:
                await reader.read("http://192.0.2.1/page")
        assert len(upstream.requests) == FAILURES_TO_OPEN
        assert caught.value.retry_after_s is not None
        assert container.circuits()["page_reader"]["jina"].state == "open"
        await container.resources().aclose()
