"""A platform of scripted services, and the application around it: what the tests of the HTTP door share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import httpx2

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.research.events import Done, ResearchEvent, SourcesNumbered, Started, Token
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMToken, Usage
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import (
    HeldSource,
    RawResult,
    ResearchMetadata,
    ResearchRequest,
    ResearchResponse,
    SourceRef,
)
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import SourceNotHeldError
from modules.llm_platform.domain.freshness import freshness_window
from modules.llm_platform.infrastructure.adapters.disk_research_store import NoResearchStore
from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

HIT = WebSearchResultItem(
    title="asyncio", url="https://docs.example.org/asyncio", snippet="An event loop.", source="wiki", score=0.5
)
REF = SourceRef(index=1, title="asyncio", url="https://docs.example.org/asyncio")
HELD = HeldSource(index=1, url=REF.url, title=REF.title, text="An event loop runs tasks.", sha256="0" * 64)


class Scripted:
    """Every service of the platform. `delay_s` passes before each answer, `error` is raised instead of one.

    `asked` holds the requests, `cancelled` counts the calls that were cancelled.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.error_half_way: Exception | None = None
        self.delay_s = 0.0
        self.asked: list[Any] = []
        self.request_ids: list[str | None] = []
        self.cancelled = 0
        self.closed = 0
        self.found = WebSearchResponse(query="q", total_matches=7, results=(HIT,), provider="fake")
        self.answer = "An event loop runs tasks. [1]"
        self.gate = asyncio.Event()  # what is asked ends when it is set
        self.gate.set()

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        await self._work(request)
        freshness_window(request)
        return self.found

    async def generate(self, request: LLMRequest) -> LLMResponse:
        await self._work(request)
        return self._llm_response()

    async def stream_chat(self, request: LLMRequest) -> AsyncIterator[LLMToken | LLMResponse]:
        await self._work(request)
        yield LLMToken(text=self.answer)
        if self.error_half_way:
            raise self.error_half_way
        yield self._llm_response()

    async def research(self, request: ResearchRequest, *, request_id: str | None = None) -> ResearchResponse:
        await self._work(request, request_id)
        return self._researched(request, request_id)

    async def stream_research(
        self, request: ResearchRequest, *, request_id: str | None = None
    ) -> AsyncIterator[ResearchEvent]:
        name = request_id or ""
        yield Started(request_id=name)
        await self._work(request, request_id)
        yield SourcesNumbered(request_id=name, sources=(REF,))
        if self.error_half_way:
            raise self.error_half_way
        yield Token(request_id=name, text=self.answer)
        yield Done(request_id=name, response=self._researched(request, request_id))

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        await self._work(request)
        return ResearchPlan(query=request.query, language="en", questions=(request.query, "How?"), planner="fake/fake-1")

    async def source(self, request_id: str, index: int) -> HeldSource:
        if request_id != "held" or index != HELD.index:
            raise SourceNotHeldError
        return HELD

    async def close(self) -> None:
        self.closed += 1

    async def _work(self, request: Any, request_id: str | None = None) -> None:
        self.asked.append(request)
        self.request_ids.append(request_id)
        try:
            await asyncio.sleep(self.delay_s)
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error

    def _llm_response(self) -> LLMResponse:
        return LLMResponse(
            content=self.answer, provider="fake", model="fake-1", usage=Usage(prompt_tokens=3, completion_tokens=4)
        )

    def _researched(self, request: ResearchRequest, request_id: str | None) -> ResearchResponse:
        raw = None if request.omit_raw else (RawResult.of(HIT),)
        return ResearchResponse(
            query=request.query,
            depth=request.depth,
            synthesis=self.answer,
            sources=(REF,),
            raw_results=raw,
            metadata=ResearchMetadata(latency_ms=1, synthesizer="fake", request_id=request_id or ""),
        )


class _Service:
    """One service: the methods that it is given."""

    def __init__(self, **methods: Any) -> None:
        self.__dict__.update(methods)


def platform_of(scripted: Scripted, health: HealthService | None = None) -> LLMPlatform:
    """A platform whose services are the scripted ones."""
    parts: dict[str, Any] = {
        "web_search": _Service(search=scripted.search),
        "llm": _Service(generate=scripted.generate, stream=scripted.stream_chat),
        "research": _Service(
            research=scripted.research, stream=scripted.stream_research, source=scripted.source, plan=scripted.plan
        ),
        "health": health or HealthService({"fake": object()}, {}),
        "store": StoreService(NoResearchStore()),
    }
    unused = {field.name: _Service() for field in fields(LLMPlatform)}
    return LLMPlatform(**{**unused, **parts, "_close": scripted.close})


@asynccontextmanager
async def door(
    scripted: Scripted | None = None, health: HealthService | None = None, base_url: str = "http://localhost", **values: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a running application with these settings."""
    app = create_app(platform_of(scripted or Scripted(), health), Settings(_env_file=None, **values))
    transport = httpx2.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url=base_url) as client:
        yield client
