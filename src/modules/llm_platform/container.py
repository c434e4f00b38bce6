"""What is configured becomes a platform: with `wiring` beside it, the only place that knows port and adapter.

To replace a part in a test: `build_platform(overrides={IWebSearchProvider: FakeWebSearch(…)})`. To add a search provider: see
`wiring/search.py`.

Over 500 lines: each part is built here once, and `Container` shows them all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from dependency_injector import containers, providers

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.rag.answering import ContextResolver, DocumentLookup
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.report.run import ReportTools
from modules.llm_platform.application.services.answer_service import AnswerService
from modules.llm_platform.application.services.indexing_service import IndexingService
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.llm.kinds import configuration_error
from modules.llm_platform.wiring import search as search_wiring
from modules.llm_platform.wiring.checks import build_doctor, build_health
from modules.llm_platform.wiring.documents import (
    LOCAL_EMBEDDERS,
    build_document_source,
    build_embedder,
    build_folder_embedder,
    build_folder_index,
    build_stored_folder_indexes,
    build_vector_store,
    folder_progress,
)
from modules.llm_platform.wiring.llms import (
    ONLY_LOOPBACK,
    QUOTES_ONLY,
    all_connections,
    build_answer_judge,
    build_citation_judges,
    build_llm_adapters,
    build_llm_provider,
    build_llm_rate_limiters,
    build_price,
    build_report_judge,
    build_research_judge,
    build_stage_llms,
    build_synthesizer,
    llm_connections,
    missing_llm_message,
    smallest_context_tokens,
    stage_choices,
)
from modules.llm_platform.wiring.pages import build_page_reader, build_report_page_reader
from modules.llm_platform.wiring.research import (
    answer_options,
    build_answer_writer,
    build_report_writer,
    build_reporter,
    report_labels,
    report_options,
    research_options,
)
from modules.llm_platform.wiring.resources import Resources
from modules.llm_platform.wiring.stores import build_outcome_store, build_research_store
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts


HELD_RESEARCHES = 200  # whose source texts can be asked for; about 10 kB each, of a report up to 500
ONE_MACHINE = "the index is embedded, for this machine alone: workers of several machines need QDRANT_URL"


class Container(containers.DeclarativeContainer):
    """Each part once; what a test replaces is overridden here."""

    settings = providers.Dependency(instance_of=Settings)
    resources = providers.Singleton(Resources, settings)

    embedder = providers.Singleton(build_embedder, settings, resources)
    vector_store = providers.Singleton(build_vector_store, settings, resources)
    retrieval = providers.Singleton(
        RetrievalService, embedder, vector_store, settings.provided.QDRANT_COLLECTION, top_k=settings.provided.RAG_TOP_K
    )

    document_source = providers.Singleton(build_document_source, settings, resources)
    folder_embedder = providers.Singleton(build_folder_embedder, settings)
    folder_store: providers.Object[IVectorStore | None] = providers.Object(None)  # its own, embedded
    folder_index = providers.Singleton(
        build_folder_index, settings, resources, document_source, folder_embedder, folder_store
    )

    search_adapters = providers.Singleton(search_wiring.search_adapters, settings, resources, retrieval, folder_index)
    search_paces = providers.Singleton(search_wiring.search_paces, settings, search_adapters)
    search_cache: providers.Singleton[MemoryCache[Any]] = providers.Singleton(
        MemoryCache, settings.provided.CACHE_MAX_ENTRIES
    )
    web_search_provider = providers.Singleton(
        search_wiring.web_search_provider, settings, search_adapters, search_paces, search_cache
    )
    llm_adapters = providers.Singleton(build_llm_adapters, settings, resources)
    llm_paces = providers.Singleton(build_llm_rate_limiters, settings, llm_adapters)
    llm_provider = providers.Singleton(build_llm_provider, settings, llm_adapters, llm_paces)
    extractive = providers.Singleton(ExtractiveSynthesizer)
    synthesizer = providers.Singleton(build_synthesizer, settings, llm_provider, llm_adapters, extractive)

    page_reader = providers.Singleton(build_page_reader, settings, resources)

    web_search = providers.Singleton(WebSearchService, web_search_provider, log_queries=settings.provided.LOG_QUERIES)
    research_store = providers.Singleton(build_research_store, settings)
    context_tokens = providers.Singleton(smallest_context_tokens, settings)
    stage_llms = providers.Singleton(build_stage_llms, settings, llm_adapters, llm_paces, llm_provider)
    report_search_provider = providers.Singleton(
        search_wiring.report_search_provider, settings, search_adapters, search_paces, search_cache, web_search_provider
    )
    report_writer = providers.Singleton(build_report_writer, extractive)
    citation_judges = providers.Singleton(build_citation_judges, context_tokens)
    answer_judge = providers.Singleton(build_answer_judge, settings, citation_judges, llm_provider)
    report_tools = providers.Singleton(
        ReportTools,
        search=providers.Singleton(WebSearchService, report_search_provider, log_queries=settings.provided.LOG_QUERIES),
        pages=providers.Singleton(
            PageService, providers.Singleton(build_report_page_reader, search_adapters, page_reader)
        ),
        store=research_store,
        llms=stage_llms,
        writer=report_writer,
        last_resort=extractive,
        judge=providers.Singleton(build_report_judge, settings, citation_judges),
        labels=providers.Singleton(report_labels, settings, search_adapters, llm_adapters),
        price=providers.Singleton(build_price, settings, llm_adapters),
        options=providers.Singleton(report_options, settings, context_tokens),
    )
    reporter = providers.Singleton(build_reporter, report_tools, resources)
    llm = providers.Singleton(LLMService, llm_provider, providers.Singleton(missing_llm_message, settings))
    answerer = providers.Singleton(
        QuickResearch,
        search=web_search,
        writer=synthesizer,
        last_resort=extractive,
        planner=llm_provider,
        options=providers.Singleton(research_options, settings),
        plans=providers.Singleton(MemoryCache, settings.provided.CACHE_MAX_ENTRIES),
        judge=providers.Singleton(build_research_judge, settings, answer_judge, llm_adapters),
    )
    research = providers.Singleton(
        ResearchService, answerer, reporter, providers.Singleton(MemoryCache, HELD_RESEARCHES)
    )
    pages = providers.Singleton(PageService, page_reader)
    store = providers.Singleton(
        StoreService, research_store, providers.Singleton(build_stored_folder_indexes, settings)
    )
    indexing = providers.Singleton(
        IndexingService,
        document_source,
        embedder,
        vector_store,
        settings.provided.QDRANT_COLLECTION,
    )
    answer_writer = providers.Singleton(build_answer_writer, llm_provider, extractive, context_tokens)
    answers = providers.Singleton(
        AnswerService,
        retrieval.provided.search,
        providers.Singleton(
            ContextResolver,
            pages,
            providers.Singleton(DocumentLookup, vector_store, settings.provided.QDRANT_COLLECTION),
        ),
        answer_writer,
        extractive,
        providers.Singleton(answer_options, settings),
        judge=answer_judge,
    )
    outcome_store = providers.Singleton(build_outcome_store, settings, resources)  # opened by workers alone
    health = providers.Singleton(build_health, search_adapters, llm_adapters)
    doctor = providers.Singleton(build_doctor, settings, search_adapters, llm_adapters, retrieval)
    platform = providers.Factory(
        LLMPlatform,
        web_search=web_search,
        llm=llm,
        research=research,
        pages=pages,
        store=store,
        retrieval=retrieval,
        indexing=indexing,
        answers=answers,
        health=health,
        doctor=doctor,
        _close=resources.provided.aclose,
        _reading=providers.Singleton(folder_progress, folder_index),
    )


def build_platform(
    settings: Settings | None = None, overrides: Mapping[type[Any], object] | None = None
) -> LLMPlatform:
    """The platform, wired from `settings` (None: this process's environment). Nothing is connected before the first call.

    `overrides` maps a port to the object that takes its place, policies included: IWebSearchProvider, ILLMProvider,
    ISynthesizer, ICitationJudge, IPageReader, IResearchStore, IEmbedder or IVectorStore. Raises SettingsError when a
    variable cannot be read, ValueError for another port.
    """
    platform: LLMPlatform = _container(settings or Settings.load(), overrides).platform()
    return platform


@asynccontextmanager
async def build_worker_parts(
    settings: Settings, overrides: Mapping[type[Any], object] | None = None
) -> AsyncIterator[WorkerParts]:
    """What a worker answers requests with, closed at the end. `overrides` as for `build_platform`, and IOutcomeStore."""
    from modules.llm_platform.presentation.kafka.worker.dependencies import (
        Dependencies,
        of_models,
        of_outcomes,
        of_retrieval,
    )
    from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, rag_handler
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts

    container = _container(settings, overrides)
    options = HandlerOptions(
        max_message_bytes=settings.RAG_MAX_MESSAGE_BYTES,
        timeout_s=settings.RAG_TIMEOUT_S,
        tenant_field=settings.KAFKA_TENANT_FIELD,
    )
    async with container.platform() as platform:
        outcomes = container.outcome_store()
        llm, embedder = container.llm_provider(), container.embedder()
        paid = settings.EMBEDDER not in LOCAL_EMBEDDERS
        watched = [of_outcomes(outcomes), *of_retrieval(platform.retrieval, embedder, paid=paid)]
        if llm is not None:
            watched.append(of_models(llm, container.llm_adapters()))
        dependencies = Dependencies(watched)
        handler = rag_handler(platform.retrieval, platform.answers, outcomes, options, dependencies)
        yield WorkerParts(handler, outcomes, tuple(_worker_notes(settings)), dependencies)


def _worker_notes(settings: Settings) -> Iterator[str]:
    if settings.QDRANT_URL is None:
        yield ONE_MACHINE
    connections = llm_connections(settings)
    yield from (
        f"a language model cannot be asked: {mistake}" for mistake in map(configuration_error, connections) if mistake
    )
    if not connections:
        yield ONLY_LOOPBACK if settings.LLM_PLATFORM_OFFLINE and all_connections(settings) else QUOTES_ONLY


def _container(settings: Settings, overrides: Mapping[type[Any], object] | None) -> Container:
    if ILLMProvider in (overrides or {}):
        settings = settings.model_copy(update={"LLM_STAGES": {}})  # it serves every stage
    stage_choices(settings)  # a slip in LLM_STAGES stops the start, not the first report
    search_wiring.check_providers(settings)
    container = Container(settings=settings)
    for port, replacement in (overrides or {}).items():
        _override(container, port, replacement)
    return container


def _override(container: Container, port: type, replacement: Any) -> None:
    if port is IWebSearchProvider:
        container.web_search_provider.override(providers.Object(replacement))
        container.search_adapters.override(providers.Object({replacement.name: replacement}))
    elif port is ILLMProvider:
        container.llm_provider.override(providers.Object(replacement))
        container.llm_adapters.override(providers.Object({replacement.name: replacement}))
    elif port is ISynthesizer:
        container.synthesizer.override(providers.Object(replacement))
        container.report_writer.override(providers.Object(lambda llm, context_tokens: replacement))
        container.answer_writer.override(providers.Object(replacement))
    elif port is ICitationJudge:
        container.citation_judges.override(providers.Object(lambda llm: replacement))
    elif port is IPageReader:
        container.page_reader.override(providers.Object(replacement))
    elif port is IResearchStore:
        container.research_store.override(providers.Object(replacement))
    elif port is IEmbedder:
        container.embedder.override(providers.Object(replacement))
        container.folder_embedder.override(providers.Object(replacement))
    elif port is IVectorStore:
        container.vector_store.override(providers.Object(replacement))
        container.folder_store.override(providers.Object(replacement))
    elif port is IOutcomeStore:
        container.outcome_store.override(providers.Object(replacement))
    else:
        raise ValueError(
            f"{port.__name__} cannot be overridden: choose IWebSearchProvider, ILLMProvider, ISynthesizer, ICitationJudge, "
            "IPageReader, IResearchStore, IEmbedder, IVectorStore or IOutcomeStore"
        )
