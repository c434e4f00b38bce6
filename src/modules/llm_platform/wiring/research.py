"""Research and answers: their options, their writers, and the keys under which reports are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from modules.llm_platform.application.research.quick import ResearchOptions
from modules.llm_platform.application.research.report.reporter import Reporter
from modules.llm_platform.application.research.report.run import ReportOptions, ReportTools
from modules.llm_platform.application.services.answer_service import AnswerOptions
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.wiring import search as search_wiring
from modules.llm_platform.wiring.llms import STAGES, LLMAdapters, llm_connections, stage_choices
from modules.llm_platform.wiring.resources import Resources
from modules.llm_platform.wiring.search import (
    SearchAdapters,
)
from shared.config import Settings

if TYPE_CHECKING:
    pass


REPORT_TIMEOUT_S = 900.0  # unless RESEARCH_TIMEOUT_S is set
REPORT_LENGTH = 2  # times the longest answer of a synthesis
LABEL_CHARS = 12  # of a digest that tells one set of addresses from another


def build_answer_writer(llm: ILLMProvider | None, extractive: ISynthesizer, context_tokens: int) -> ISynthesizer:
    """Who answers from the index: the model, whose failure is told, or without one the extractive writer. Answers of
    documents are not cached.
    """
    if llm is None:
        return extractive
    from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer

    return LLMSynthesizer(llm, context_tokens=context_tokens)


def answer_options(settings: Settings) -> AnswerOptions:
    return AnswerOptions(timeout_s=settings.RAG_TIMEOUT_S, top_k=settings.RAG_TOP_K, max_tokens=settings.LLM_MAX_TOKENS)


def build_report_writer(extractive: ISynthesizer) -> Callable[[ILLMProvider | None, int], ISynthesizer]:
    """Who writes a report with the given model; without one, the extractive writer."""

    def writer(llm: ILLMProvider | None, context_tokens: int) -> ISynthesizer:
        if llm is None:
            return extractive
        from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer

        return LLMSynthesizer(llm, context_tokens=context_tokens)

    return writer


def report_labels(settings: Settings, search: SearchAdapters, llms: LLMAdapters) -> Mapping[str, str]:
    """Who serves what, for the keys of the store: with another engine or model the kept work is another's."""
    addresses = _digest(search_wiring.search_addresses(settings))
    labels = {"search": f"{','.join(search)}@{addresses}", "read": ",".join(settings.READERS)}
    if llms:
        models = ",".join(getattr(each, "label", each.name) for each in llms.values())
        addresses = _digest([each.address or "" for each in llm_connections(settings)])
        first = stage_choices(settings)
        labels |= {stage: "/".join(filter(None, (first.get(stage), f"{models}@{addresses}"))) for stage in STAGES}
    return labels


def _digest(parts: Iterable[str]) -> str:
    return sha256("|".join(parts).encode()).hexdigest()[:LABEL_CHARS]


def report_options(settings: Settings, context_tokens: int) -> ReportOptions:
    given = "RESEARCH_TIMEOUT_S" in settings.model_fields_set
    return ReportOptions(
        timeout_s=settings.RESEARCH_TIMEOUT_S if given else REPORT_TIMEOUT_S,
        pages=settings.REPORT_PAGES,
        queries_per_language=settings.REPORT_QUERIES_PER_LANGUAGE,
        query_languages=settings.QUERY_LANGUAGES,
        read_early=settings.REPORT_READ_EARLY,
        results_per_search=settings.SEARXNG_MAX_RESULTS,
        max_tokens=min(REPORT_LENGTH * settings.LLM_MAX_TOKENS, context_tokens // 2),
        context_tokens=context_tokens,
        offline=settings.LLM_PLATFORM_OFFLINE,
    )


def build_reporter(tools: ReportTools, resources: Resources) -> Reporter:
    reporter = Reporter(tools)
    resources.closing(reporter.aclose)
    return reporter


def research_options(settings: Settings) -> ResearchOptions:
    return ResearchOptions(
        timeout_s=settings.RESEARCH_TIMEOUT_S,
        results_per_search=settings.SEARXNG_MAX_RESULTS,
        max_tokens=settings.LLM_MAX_TOKENS,
        plan_ttl_s=settings.CACHE_TTL_S,
    )
