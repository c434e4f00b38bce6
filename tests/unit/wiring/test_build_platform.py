"""What a program passes to the platform that is not what it takes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing import FakeWebSearch
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
