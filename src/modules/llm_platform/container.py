"""What is configured becomes a platform: with `wiring` beside it, the only place that knows port and adapter.

To replace a part in a test: `build_platform(overrides={IWebSearchProvider: FakeWebSearch(…)})`. To add a search provider: see
`wiring/search.py`.

Over 500 lines: each part is built here once, and `Container` shows them all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from dependency_injector import containers, providers
from pydantic import SecretStr

from modules.llm_platform.application.answering.context import ContextDesk
from modules.llm_platform.application.answering.known_documents import KnownDocuments
from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.research.report_run import ReportOptions, ReportTools
from modules.llm_platform.application.services.answer_service import AnswerOptions, AnswerService
from modules.llm_platform.application.services.answerer import Answerer, ResearchOptions
from modules.llm_platform.application.services.doctor_service import DoctorService, IndexPatient
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.indexing_service import IndexingService
from modules.llm_platform.application.services.llm_registry import NOT_CONFIGURED, LLMRegistry
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.reporter import Reporter
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.research_dtos import JudgedClaims
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.wheels import has_wordllama_wheel, no_wordllama
from modules.llm_platform.infrastructure.adapters.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.adapters.no_research_store import NoResearchStore
from modules.llm_platform.infrastructure.llm_kinds import KINDS, LLMConnection, Variables
from modules.llm_platform.infrastructure.llm_mistakes import mistake_in
from modules.llm_platform.infrastructure.policies.cached_citation_judge import CachedCitationJudge
from modules.llm_platform.infrastructure.policies.cached_synthesizer import CachedSynthesizer
from modules.llm_platform.infrastructure.policies.failover_page_reader import FailoverPageReader
from modules.llm_platform.infrastructure.policies.fallback_synthesizer import FallbackSynthesizer
from modules.llm_platform.infrastructure.policies.late_page_reader import LatePageReader
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.pace import Pace
from modules.llm_platform.infrastructure.policies.retried_llm import RetriedLLM
from modules.llm_platform.infrastructure.policies.throttled_llm import LONGEST_WAIT_S, ThrottledLLM
from modules.llm_platform.infrastructure.policies.throttled_page_reader import ThrottledPageReader
from modules.llm_platform.infrastructure.policies.unconfigured_page_reader import UnconfiguredPageReader
from modules.llm_platform.wiring import search as search_wiring
from modules.llm_platform.wiring.resources import APP_NAME, Resources, data_folder, is_installed, is_loopback
from modules.llm_platform.wiring.search import (
    DOCUMENTS,
    INDEX_FOLDER,
    REPORT_WAIT_S,
    STORE_PACKAGES,
    SearchAdapters,
    has_index,
)
from shared.config import LLMProviderSettings, LLMStage, Settings, SettingsError

if TYPE_CHECKING:

    from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress
    from modules.llm_platform.infrastructure.adapters.openai_embedder import EmbeddingConnection
    from modules.llm_platform.infrastructure.folders.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.folders.kept_folders import KeptFolders
    from modules.llm_platform.infrastructure.indexing.file_source import FileDocumentSource
    from modules.llm_platform.infrastructure.reading.guard import Guard
    from modules.llm_platform.presentation.kafka.parts import WorkerParts

HELD_RESEARCHES = 200  # whose source texts can be asked for; about 10 kB each, of a report up to 500
ONLY_LOOPBACK = (
    "Offline, only language models on loopback are asked: set LLM_KIND=ollama or vllm with LLM_BASE_URL; "
    "research works without one and quotes its sources (extractive)"
)
ONLY_LOOPBACK_EMBEDDERS = (
    "Offline, only embedders on this machine are asked: set EMBEDDER=wordllama, or EMBEDDING_BASE_URL to one on loopback"
)
ONLY_LOOPBACK_INDEX = (
    "Offline, only an index on this machine is asked: leave out QDRANT_URL, or set it to a server on loopback"
)
ONE_MACHINE = "the index is embedded, for this machine alone: workers of several machines need QDRANT_URL"
QUOTES_ONLY = "no language model is configured: answers are made of quotes (set LLM_API_KEY and LLM_MODEL for written ones)"

LOCAL_EMBEDDERS = ("none", "wordllama")  # on this machine, free
WORDS_ALONE = 'found by words alone: pip install "llm-platform[retrieval]" to search documents by meaning too'
EMBEDDER_PACKAGES = ("wordllama", "numpy", "safetensors", "tokenizers")

FOLDERS = "folders"  # below the data folder: the indexes of named folders
REPORT_TIMEOUT_S = 900.0  # unless RESEARCH_TIMEOUT_S is set
REPORT_LENGTH = 2  # times the longest answer of a synthesis
LABEL_CHARS = 12  # of a digest that tells one set of addresses from another

JINA_RPS_WITH_KEY = 5.0  # mind-search.md; pages a second
JINA_RPS_WITHOUT = 0.33  # about the twenty a minute that it serves without a key
REPORT_LLM_RPS = 2.0  # mind-search.md; calls a second of one model, where LLM_RPS sets no pace for all
CALLS_AT_ONCE = 8
PAGES_AT_ONCE = 5
STAGES = get_args(LLMStage)

LLMAdapters = Mapping[str, ILLMProvider]
Paces = Mapping[str, Pace]  # by the name of the service


# --- language models ------------------------------------------------------------------------------------------------------


def llm_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    """The configured models in the order of failover (interface.md, LLM_PROVIDERS); offline, those on loopback.

    What is half configured (a key without a model) is there too: its first call says what is missing.
    """
    offline = settings.LLM_PLATFORM_OFFLINE
    return tuple(each for each in _all_connections(settings) if not offline or is_loopback(each.address or ""))


def _all_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    if settings.LLM_PROVIDERS:
        return tuple(_with_own_names([_listed(each, settings) for each in settings.LLM_PROVIDERS]))
    return tuple(_with_own_names(list(_single_variables(settings))))


def _single_variables(settings: Settings) -> Iterator[LLMConnection]:
    s = settings
    keyless = not KINDS[s.LLM_KIND].needs_key and (s.LLM_BASE_URL or s.LLM_MODEL)
    if s.LLM_API_KEY or keyless:
        yield _connection(s, s.LLM_KIND, s.LLM_KIND, s.LLM_MODEL, s.LLM_API_KEY, s.LLM_BASE_URL, variables=Variables())
    if s.KIMI_API_KEY:
        yield _connection(s, "kimi", "kimi", s.KIMI_MODEL, s.KIMI_API_KEY, s.KIMI_BASE_URL)
    if s.AITUNNEL_API_KEY:
        yield _connection(s, "aitunnel", "aitunnel", s.AITUNNEL_MODEL, s.AITUNNEL_API_KEY, s.AITUNNEL_BASE_URL)
    if s.AZURE_OPENAI_API_KEY and (s.AZURE_OPENAI_DEPLOYMENT or s.EMBEDDER != "azure"):  # else the key is to embed with
        model, address, version = s.AZURE_OPENAI_DEPLOYMENT, s.AZURE_OPENAI_ENDPOINT, s.AZURE_OPENAI_API_VERSION
        yield _connection(s, "azure", "azure", model, s.AZURE_OPENAI_API_KEY, address, api_version=version)


def _listed(each: LLMProviderSettings, settings: Settings) -> LLMConnection:
    return _connection(
        settings,
        each.name,
        each.kind,
        each.model,
        each.api_key,
        each.base_url,
        price_in=each.price_in,
        price_out=each.price_out,
        context_tokens=each.context_tokens,
        api_version=each.api_version,
        variables=Variables.listed(each.name),
    )


def _connection(
    settings: Settings, name: str, kind: str, model: str | None, key: SecretStr | None, address: str | None, **more: Any
) -> LLMConnection:
    price = settings.LLM_PRICES.get(model or "")
    if price and more.get("price_in") is None and more.get("price_out") is None:
        more |= {"price_in": price.price_in, "price_out": price.price_out}
    return LLMConnection(
        name=name,
        kind=kind,
        model=model or "",
        base_url=address,
        api_key=key.get_secret_value() if key else "",
        timeout=settings.LLM_TIMEOUT_S,
        user_agent=settings.KIMI_USER_AGENT if kind == "kimi" else None,
        **more,
    )


def _with_own_names(connections: Sequence[LLMConnection]) -> Iterator[LLMConnection]:
    """Two of one kind are `kimi` and `kimi-2`: a name in an answer must mean one of them."""
    seen: Counter[str] = Counter()
    for each in connections:
        seen[each.name] += 1
        yield each if seen[each.name] == 1 else replace(each, name=f"{each.name}-{seen[each.name]}")


def _llm_adapters(settings: Settings, resources: Resources) -> LLMAdapters:
    connections = llm_connections(settings)
    if not connections:
        return {}
    from modules.llm_platform.infrastructure.adapters.openai import OpenAIProvider

    return {
        connection.name: OpenAIProvider(
            connection,
            client=resources.client(connection.address or "", connection.timeout),
            redactor=resources.redactor,
        )
        for connection in connections
    }


def _llm_paces(settings: Settings, adapters: LLMAdapters) -> Paces:
    """How fast each model is asked, whoever asks it."""
    return {name: Pace(settings.LLM_RPS or REPORT_LLM_RPS, at_once=CALLS_AT_ONCE) for name in adapters}


def _llm_provider(settings: Settings, adapters: LLMAdapters, paces: Paces) -> ILLMProvider | None:
    if not adapters:
        return None
    return _router(adapters, {} if settings.LLM_RPS is None else paces, LONGEST_WAIT_S)


def _router(adapters: LLMAdapters, paces: Paces, longest_wait_s: float) -> LLMRouter:
    """All models in their order, those that have a pace at their pace."""
    models: Sequence[ILLMProvider] = [
        ThrottledLLM(each, paces[name], longest_wait_s=longest_wait_s) if name in paces else each
        for name, each in adapters.items()
    ]
    # Where there are several, the next one answers sooner than a second try of the first.
    return LLMRouter(LLMRegistry(models if len(models) > 1 else [RetriedLLM(each) for each in models]))


def _stage_llms(
    settings: Settings, adapters: LLMAdapters, paces: Paces, ordinary: ILLMProvider | None
) -> Mapping[LLMStage, ILLMProvider]:
    """Who serves each stage of a report: the model that LLM_STAGES names, then the others in their order.

    Empty without a model; `ordinary` itself for every stage where it stands in for all.
    """
    if ordinary is None:
        return {}
    if any(ordinary is adapter for adapter in adapters.values()):
        return dict.fromkeys(STAGES, ordinary)
    router = _router(adapters, paces, REPORT_WAIT_S)
    first = {stage: name for stage, name in stage_choices(settings).items() if name in adapters}
    routers = {name: router.preferring(name) for name in set(first.values())}
    return {stage: routers[first[stage]] if stage in first else router for stage in STAGES}


def stage_choices(settings: Settings) -> Mapping[LLMStage, str]:
    """The provider that LLM_STAGES wants to be asked first, by stage. SettingsError when it is not configured."""
    connections = _all_connections(settings)
    names = {each.model: each.name for each in reversed(connections)} | {each.name: each.name for each in connections}
    for stage, wanted in settings.LLM_STAGES.items():
        if wanted not in names:
            known = ", ".join(dict.fromkeys(part for each in connections for part in (each.name, each.model) if part))
            raise SettingsError(
                f"LLM_STAGES wants {wanted!r} for {stage}, which is not configured: "
                + (f"choose one of {known}" if known else "set LLM_API_KEY with LLM_MODEL, or leave it out")
            )
    return {stage: names[wanted] for stage, wanted in settings.LLM_STAGES.items()}


def _price(settings: Settings, adapters: LLMAdapters) -> Callable[[int, int], float] | None:
    """US dollars of a call by its tokens at the dearest model that may serve it; None where one's price is not known."""
    known = {each.name: each for each in llm_connections(settings)}
    models = [
        known.get(name) or _connection(settings, name, "openai", each.model, None, None)
        for name, each in adapters.items()
    ]
    if any(each.cost_usd(1, 1) is None for each in models):
        return None

    def price(prompt_tokens: int, completion_tokens: int) -> float:
        return max((each.cost_usd(prompt_tokens, completion_tokens) or 0.0 for each in models), default=0.0)

    return price


def _missing_llm(settings: Settings) -> str:
    """What a chat says where no model is wired: offline, those that are configured elsewhere are left out."""
    return ONLY_LOOPBACK if settings.LLM_PLATFORM_OFFLINE else NOT_CONFIGURED


def _synthesizer(
    settings: Settings, llm: ILLMProvider | None, adapters: LLMAdapters, extractive: ISynthesizer
) -> ISynthesizer:
    if llm is None:
        return extractive
    from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer
    from modules.llm_platform.infrastructure.adapters.synthesis_prompt import PROMPT_VERSION

    contexts = [each.context or settings.LLM_CONTEXT_TOKENS for each in llm_connections(settings)]
    writer: ISynthesizer = LLMSynthesizer(llm, context_tokens=min(contexts, default=settings.LLM_CONTEXT_TOKENS))
    if settings.CACHE_TTL_S > 0:
        version = f"{PROMPT_VERSION}|{'|'.join(getattr(each, 'label', each.name) for each in adapters.values())}"
        writer = CachedSynthesizer(writer, MemoryCache(settings.CACHE_MAX_ENTRIES), settings.CACHE_TTL_S, version)
    return FallbackSynthesizer([writer, extractive])


CitationJudges = Callable[[ILLMProvider | None], ICitationJudge | None]


def _citation_judges(context_tokens: int) -> CitationJudges:
    """Makes the judge that asks the given model; without one there is none."""
    from modules.llm_platform.application.research.judge import LLMCitationJudge

    return lambda llm: LLMCitationJudge(llm, context_tokens=context_tokens) if llm else None


def _report_judge(settings: Settings, judges: CitationJudges) -> CitationJudges | None:
    return None if settings.CITATION_JUDGE == "off" else judges


def _answer_judge(settings: Settings, judges: CitationJudges, llm: ILLMProvider | None) -> ICitationJudge | None:
    """Who verifies answers that are no reports; LLM_STAGES may name the model for it."""
    if settings.CITATION_JUDGE != "all":
        return None
    first = stage_choices(settings).get("judge")
    return judges(llm.preferring(first) if first and isinstance(llm, LLMRouter) else llm)


def _research_judge(settings: Settings, judge: ICitationJudge | None, adapters: LLMAdapters) -> ICitationJudge | None:
    """The same for researches, whose texts are cached: their verdicts are, too."""
    if judge is None or settings.CACHE_TTL_S <= 0:
        return judge
    cache: MemoryCache[JudgedClaims] = MemoryCache(settings.CACHE_MAX_ENTRIES)
    version = "|".join(getattr(each, "label", each.name) for each in adapters.values())
    return CachedCitationJudge(judge, cache, settings.CACHE_TTL_S, version)


# --- pages ----------------------------------------------------------------------------------------------------------------


def _page_reader(settings: Settings, resources: Resources) -> IPageReader:
    if settings.LLM_PLATFORM_OFFLINE:
        return UnconfiguredPageReader("offline", "Offline, no page is read: leave out --offline and LLM_PLATFORM_OFFLINE")
    return LatePageReader(",".join(settings.READERS), lambda: _readers(settings, resources))


def _readers(settings: Settings, resources: Resources) -> IPageReader:
    from modules.llm_platform.infrastructure.reading.allowed_hosts import AllowedHosts
    from modules.llm_platform.infrastructure.reading.guard import Guard
    from modules.llm_platform.infrastructure.reading.resolving import SystemResolver

    resolver = SystemResolver()
    resources.closing(resolver.aclose)
    guard = Guard(resolver, AllowedHosts(settings.READER_ALLOWED_HOSTS))
    builders = {"jina": _jina_reader, "direct": _direct_reader}
    return FailoverPageReader([builders[name](settings, resources, guard) for name in settings.READERS])


def _jina_reader(settings: Settings, resources: Resources, guard: Guard) -> IPageReader:
    from modules.llm_platform.infrastructure.adapters.jina_page_reader import JinaPageReader
    from modules.llm_platform.infrastructure.policies.guarded_page_reader import GuardedPageReader

    key, url = settings.JINA_API_KEY, settings.JINA_BASE_URL
    jina = JinaPageReader(
        key.get_secret_value() if key else "",
        url,
        settings.READER_TIMEOUT_S,
        client=resources.client(url, settings.READER_TIMEOUT_S),
        redactor=resources.redactor,
    )
    pace = Pace(settings.JINA_RPS or (JINA_RPS_WITH_KEY if key else JINA_RPS_WITHOUT), at_once=PAGES_AT_ONCE)
    return GuardedPageReader(ThrottledPageReader(jina, pace), guard, at_home=is_loopback(url) or guard.allows(url))


def _direct_reader(settings: Settings, resources: Resources, guard: Guard) -> IPageReader:
    from modules.llm_platform.infrastructure.adapters.direct_page_reader import DirectPageReader
    from modules.llm_platform.infrastructure.reading.fetching import SafeFetcher
    from modules.llm_platform.infrastructure.reading.page_parsers import PageParsers
    from modules.llm_platform.infrastructure.reading.pinned_connection import PinnedConnections
    from modules.llm_platform.infrastructure.reading.robots import Robots

    fetcher, parsers = SafeFetcher(guard, PinnedConnections()), PageParsers()
    resources.closing(parsers.aclose)
    return DirectPageReader(
        fetcher,
        parsers,
        timeout=settings.READER_TIMEOUT_S,
        robots=Robots(fetcher) if settings.READER_ROBOTS else None,
        redactor=resources.redactor,
    )


# --- index ----------------------------------------------------------------------------------------------------------------


def _embedder(settings: Settings, resources: Resources) -> IEmbedder:
    if settings.EMBEDDER in LOCAL_EMBEDDERS:
        return _local_embedder(settings)
    from modules.llm_platform.infrastructure.adapters.openai_embedder import OpenAIEmbedder
    from modules.llm_platform.infrastructure.policies.unconfigured_embedder import UnconfiguredEmbedder

    connection = _embedding_connection(settings)
    if settings.LLM_PLATFORM_OFFLINE and not is_loopback(connection.address):
        return UnconfiguredEmbedder(settings.EMBEDDER, ONLY_LOOPBACK_EMBEDDERS)
    client = resources.client(connection.address, connection.timeout) if connection.address else None
    return OpenAIEmbedder(connection, client=client, redactor=resources.redactor)


def _embedding_connection(settings: Settings) -> EmbeddingConnection:
    """The service that embeds. A key that was given to the language model's service is sent to that one alone."""
    from modules.llm_platform.infrastructure.adapters.openai_embedder import OPENAI_URL, EmbeddingConnection

    s, azure = settings, settings.EMBEDDER == "azure"
    theirs = s.AZURE_OPENAI_ENDPOINT if azure else s.LLM_BASE_URL or OPENAI_URL
    address = s.EMBEDDING_BASE_URL or (s.AZURE_OPENAI_ENDPOINT if azure else OPENAI_URL)
    shared = s.AZURE_OPENAI_API_KEY if azure else s.LLM_API_KEY if s.LLM_KIND == "openai" else None
    key = s.EMBEDDING_API_KEY or (shared if address and urlsplit(address).netloc == urlsplit(theirs or "").netloc else None)
    connection = EmbeddingConnection(
        kind=s.EMBEDDER,
        model=s.EMBEDDING_MODEL or "",
        base_url=address,
        api_key=key.get_secret_value() if key else "",
        api_version=s.AZURE_OPENAI_API_VERSION,
    )
    of_azure = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "EMBEDDING_MODEL")
    return replace(connection, variables=of_azure) if azure and not s.EMBEDDING_BASE_URL else connection


def _vector_store(settings: Settings, resources: Resources) -> IVectorStore:
    """The server that is named, else the embedded index below the data folder."""
    store: IVectorStore
    if settings.QDRANT_URL is None:
        store = _embedded_store(data_folder(settings) / INDEX_FOLDER)
    elif settings.LLM_PLATFORM_OFFLINE and not is_loopback(settings.QDRANT_URL):
        from modules.llm_platform.infrastructure.policies.unconfigured_vector_store import UnconfiguredVectorStore

        store = UnconfiguredVectorStore("offline", ONLY_LOOPBACK_INDEX)
    else:
        from modules.llm_platform.infrastructure.adapters.qdrant_vector_store import QdrantVectorStore

        key = settings.QDRANT_API_KEY
        store = QdrantVectorStore(settings.QDRANT_URL, key.get_secret_value() if key else "")
    resources.closing(store.aclose)
    return store


def _embedded_store(folder: Path) -> IVectorStore:
    """Qdrant's engine where it is installed, else SQLite."""
    if not is_installed(STORE_PACKAGES):
        from modules.llm_platform.infrastructure.adapters.sqlite_vector_store import SqliteVectorStore

        return SqliteVectorStore(folder)
    from modules.llm_platform.infrastructure.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore

    return QdrantEdgeVectorStore(folder)


def _document_source(settings: Settings, resources: Resources) -> FileDocumentSource:
    from modules.llm_platform.infrastructure.indexing.file_source import FileDocumentSource

    return FileDocumentSource(settings.DOCUMENTS_BASE_URL, resources.redactor)


def _folder_embedder(settings: Settings) -> IEmbedder:
    """A named folder is embedded on this machine: nothing of it leaves, and nothing costs money, whatever EMBEDDER is."""
    return _local_embedder(settings)


def _local_embedder(settings: Settings) -> IEmbedder:
    """The static vectors; words alone where those are not wanted, or not installed and not asked for by name."""
    from modules.llm_platform.infrastructure.adapters.none_embedder import NoneEmbedder

    if settings.EMBEDDER == "none":
        return NoneEmbedder()
    if "EMBEDDER" not in settings.model_fields_set and not is_installed(EMBEDDER_PACKAGES):
        can_be_installed = is_installed(("wordllama",)) or has_wordllama_wheel()
        return NoneEmbedder(WORDS_ALONE if can_be_installed else f"found by words alone: {no_wordllama()}")
    from modules.llm_platform.infrastructure.adapters.wordllama_embedder import WordllamaEmbedder

    return WordllamaEmbedder()


def _folder_index(
    settings: Settings, resources: Resources, files: FileDocumentSource, embedder: IEmbedder, store: IVectorStore | None
) -> FolderIndex | None:
    """The named folder as a collection of its own; None where there is no folder."""
    folder = settings.DOCUMENTS_DIR
    if folder is None:
        return None
    from modules.llm_platform.application.indexing import cutting
    from modules.llm_platform.domain import bm25
    from modules.llm_platform.infrastructure.folders.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.folders.home import FolderHome, key_of

    engine = "" if store or is_installed(STORE_PACKAGES) else "sqlite"
    made_by = (engine, embedder.name, settings.DOCUMENTS_BASE_URL or "", cutting.FORM, str(bm25.FORM), _version())
    key = key_of((os.path.realpath(folder), *made_by))
    kept = settings.STORE_TTL_DAYS > 0 and store is None
    home = FolderHome(data_folder(settings) / FOLDERS if kept else None, key, settings.STORE_TTL_DAYS)
    collection = f"folder-{key}" if store else DOCUMENTS
    index = FolderIndex(folder, home, files, embedder, store=store, open_store=_embedded_store, collection=collection)
    resources.closing(index.aclose)
    return index


def _reading(index: FolderIndex | None) -> Callable[[], IndexProgress | None]:
    return lambda: index.reading if index else None


def _kept_folders(settings: Settings) -> KeptFolders:
    from modules.llm_platform.infrastructure.folders.kept_folders import KeptFolders

    return KeptFolders(data_folder(settings) / FOLDERS, settings.STORE_TTL_DAYS)


def _version() -> str:
    """What wrote an index: another version may read and cut documents in another way."""
    try:
        return metadata.version(APP_NAME)
    except metadata.PackageNotFoundError:
        return ""


def _answer_writer(llm: ILLMProvider | None, extractive: ISynthesizer, context_tokens: int) -> ISynthesizer:
    """Who answers from the index: the model, whose failure is told, or without one the extractive writer. Answers of
    documents are not cached.
    """
    if llm is None:
        return extractive
    from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer

    return LLMSynthesizer(llm, context_tokens=context_tokens)


def _answer_options(settings: Settings) -> AnswerOptions:
    return AnswerOptions(
        timeout_s=settings.RAG_TIMEOUT_S, top_k=settings.RAG_TOP_K, max_tokens=settings.LLM_MAX_TOKENS
    )


def _outcome_store(settings: Settings, resources: Resources) -> IOutcomeStore:
    from modules.llm_platform.infrastructure.adapters.sqlite_outcome_store import SqliteOutcomeStore

    store = SqliteOutcomeStore(data_folder(settings) / "outcomes.sqlite3", settings.OUTCOME_TTL_DAYS)
    resources.closing(store.aclose)
    return store


# --- services -------------------------------------------------------------------------------------------------------------


def _health(search: SearchAdapters, llms: LLMAdapters) -> HealthService:
    kimi = [name for name, each in llms.items() if getattr(each, "kind", name) == "kimi"]
    return HealthService(search, llms, searxng=search_wiring.searxng_names(search), kimi=kimi)


def _doctor(
    settings: Settings, search: SearchAdapters, llms: LLMAdapters, retrieval: RetrievalService
) -> DoctorService:
    from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearch

    index = IndexPatient(retrieval, there=has_index(settings), paid=settings.EMBEDDER in ("openai", "azure"))
    patients = [
        each
        for each in search_wiring.search_patients(settings, search)
        # A collection is examined as the index.
        if not (index.there and isinstance(each.provider, DocumentWebSearch) and each.provider.folder is None)
    ]
    return DoctorService(patients, tuple(llms.values()), index=index)


def _research_store(settings: Settings) -> IResearchStore:
    """The store in the data folder, which is made when the first entry comes."""
    if settings.STORE_TTL_DAYS == 0:
        return NoResearchStore()
    from modules.llm_platform.infrastructure.adapters.disk_research_store import DiskResearchStore

    return DiskResearchStore(data_folder(settings) / "store", settings.STORE_TTL_DAYS)


def _page_reader_of_reports(adapters: SearchAdapters, web: IPageReader) -> IPageReader:
    """Documents that a search found are read from their index, everything else by the readers of the web."""
    from modules.llm_platform.infrastructure.adapters.document_page_reader import DocumentPageReader
    from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearch
    from modules.llm_platform.infrastructure.policies.by_address_page_reader import ByAddressPageReader

    documents = adapters.get(DOCUMENTS)
    return ByAddressPageReader(DocumentPageReader(documents) if isinstance(documents, DocumentWebSearch) else None, web)


def _report_writer(extractive: ISynthesizer) -> Callable[[ILLMProvider | None, int], ISynthesizer]:
    """Who writes a report with the given model; without one, the extractive writer."""

    def writer(llm: ILLMProvider | None, context_tokens: int) -> ISynthesizer:
        if llm is None:
            return extractive
        from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer

        return LLMSynthesizer(llm, context_tokens=context_tokens)

    return writer


def _report_labels(settings: Settings, search: SearchAdapters, llms: LLMAdapters) -> Mapping[str, str]:
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


def _report_options(settings: Settings, context_tokens: int) -> ReportOptions:
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


def _context_tokens(settings: Settings) -> int:
    """What the smallest model that may be asked holds."""
    contexts = [each.context or settings.LLM_CONTEXT_TOKENS for each in llm_connections(settings)]
    return min(contexts, default=settings.LLM_CONTEXT_TOKENS)


def _reporter(tools: ReportTools, resources: Resources) -> Reporter:
    reporter = Reporter(tools)
    resources.closing(reporter.aclose)
    return reporter


def _options(settings: Settings) -> ResearchOptions:
    return ResearchOptions(
        timeout_s=settings.RESEARCH_TIMEOUT_S,
        results_per_search=settings.SEARXNG_MAX_RESULTS,
        max_tokens=settings.LLM_MAX_TOKENS,
        plan_ttl_s=settings.CACHE_TTL_S,
    )


class Container(containers.DeclarativeContainer):
    """Each part once; what a test replaces is overridden here."""

    settings = providers.Dependency(instance_of=Settings)
    resources = providers.Singleton(Resources, settings)

    embedder = providers.Singleton(_embedder, settings, resources)
    vector_store = providers.Singleton(_vector_store, settings, resources)
    retrieval = providers.Singleton(
        RetrievalService, embedder, vector_store, settings.provided.QDRANT_COLLECTION, top_k=settings.provided.RAG_TOP_K
    )

    document_source = providers.Singleton(_document_source, settings, resources)
    folder_embedder = providers.Singleton(_folder_embedder, settings)
    folder_store: providers.Object[IVectorStore | None] = providers.Object(None)  # its own, embedded
    folder_index = providers.Singleton(
        _folder_index, settings, resources, document_source, folder_embedder, folder_store
    )

    search_adapters = providers.Singleton(search_wiring.search_adapters, settings, resources, retrieval, folder_index)
    search_paces = providers.Singleton(search_wiring.search_paces, settings, search_adapters)
    search_cache: providers.Singleton[MemoryCache[Any]] = providers.Singleton(
        MemoryCache, settings.provided.CACHE_MAX_ENTRIES
    )
    web_search_provider = providers.Singleton(
        search_wiring.web_search_provider, settings, search_adapters, search_paces, search_cache
    )
    llm_adapters = providers.Singleton(_llm_adapters, settings, resources)
    llm_paces = providers.Singleton(_llm_paces, settings, llm_adapters)
    llm_provider = providers.Singleton(_llm_provider, settings, llm_adapters, llm_paces)
    extractive = providers.Singleton(ExtractiveSynthesizer)
    synthesizer = providers.Singleton(_synthesizer, settings, llm_provider, llm_adapters, extractive)

    page_reader = providers.Singleton(_page_reader, settings, resources)

    web_search = providers.Singleton(
        WebSearchService, web_search_provider, log_queries=settings.provided.LOG_QUERIES
    )
    research_store = providers.Singleton(_research_store, settings)
    context_tokens = providers.Singleton(_context_tokens, settings)
    stage_llms = providers.Singleton(_stage_llms, settings, llm_adapters, llm_paces, llm_provider)
    report_search_provider = providers.Singleton(
        search_wiring.report_search_provider, settings, search_adapters, search_paces, search_cache, web_search_provider
    )
    report_writer = providers.Singleton(_report_writer, extractive)
    citation_judges = providers.Singleton(_citation_judges, context_tokens)
    answer_judge = providers.Singleton(_answer_judge, settings, citation_judges, llm_provider)
    report_tools = providers.Singleton(
        ReportTools,
        search=providers.Singleton(
            WebSearchService, report_search_provider, log_queries=settings.provided.LOG_QUERIES
        ),
        pages=providers.Singleton(
            PageService, providers.Singleton(_page_reader_of_reports, search_adapters, page_reader)
        ),
        store=research_store,
        llms=stage_llms,
        writer=report_writer,
        last_resort=extractive,
        judge=providers.Singleton(_report_judge, settings, citation_judges),
        labels=providers.Singleton(_report_labels, settings, search_adapters, llm_adapters),
        price=providers.Singleton(_price, settings, llm_adapters),
        options=providers.Singleton(_report_options, settings, context_tokens),
    )
    reporter = providers.Singleton(_reporter, report_tools, resources)
    llm = providers.Singleton(LLMService, llm_provider, providers.Singleton(_missing_llm, settings))
    answerer = providers.Singleton(
        Answerer,
        search=web_search,
        writer=synthesizer,
        last_resort=extractive,
        planner=llm_provider,
        options=providers.Singleton(_options, settings),
        plans=providers.Singleton(MemoryCache, settings.provided.CACHE_MAX_ENTRIES),
        judge=providers.Singleton(_research_judge, settings, answer_judge, llm_adapters),
    )
    research = providers.Singleton(
        ResearchService, answerer, reporter, providers.Singleton(MemoryCache, HELD_RESEARCHES)
    )
    pages = providers.Singleton(PageService, page_reader)
    store = providers.Singleton(StoreService, research_store, providers.Singleton(_kept_folders, settings))
    indexing = providers.Singleton(
        IndexingService,
        document_source,
        embedder,
        vector_store,
        settings.provided.QDRANT_COLLECTION,
    )
    answer_writer = providers.Singleton(_answer_writer, llm_provider, extractive, context_tokens)
    answers = providers.Singleton(
        AnswerService,
        retrieval.provided.search,
        providers.Singleton(
            ContextDesk,
            pages,
            providers.Singleton(KnownDocuments, vector_store, settings.provided.QDRANT_COLLECTION),
        ),
        answer_writer,
        extractive,
        providers.Singleton(_answer_options, settings),
        judge=answer_judge,
    )
    outcome_store = providers.Singleton(_outcome_store, settings, resources)  # opened by workers alone
    health = providers.Singleton(_health, search_adapters, llm_adapters)
    doctor = providers.Singleton(_doctor, settings, search_adapters, llm_adapters, retrieval)
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
        _reading=providers.Singleton(_reading, folder_index),
    )


def build_platform(settings: Settings | None = None, overrides: Mapping[type[Any], object] | None = None) -> LLMPlatform:
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
    from modules.llm_platform.presentation.kafka.dependencies import Dependencies
    from modules.llm_platform.presentation.kafka.handler import HandlerOptions
    from modules.llm_platform.presentation.kafka.parts import WorkerParts
    from modules.llm_platform.presentation.kafka.probes import of_models, of_outcomes, of_retrieval
    from modules.llm_platform.presentation.kafka.services import rag_handler

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
    yield from (f"a language model cannot be asked: {mistake}" for mistake in map(mistake_in, connections) if mistake)
    if not connections:
        yield ONLY_LOOPBACK if settings.LLM_PLATFORM_OFFLINE and _all_connections(settings) else QUOTES_ONLY


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
