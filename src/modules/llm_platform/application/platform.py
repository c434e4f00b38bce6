"""Everything that this context offers, in one hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from modules.llm_platform.application.services.answer_service import AnswerService
from modules.llm_platform.application.services.doctor_service import DoctorService
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.indexing_service import IndexingService
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress


@dataclass(frozen=True, slots=True)
class LLMPlatform:
    """The services, wired. Use as `async with build_platform() as platform`, or call `aclose` when done."""

    web_search: WebSearchService
    llm: LLMService
    research: ResearchService
    pages: PageService
    store: StoreService
    retrieval: RetrievalService
    indexing: IndexingService
    answers: AnswerService
    health: HealthService
    doctor: DoctorService
    _close: Callable[[], Awaitable[None]] = field(repr=False)
    _reading: Callable[[], IndexProgress | None] = field(default=lambda: None, repr=False)

    @property
    def reading(self) -> IndexProgress | None:
        """How far the reading of a named folder is; None where none is being read right now."""
        return self._reading()

    async def aclose(self) -> None:
        """Close every connection that the platform opened; a second call does nothing."""
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
