"""The dependency injection container, which builds the ports, adapters and services of one platform.

To replace a port in a test, call `build_platform(overrides={IWebSearchProvider: FakeWebSearch(…)})`. To add a search
provider, see `infrastructure/search/from_settings/providers.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from dependency_injector.providers import Callable, Dependency, Factory, Object, Singleton

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.rag.answering import ContextResolver, DocumentLookup
from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.services.answer_service import AnswerService
from modules.llm_platform.application.services.embedding_service import EmbeddingService
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.rerank_service import RerankService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.seal_service import SealService
from modules.llm_platform.application.services.site_crawl_service import SiteCrawlService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.services.watch_job import WatchRunner
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.citation_dtos import StoredVerdicts
from modules.llm_platform.domain.dtos.source_dtos import StoredSources
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.watch_store import IWatchStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.cache import from_settings as cache
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.documents import from_settings as documents
from modules.llm_platform.infrastructure.index import from_settings as index
from modules.llm_platform.infrastructure.limits import from_settings as limits
from modules.llm_platform.infrastructure.limits.upstream_states import make_upstream_states
from modules.llm_platform.infrastructure.models.custom_model import CustomModel
from modules.llm_platform.infrastructure.models.from_settings import chat_models, daily_budgets
from modules.llm_platform.infrastructure.models.from_settings import embedder as embedders
from modules.llm_platform.infrastructure.models.kinds import find_configuration_error
from modules.llm_platform.infrastructure.pages import from_settings as page_readers
from modules.llm_platform.infrastructure.pages.custom_page_reader import CustomPageReader
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.infrastructure.search.from_settings import chain as search
from modules.llm_platform.infrastructure.stores import from_settings as stores
from modules.llm_platform.infrastructure.telemetry import from_settings as telemetry
from modules.llm_platform.wiring import research_jobs, services, writers
from modules.llm_platform.wiring.answers import AnswerTools, build_answers, build_variants
from modules.llm_platform.wiring.checks import check_settings
from modules.llm_platform.wiring.provider_container import ProviderContainer
from modules.llm_platform.wiring.watches import build_watches
from shared.config import Settings
from shared.setting_types import LOCAL_EMBEDDERS

if TYPE_CHECKING:
    from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts


STORED_CONVERSATIONS = 100  # conversations with language models, of half a megabyte at most
STORED_RESEARCHES = 200  # runs whose source texts can be requested; about 10 kB each, up to 500 kB for a report
EMBEDDED_INDEX = "the index is embedded, so only workers on this machine can use it: to share it, set QDRANT_URL"


class Container(ProviderContainer):
    """The container of all parts of the platform, a block for each capability, below the module that builds it.

    `_OVERRIDES` lists the providers of each port that can be replaced.
    """

    settings = Dependency(instance_of=Settings)
    # What the parts share: `infrastructure/resources.py`, and `from_settings` of `cache` and `stores`.
    # A server and a worker override the metrics and the tracer, see `_build_observed_container`.
    metrics: Object[IMetrics] = Object(NO_METRICS)
    tracer: Object[ITracer] = Object(NO_TRACER)
    resources = Singleton(Resources, settings, metrics)
    redis = Singleton(cache.build_redis, settings, resources)  # None without REDIS_URL
    database = Singleton(stores.build_database, settings, resources)  # None without DATABASE_URL
    shared_state = Singleton(cache.SharedState, settings, resources, redis)

    # The index, and the documents in it: `from_settings` of `models`, `index` and `documents`.
    embedder = Singleton(embedders.build_embedder, settings, resources)
    vector_store = Singleton(index.build_vector_store, settings, resources)
    retrieval = Singleton(
        RetrievalService, embedder, vector_store, settings.provided.QDRANT_COLLECTION, top_k=settings.provided.RAG_TOP_K
    )
    document_source = Singleton(documents.build_document_source, settings, resources)
    folder_embedder = Singleton(embedders.build_local_embedder, settings)
    folder_store: Object[IVectorStore | None] = Object(None)  # None: the folder opens an embedded store
    folder_index = Singleton(
        documents.build_folder_index,
        settings,
        resources,
        document_source,
        folder_embedder,
        folder_store,
        Object(index.build_embedded_store),
    )
    document_search = Singleton(
        documents.build_document_search,
        settings,
        resources,
        retrieval,
        folder_index,
        needs_words=Callable(writers.needs_words_of_query, settings),
    )

    # Search: `search/from_settings`, the adapters in `providers.py`, their limits, caches and failover in `chain.py`.
    search_adapters = Singleton(search.build_search_adapters, settings, resources, document_search.provider)
    search_upstreams = Singleton(search.build_search_upstreams, search_adapters, metrics)
    search_policies = Singleton(search.build_search_policies, settings, search_upstreams, shared_state)
    web_search_provider = Singleton(search.build_search_provider, settings, search_adapters, search_policies)
    report_search_provider = Singleton(
        search.build_report_search_provider, settings, search_adapters, search_policies, web_search_provider
    )
    web_search = Singleton(
        WebSearchService,
        web_search_provider,
        log_queries=settings.provided.LOG_QUERIES,
        source_kinds=Singleton(search.list_source_kinds, search_adapters),
    )

    # Language models: `models/from_settings`.
    llm_adapters = Singleton(chat_models.build_llm_adapters, settings, resources)
    llm_upstreams = Singleton(make_upstream_states, llm_adapters, metrics)
    spending_store = Singleton(stores.build_spending_store, settings, resources, redis, database)
    model_budgets = Singleton(daily_budgets.build_model_budgets, settings, resources, spending_store.provider)
    llm_policies = Singleton(chat_models.build_model_policies, settings, llm_adapters, llm_upstreams, model_budgets)
    llm_provider = Singleton(chat_models.build_llm_provider, settings, llm_adapters, llm_policies)
    models = Singleton(chat_models.LanguageModels, settings, llm_adapters, llm_policies, llm_provider)
    llm = Singleton(
        LLMService,
        llm_provider,
        Singleton(chat_models.explain_missing_llm, settings),
        Singleton(chat_models.list_configured_models, llm_adapters),
        Singleton(MemoryCache, STORED_CONVERSATIONS),
        settings.provided.ANTHROPIC_MODELS,
    )

    # Pages: `pages/from_settings.py`.
    page_circuits = Singleton(page_readers.build_page_circuits, settings, resources)
    direct_parts = Singleton(page_readers.build_direct_parts, settings, resources)
    direct_page_reader = Singleton(page_readers.build_direct_page_reader, settings, resources, direct_parts.provider)
    site_reader = Singleton(page_readers.build_site_reader, settings, resources, direct_parts.provider)
    site_crawl = Singleton(SiteCrawlService, site_reader)
    page_reader = Singleton(page_readers.build_page_reader, settings, resources, page_circuits, direct_page_reader)
    answer_page_reader = Singleton(page_readers.build_answer_page_reader, settings, direct_page_reader, shared_state)
    pages = Singleton(PageService, page_reader)
    found_documents = search_adapters.provided.get.call(DOCUMENTS)
    result_pages = Singleton(PageService, Singleton(documents.build_report_page_reader, found_documents, page_reader))
    verified_pages = Singleton(
        PageService, Singleton(documents.build_report_page_reader, found_documents, direct_page_reader)
    )
    # The pages that a run of a watch has read a moment ago are in the cache of answers.
    watched_pages = Singleton(
        PageService,
        Singleton(
            documents.build_report_page_reader,
            found_documents,
            Singleton(services.choose_page_reader, answer_page_reader, direct_page_reader),
        ),
    )

    # Stores: `stores/from_settings.py`.
    research_store = Singleton(stores.build_research_store, settings, resources, database)
    research_job_store = Singleton(stores.build_research_job_store, settings, resources, database)
    watch_store = Singleton(stores.build_watch_store, settings, resources, database)
    store = Singleton(StoreService, research_store, Singleton(documents.build_stored_folder_indexes, settings))
    # Only workers and the commands that read their outcomes use these two stores.
    outcome_store = Singleton(stores.build_outcome_store, settings, resources, database)
    failed_request_store = Singleton(stores.build_failed_request_store, settings, resources, database)

    # Research: `wiring/writers.py` builds who writes and judges, `wiring/answers.py` all else that a run is made of.
    support_model = Singleton(writers.build_support_model, settings, resources)  # None if it is off or not installed
    sentence_encoder = Singleton(writers.build_sentence_encoder, settings, resources, folder_embedder)  # the same
    extractive = Singleton(
        ExtractiveSynthesizer, sentence_encoder, support_model, settings.provided.ANSWER_ENCODER_TIMEOUT_S
    )
    # A run calls these three with its models.
    passage_chooser = Singleton(writers.build_passage_chooser, settings, sentence_encoder, support_model)
    report_writer = Callable(writers.build_writer, extractive, passage_chooser)
    synthesizer = Callable(writers.build_synthesizer, report_writer.provider, shared_state)
    citation_judges = Callable(writers.build_citation_judge)
    verdicts = Singleton(cache.SharedState.cache, shared_state, "verdicts", StoredVerdicts)
    answer_tools = Singleton(
        AnswerTools,
        resources=resources,
        shared=shared_state,
        search_adapters=search_adapters,
        search=web_search,
        report_search=Singleton(WebSearchService, report_search_provider, log_queries=settings.provided.LOG_QUERIES),
        pages=answer_page_reader,
        report_pages=result_pages,
        store=research_store,
        jobs=research_job_store,
        fallback=extractive,
        build_writer=report_writer.provider,
        build_synthesizer=synthesizer.provider,
        build_judge=citation_judges.provider,
        verdicts=verdicts,
        support_model=support_model,
    )
    research_pipelines = Singleton(build_answers, answer_tools, models)
    stored_sources: Singleton[MemoryCache[StoredSources]] = Singleton(MemoryCache, STORED_RESEARCHES)
    research = Singleton(
        ResearchService,
        research_pipelines,
        stored_sources,
        metrics,
        research_job_store,
        Singleton(build_variants, answer_tools, models, research_pipelines),
        Singleton(documents.build_open_files, resources, folder_embedder, Object(index.build_memory_store)),
    )
    citation_reader = Singleton(services.build_citation_reader, resources)
    verification = Singleton(
        VerificationService,
        verified_pages,
        web_search,
        Singleton(
            writers.build_research_judge, citation_judges.provider, verdicts, models, settings.provided.CACHE_TTL_S
        ),
        Singleton(services.build_verification_options, settings),
        stored_sources,
        read_text=citation_reader,
        support_model=support_model,
    )
    answer_checks = Singleton(services.build_answer_checks, settings, citation_reader, support_model, metrics)

    # Background runs: `wiring/research_jobs.py`. Runs of watched questions are background runs.
    watch_runner = Singleton(WatchRunner, research, verified_pages, watched_pages)
    webhooks = Singleton(research_jobs.build_webhooks, settings, resources, research_job_store)
    research_job_service = Singleton(
        research_jobs.build_research_jobs,
        settings,
        resources,
        research,
        research_job_store,
        webhooks,
        tracer,
        site_crawl,
        verification,
        watch_runner,
    )

    # Watched questions: `wiring/watches.py`.
    watches = Singleton(
        build_watches, settings, resources, research, research_job_service, watch_store, webhooks, tracer
    )

    # Sealed answers: `wiring/services.py`.
    seals = Singleton(
        SealService,
        research,
        research_job_service,
        Singleton(services.build_seal_tools, settings),
        Singleton(services.build_checker_stamp, support_model, settings).provider,
        support_model,
        settings.provided.secrets.call(),
    )

    # Answers from the index: `wiring/writers.py` and `wiring/services.py`.
    indexing = Singleton(IndexingService, document_source, embedder, vector_store, settings.provided.QDRANT_COLLECTION)
    answer_writer = Singleton(writers.build_answer_writer, report_writer.provider, models)
    answer_judge = Singleton(writers.build_answer_judge, citation_judges.provider, models)
    answers = Singleton(
        AnswerService,
        retrieval.provided.search,
        Singleton(ContextResolver, pages, Singleton(DocumentLookup, vector_store, settings.provided.QDRANT_COLLECTION)),
        answer_writer,
        extractive,
        Singleton(services.build_answer_options, settings),
        judge=answer_judge,
        support_model=support_model,
    )

    # Limits of callers, health and doctor: `limits/from_settings.py` and `wiring/services.py`.
    rate_limiter = Singleton(limits.build_rate_limiter, settings, redis)  # only servers limit their callers
    rate_limit_probe = Singleton(limits.build_rate_limit_probe, settings, redis)
    store_probes = Singleton(
        stores.list_store_probes, redis, research_store, rate_limit_probe, research_job_store, watch_store
    )
    circuits = Singleton(services.build_circuits, search_upstreams, llm_upstreams, page_circuits)
    health = Singleton(services.build_health, search_adapters, llm_adapters, store_probes, circuits)
    doctor = Singleton(
        services.build_doctor,
        settings,
        search_adapters,
        llm_adapters,
        retrieval,
        Singleton(stores.list_doctor_probes, settings, store_probes),
        Singleton(writers.build_judge, citation_judges.provider, models),
    )
    platform = Factory(
        LLMPlatform,
        web_search=web_search,
        llm=llm,
        research=research,
        research_jobs=research_job_service,
        pages=pages,
        result_pages=result_pages,
        site_crawl=site_crawl,
        store=store,
        verification=verification,
        answer_checks=answer_checks,
        seals=seals,
        watches=watches,
        embeddings=Singleton(EmbeddingService, embedder),
        reranking=Singleton(RerankService, embedder),
        retrieval=retrieval,
        indexing=indexing,
        answers=answers,
        health=health,
        doctor=doctor,
        metrics=metrics,
        tracer=tracer,
        source_kinds=Singleton(search.list_searchable_kinds, settings, search_adapters),
        document_titles=Singleton(services.build_document_titles, settings, found_documents),
        list_documents=Singleton(services.build_document_list, settings, found_documents),
        icons=Singleton(page_readers.build_icon_reader, settings, direct_parts.provider),
        _close=resources.provided.aclose,
        _is_closed=resources.provided.is_closed,
        _rate_limiter=rate_limiter.provider,
        _reading=Singleton(documents.build_folder_progress, folder_index),
    )


def build_platform(
    settings: Settings | None = None, overrides: Mapping[type[Any], object] | None = None
) -> LLMPlatform:
    """Return the platform for `settings`, by default the settings of the environment. Nothing is connected before the first call.

    `overrides` maps a port to the object that replaces it with all its policies, such as cache and limits. The ports are
    IWebSearchProvider, ILLMProvider, ISynthesizer, ICitationJudge, ISupportModel, ISentenceEncoder, IPageReader, ISiteReader,
    IResearchStore, IResearchJobStore, IWatchStore, IEmbedder, IVectorStore, IMetrics and ITracer. Raises SettingsError for an
    invalid variable, and ValueError for any other port, or for a class in place of an object.
    """
    platform: LLMPlatform = _build_container(settings or Settings.load(), overrides).platform()
    return platform


def build_server_platform(settings: Settings) -> LLMPlatform:
    """Return the platform of a server, with metrics, and with traces if they are configured."""
    platform: LLMPlatform = _build_observed_container(settings, "llm-platform", {}).platform()
    return platform


@asynccontextmanager
async def build_worker_parts(
    settings: Settings, overrides: Mapping[type[Any], object] | None = None, *, keep_failed: bool = False
) -> AsyncIterator[WorkerParts]:
    """Yield the parts of a worker, and close them at the end.

    `overrides` works as in `build_platform`, and takes IOutcomeStore as well. With `keep_failed`, failed requests are stored so
    that they can be sent again.
    """
    from modules.llm_platform.presentation.kafka.contract.requests import Topics
    from modules.llm_platform.presentation.kafka.worker.dependencies import (
        Dependencies,
        make_model_dependency,
        make_outcome_store_dependency,
        make_retrieval_dependencies,
    )
    from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, build_rag_handler
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts

    container = _build_observed_container(settings, "llm-platform-worker", overrides or {})
    schemas = build_message_schemas(settings, container.resources())
    options = HandlerOptions(
        max_message_bytes=settings.RAG_MAX_MESSAGE_BYTES,
        timeout_s=chat_models.compute_research_timeout_s(settings),
        tenant_field=settings.KAFKA_TENANT_FIELD,
        topics=Topics(settings.kafka_topics()),
        schemas=schemas,
    )
    async with container.platform() as platform:
        outcomes = container.outcome_store()
        llm, embedder = container.llm_provider(), container.embedder()
        is_paid = settings.EMBEDDER not in LOCAL_EMBEDDERS
        dependencies = Dependencies(
            [
                make_outcome_store_dependency(outcomes),
                *make_retrieval_dependencies(platform.retrieval, embedder, is_paid=is_paid),
                *([make_model_dependency(llm, container.llm_adapters())] if llm else []),
            ]
        )
        failed = container.failed_request_store()
        keep = failed.put if keep_failed else None
        handler = build_rag_handler(
            platform.retrieval, platform.answers, outcomes, options, dependencies, platform.tracer, keep
        )
        notes = tuple(_list_worker_notes(settings))
        yield WorkerParts(handler, outcomes, notes, dependencies, platform.metrics, failed, schemas)


def build_message_schemas(settings: Settings, resources: Resources) -> MessageSchemas | None:
    """Return the message schemas of the schema registry, or None if no registry is configured.

    Nothing is requested here: the worker looks the schemas up when it starts.
    """
    found = settings.schema_registry()
    if found is None:
        return None
    from modules.llm_platform.infrastructure import confluent_schema_registry
    from modules.llm_platform.presentation.kafka.contract.requests import Topics
    from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas

    registry = confluent_schema_registry.ConfluentSchemaRegistry(
        found.url, found.login, resources.client(found.url, confluent_schema_registry.TIMEOUT_S)
    )
    return MessageSchemas(registry, Topics(settings.kafka_topics()), registers=found.registers)


@asynccontextmanager
async def open_outcome_stores(settings: Settings) -> AsyncIterator[tuple[IOutcomeStore, IFailedRequestStore]]:
    """Yield the store of outcomes and the store of failed requests, and close them at the end."""
    container = _build_container(settings, None)
    try:
        yield container.outcome_store(), container.failed_request_store()
    finally:
        await container.resources().aclose()


def _list_worker_notes(settings: Settings) -> Iterator[str]:
    if settings.QDRANT_URL is None:
        yield EMBEDDED_INDEX
    connections = chat_models.list_connections(settings)
    yield from (
        f"a language model cannot be used: {error}" for error in map(find_configuration_error, connections) if error
    )
    if not connections:
        yield (
            chat_models.ONLY_LOOPBACK
            if settings.LLM_PLATFORM_OFFLINE and chat_models.list_all_connections(settings)
            else chat_models.EXTRACTIVE_ONLY
        )


def _build_observed_container(settings: Settings, service: str, overrides: Mapping[type[Any], object]) -> Container:
    """Return the container of a long-running process, with metrics, and with traces if they are configured."""
    tracer = telemetry.build_tracer(settings, service)
    container = _build_container(settings, {IMetrics: telemetry.build_metrics(), ITracer: tracer, **overrides})
    # The tracer is closed last, since it is registered first.
    container.resources().on_close(tracer.aclose)
    return container


def _build_container(settings: Settings, overrides: Mapping[type[Any], object] | None) -> Container:
    if ILLMProvider in (overrides or {}):
        # The override serves every stage, so no stage may ask for a model by name.
        settings = settings.model_copy(update={"LLM_STAGES": {}})
    check_settings(settings)
    container = Container(settings=settings)
    for port, replacement in (overrides or {}).items():
        _override(container, port, replacement)
    return container


# The providers that the override of a port replaces.
_OVERRIDES: Mapping[type, tuple[str, ...]] = {
    IWebSearchProvider: ("web_search_provider", "search_adapters"),
    ILLMProvider: ("llm_provider", "llm_adapters"),
    ISynthesizer: ("synthesizer", "report_writer"),
    ICitationJudge: ("citation_judges",),
    ISupportModel: ("support_model",),
    ISentenceEncoder: ("sentence_encoder",),
    IPageReader: ("page_reader", "answer_page_reader", "direct_page_reader"),
    ISiteReader: ("site_reader",),
    IResearchStore: ("research_store",),
    IEmbedder: ("embedder", "folder_embedder"),
    IVectorStore: ("vector_store", "folder_store"),
    IOutcomeStore: ("outcome_store",),
    IResearchJobStore: ("research_job_store",),
    IWatchStore: ("watch_store",),
    IMetrics: ("metrics",),
    ITracer: ("tracer",),
}
# Wrappers that make an override raise only the errors of its port. WebSearchService does this for search.
_GUARDS: Mapping[type, type] = {ILLMProvider: CustomModel, IPageReader: CustomPageReader}
_BY_NAME = ("search_adapters", "llm_adapters")  # These providers give adapters by their names.


def _override(container: Container, port: type, replacement: Any) -> None:
    if port not in _OVERRIDES:
        names = ", ".join(known.__name__ for known in _OVERRIDES)
        raise ValueError(
            f"{getattr(port, '__name__', repr(port))} cannot be overridden: use one of the classes {names}"
        )
    if isinstance(replacement, type):
        name = replacement.__name__
        raise ValueError(f"{port.__name__} is overridden by an object, not by the class {name}: pass {name}(…)")
    replacement = _GUARDS.get(port, lambda own: own)(replacement)
    for name in _OVERRIDES[port]:
        value = {replacement.name: replacement} if name in _BY_NAME else replacement
        getattr(container, name).override(Object(value))
