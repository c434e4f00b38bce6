"""A slow client library loads while the searches are waited for."""

from __future__ import annotations

import asyncio

from modules.llm_platform.application.services.llm_registry import LLMRegistry
from modules.llm_platform.application.services.research_service import ResearchOptions, ResearchService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.ports.llm import IWarmUp
from modules.llm_platform.infrastructure.adapters.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.adapters.openai import OpenAIProvider
from modules.llm_platform.infrastructure.llm_kinds import LLMConnection
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.testing import FakeLLM, FakeWebSearch, result_item


class SlowToLoad(FakeLLM):
    """Tells when its library was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.warmed = asyncio.Event()

    async def warm_up(self) -> None:
        self.warmed.set()


async def test_the_model_gets_ready_during_the_search() -> None:
    """Before the search has answered, the model behind the router was told to load."""
    model = SlowToLoad()
    search = FakeWebSearch([result_item(1)], delay_s=0.5)
    extractive = ExtractiveSynthesizer()
    router = LLMRouter(LLMRegistry([model]))
    service = ResearchService(WebSearchService(search), extractive, extractive, MemoryCache(1), router)
    running = asyncio.create_task(service.research(ResearchRequest(query="result pages")))
    await asyncio.wait_for(model.warmed.wait(), 0.4)
    assert search.running == 1
    await running


async def test_settings_that_are_wrong_are_not_told_by_warming_up() -> None:
    """The first request says what is missing; getting ready raises nothing."""
    provider = OpenAIProvider(LLMConnection(name="openai", kind="openai", model=""))
    assert isinstance(provider, IWarmUp)
    await provider.warm_up()


async def test_a_configured_model_loads_its_library() -> None:
    """After warming up the first request finds the client there."""
    provider = OpenAIProvider(LLMConnection(name="openai", kind="openai", model="m", api_key="sk-1234567890"))
    await provider.warm_up()
    await provider.aclose()


async def test_a_model_that_does_not_get_ready_is_asked_all_the_same() -> None:
    """Getting ready has until the deadline; then the answer is written by whoever can."""

    class Stuck(FakeLLM):
        async def warm_up(self) -> None:
            await asyncio.sleep(60)

    extractive = ExtractiveSynthesizer()
    search = WebSearchService(FakeWebSearch([result_item(1, "event loop")]))
    options = ResearchOptions(timeout_s=0.5)
    service = ResearchService(search, extractive, extractive, MemoryCache(1), Stuck(), options)
    answer = await asyncio.wait_for(service.research(ResearchRequest(query="event loop pages")), 2)
    assert answer.synthesis
