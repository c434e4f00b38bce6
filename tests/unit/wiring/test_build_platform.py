"""What a program passes to the platform that is not what it takes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing import FakeWebSearch
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true
from shared.config import Settings


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[LLMPlatform]:
    settings = Settings.without_environment(LLM_PLATFORM_DATA_DIR=tmp_path)
    async with build_platform(settings, {IWebSearchProvider: FakeWebSearch()}) as opened:
        yield opened


@for_each(
    ("call", "remedy"),
    [
        (lambda platform: platform.research.research, r"ResearchRequest\(query=…\)"),
        (lambda platform: platform.research.plan, r"PlanRequest\(query=…\)"),
        (lambda platform: platform.research_jobs.submit, r"ResearchRequest\(query=…\)"),
        (lambda platform: platform.watches.add, r"WatchRequest\(query=…\)"),
        (lambda platform: platform.answers.answer, r"RagQuestion\(question=…\)"),
        (lambda platform: platform.web_search.search, r"WebSearchRequest\(query=…\)"),
    ],
)
async def test_a_question_in_place_of_a_request_is_refused_with_the_remedy(
    platform: LLMPlatform, call: Callable[[LLMPlatform], Callable[[Any], Awaitable[object]]], remedy: str
) -> None:
    for wrong in ("What is it?", None, {"query": "What is it?"}):
        with pytest.raises(TypeError, match=remedy):
            await call(platform)(wrong)


async def test_a_stream_is_refused_before_its_first_event(platform: LLMPlatform) -> None:
    wrong: Any = "What is it?"
    with pytest.raises(TypeError, match=r"ResearchRequest\(query=…\)"):
        platform.research.stream(wrong)


async def test_two_event_loops_cannot_research_at_once(tmp_path: Path) -> None:
    """The second one is told so: it would wait for ever."""
    provider, settings = FakeWebSearch(delay_s=60), Settings.without_environment(LLM_PLATFORM_DATA_DIR=tmp_path)
    request = ResearchRequest(query="What is it?")
    async with build_platform(settings, {IWebSearchProvider: provider}) as platform:
        first = asyncio.create_task(platform.research.research(request))
        assert await becomes_true(lambda: provider.running == 1, START_TIMEOUT_S)
        with pytest.raises(RuntimeError, match="build one platform for each event loop"):
            await asyncio.to_thread(lambda: asyncio.run(platform.research.research(request)))
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first


@for_each(
    ("overrides", "message"),
    [
        (
            {"IWebSearchProvider": FakeWebSearch()},
            "'IWebSearchProvider' cannot be overridden: use one of the classes I",
        ),
        ({FakeWebSearch: FakeWebSearch()}, "FakeWebSearch cannot be overridden: use one of the classes I"),
        ({IWebSearchProvider: FakeWebSearch}, r"not by the class FakeWebSearch: pass FakeWebSearch\(…\)"),
    ],
)
def test_what_overrides_no_port_is_refused_with_the_remedy(
    tmp_path: Path, overrides: dict[Any, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build_platform(Settings.without_environment(LLM_PLATFORM_DATA_DIR=tmp_path), overrides)
