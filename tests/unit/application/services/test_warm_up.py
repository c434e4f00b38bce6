"""A slow client library loads while the searches are waited for."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from tests.report_world import Web, World

from modules.llm_platform.application.research.follow_up import FollowUps
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.ports.llm import IWarmUp, LLMRegistry
from modules.llm_platform.infrastructure.adapters.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.adapters.openai.chat import OpenAIProvider
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.testing import FakeLLM, FakeWebSearch, result_item
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S


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
    search = FakeWebSearch([result_item(1)], delay_s=60)
    extractive = ExtractiveSynthesizer()
    router = LLMRouter(LLMRegistry([model]))
    quick_research = QuickResearch(WebSearchService(search), extractive, extractive, router)
    service = ResearchService(quick_research, World(Web({})).reporter(), MemoryCache(1), follow_ups=FollowUps(MemoryCache(1)))
    running = asyncio.create_task(service.research(ResearchRequest(query="result pages")))
    await asyncio.wait_for(model.warmed.wait(), CANCEL_TIMEOUT_S)
    assert search.running == 1
    running.cancel()
    await asyncio.wait([running])


async def test_warm_up_does_not_report_wrong_settings() -> None:
    """The first request says what is missing; getting ready raises nothing."""
    provider = OpenAIProvider(LLMConnection(name="openai", kind="openai", model=""))
    assert isinstance(provider, IWarmUp)
    await provider.warm_up()


def test_a_configured_model_loads_its_library() -> None:
    """Before warming up the client library is not there, afterwards it is. In a process of its own: modules stay loaded."""
    code = (
        "import asyncio, sys\n"
        "from modules.llm_platform.infrastructure.adapters.openai.chat import OpenAIProvider\n"
        "from modules.llm_platform.infrastructure.llm.kinds import LLMConnection\n"
        "it = OpenAIProvider(LLMConnection(name='openai', kind='openai', model='m', api_key='sk-1234567890'))\n"
        "before = 'openai' in sys.modules\n"
        "asyncio.run(it.warm_up())\n"
        "print(before, 'openai' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)
    assert ran.stdout.split() == ["False", "True"]
