"""Health and doctor: what is checked, and what a check costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modules.llm_platform.application.services.doctor_service import DoctorService, IndexCheck
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.wiring import search as search_wiring
from modules.llm_platform.wiring.llms import LLMAdapters
from modules.llm_platform.wiring.search import (
    SearchAdapters,
    has_index,
)
from shared.config import Settings

if TYPE_CHECKING:
    pass


def build_health(search: SearchAdapters, llms: LLMAdapters) -> HealthService:
    kimi = [name for name, each in llms.items() if getattr(each, "kind", name) == "kimi"]
    return HealthService(search, llms, searxng=search_wiring.searxng_names(search), kimi=kimi)


def build_doctor(
    settings: Settings, search: SearchAdapters, llms: LLMAdapters, retrieval: RetrievalService
) -> DoctorService:
    from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearch

    index = IndexCheck(retrieval, there=has_index(settings), paid=settings.EMBEDDER in ("openai", "azure"))
    patients = [
        each
        for each in search_wiring.search_patients(settings, search)
        # A collection is examined as the index.
        if not (index.there and isinstance(each.provider, DocumentWebSearch) and each.provider.folder is None)
    ]
    return DoctorService(patients, tuple(llms.values()), index=index)
