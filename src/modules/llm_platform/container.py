"""The only file that knows port and adapter: what is configured becomes a platform.

To replace a part in a test: `build_platform(overrides={IWebSearchProvider: FakeWebSearch(…)})`. To add a search provider: one
adapter, one line in `_SEARCH_BUILDERS`, one setting.

Over 300 lines: splitting it would give a second file that knows the adapters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dependency_injector import containers, providers
from pydantic import SecretStr

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.services.doctor_service import DoctorService, SearchPatient
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.llm_registry import NOT_CONFIGURED, LLMRegistry
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.research_service import ResearchOptions, ResearchService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.adapters.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.llm_kinds import KINDS, LLMConnection, Variables
from modules.llm_platform.infrastructure.policies.by_source_web_search import BySourceWebSearch
from modules.llm_platform.infrastructure.policies.cached_synthesizer import CachedSynthesizer
from modules.llm_platform.infrastructure.policies.cached_web_search import CachedWebSearch
from modules.llm_platform.infrastructure.policies.failover_page_reader import FailoverPageReader
from modules.llm_platform.infrastructure.policies.failover_web_search import FailoverWebSearch
from modules.llm_platform.infrastructure.policies.fallback_synthesizer import FallbackSynthesizer
from modules.llm_platform.infrastructure.policies.late_page_reader import LatePageReader
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.retried_llm import RetriedLLM
from modules.llm_platform.infrastructure.policies.retried_web_search import RetriedWebSearch
from modules.llm_platform.infrastructure.policies.throttled_page_reader import ThrottledPageReader
from modules.llm_platform.infrastructure.policies.unconfigured_page_reader import UnconfiguredPageReader
from modules.llm_platform.infrastructure.policies.unconfigured_web_search import UnconfiguredWebSearch
from shared.config import LOOPBACK_HOSTS, LLMProviderSettings, Settings

if TYPE_CHECKING:
    import httpx2

    from modules.llm_platform.infrastructure.reading.guard import Guard

HELD_RESEARCHES = 200  # whose source texts can be asked for; about 10 kB each
DOCUMENTS = "documents"
ONLY_LOOPBACK = (
    "Offline, only language models on loopback are asked: set LLM_KIND=ollama or vllm with LLM_BASE_URL; "
    "research works without one and quotes its sources (extractive)"
)
STAND_IN = "ddgs"  # the keyless web serves where nothing is configured

JINA_RPS_WITH_KEY = 5.0  # mind-search.md; pages a second
JINA_RPS_WITHOUT = 0.33  # about the twenty a minute that it serves without a key

SearchAdapters = Mapping[str, IWebSearchProvider]
LLMAdapters = Mapping[str, ILLMProvider]


class Resources:
    """What is opened must be closed, and what is secret must be known to all who read from outside."""

    def __init__(self, settings: Settings) -> None:
        self.redactor = Redactor(settings.secrets())
        self._proxy = settings.UPSTREAM_PROXY
        self._stack = AsyncExitStack()

    def client(self, base_url: str, timeout_s: float, **options: Any) -> httpx2.AsyncClient:
        """One pooled client for one upstream, closed with the platform. Configured addresses may go through the proxy."""
        from modules.llm_platform.infrastructure.http import make_client

        client = make_client(base_url, timeout_s, proxy=None if _is_loopback(base_url) else self._proxy, **options)
        self._stack.push_async_callback(client.aclose)
        return client

    def closing(self, close: Callable[[], Awaitable[None]]) -> None:
        self._stack.push_async_callback(close)

    async def aclose(self) -> None:
        await self._stack.aclose()


# --- search ---------------------------------------------------------------------------------------------------------------


def _searxng(settings: Settings, resources: Resources) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.searxng_web_search import SearXNGWebSearchAdapter

    if not settings.SEARXNG_URL:
        yield UnconfiguredWebSearch(
            "searxng", "SearXNG needs an address: set SEARXNG_URL, for instance http://localhost:8080"
        )
    for number, url in enumerate(settings.SEARXNG_URL, 1):
        password = settings.SEARXNG_PASSWORD
        yield SearXNGWebSearchAdapter(
            url,
            name="searxng" if number == 1 else f"searxng-{number}",
            engines={
                "web": settings.SEARXNG_ENGINES_WEB,
                "news": settings.SEARXNG_ENGINES_NEWS,
                "academic": settings.SEARXNG_ENGINES_ACADEMIC,
            },
            username=settings.SEARXNG_USERNAME,
            password=password.get_secret_value() if password else None,
            timeout=settings.SEARXNG_TIMEOUT_S,
            safesearch=settings.SEARXNG_SAFESEARCH,
            client=resources.client(url, settings.SEARXNG_TIMEOUT_S),
            redactor=resources.redactor,
        )


def _bocha(settings: Settings, resources: Resources) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.bocha_web_search import BochaWebSearchAdapter

    yield BochaWebSearchAdapter(
        settings.BOCHA_API_KEY.get_secret_value(),
        base_url=settings.BOCHA_BASE_URL,
        timeout=settings.BOCHA_TIMEOUT_S,
        client=resources.client(settings.BOCHA_BASE_URL, settings.BOCHA_TIMEOUT_S),
        redactor=resources.redactor,
    )


def _documents(settings: Settings, resources: Resources) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearchAdapter

    if settings.DOCUMENTS_DIR is None:
        yield UnconfiguredWebSearch(DOCUMENTS, "Documents need a folder: set DOCUMENTS_DIR, or give --documents DIR")
        return
    adapter = DocumentWebSearchAdapter(
        settings.DOCUMENTS_DIR, base_url=settings.DOCUMENTS_BASE_URL, redactor=resources.redactor
    )
    resources.closing(adapter.aclose)
    yield adapter


def _ddgs(settings: Settings, resources: Resources) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.ddgs_web_search import DdgsWebSearchAdapter

    adapter = DdgsWebSearchAdapter(proxy=settings.UPSTREAM_PROXY, redactor=resources.redactor)
    resources.closing(adapter.aclose)
    yield adapter


_SEARCH_BUILDERS: Mapping[str, Callable[[Settings, Resources], Iterator[IWebSearchProvider]]] = {
    "searxng": _searxng,
    "bocha": _bocha,
    "documents": _documents,
    "ddgs": _ddgs,
}


def search_order(settings: Settings) -> tuple[str, ...]:
    """The providers in order: those that are named, else those that are configured, else the keyless web."""
    configured = {
        "searxng": bool(settings.SEARXNG_URL),
        "bocha": bool(settings.BOCHA_API_KEY.get_secret_value()),
        "documents": settings.DOCUMENTS_DIR is not None,
    }
    wanted: tuple[str, ...] = settings.SEARCH_PROVIDERS or tuple(name for name, there in configured.items() if there)
    wanted = wanted or (STAND_IN,)
    return tuple(name for name in wanted if name == DOCUMENTS) if settings.LLM_PLATFORM_OFFLINE else wanted


def _search_adapters(settings: Settings, resources: Resources) -> SearchAdapters:
    names = search_order(settings)
    if not names:
        remedy = "Offline, only documents can be searched: set DOCUMENTS_DIR, or give --documents DIR"
        return {"offline": UnconfiguredWebSearch("offline", remedy)}
    # Documents serve `sources: [documents]` even where the list of providers does not name them.
    aside = settings.DOCUMENTS_DIR is not None and DOCUMENTS not in names
    return {
        provider.name: provider
        for name in (*names, *((DOCUMENTS,) if aside else ()))
        for provider in _SEARCH_BUILDERS[name](settings, resources)
    }


def _web_search_provider(settings: Settings, adapters: SearchAdapters) -> IWebSearchProvider:
    cache: ICache[Any] = MemoryCache(settings.CACHE_MAX_ENTRIES)

    def policies(adapter: IWebSearchProvider) -> IWebSearchProvider:
        if adapter.name == DOCUMENTS:
            return adapter  # local: nothing to try again, and a file may change at any time
        retried = RetriedWebSearch(adapter)
        return CachedWebSearch(retried, cache, settings.CACHE_TTL_S) if settings.CACHE_TTL_S > 0 else retried

    named = search_order(settings)
    wired = {name: policies(adapter) for name, adapter in adapters.items()}
    web = [provider for name, provider in wired.items() if name != DOCUMENTS or DOCUMENTS in named]
    failover = web[0] if len(web) == 1 else FailoverWebSearch(web)
    documents = wired.get(DOCUMENTS)
    return BySourceWebSearch(None if failover is documents else failover, documents)


# --- language models ------------------------------------------------------------------------------------------------------


def llm_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    """The configured models in the order of failover (interface.md, LLM_PROVIDERS); offline, those on loopback.

    What is half configured (a key without a model) is there too: its first call says what is missing.
    """
    if settings.LLM_PROVIDERS:
        connections = [_listed(each, settings) for each in settings.LLM_PROVIDERS]
    else:
        connections = list(_single_variables(settings))
    if settings.LLM_PLATFORM_OFFLINE:
        connections = [each for each in connections if _is_loopback(each.address or "")]
    return tuple(_with_own_names(connections))


def _single_variables(settings: Settings) -> Iterator[LLMConnection]:
    s = settings
    keyless = not KINDS[s.LLM_KIND].needs_key and (s.LLM_BASE_URL or s.LLM_MODEL)
    if s.LLM_API_KEY or keyless:
        yield _connection(s, s.LLM_KIND, s.LLM_KIND, s.LLM_MODEL, s.LLM_API_KEY, s.LLM_BASE_URL, variables=Variables())
    if s.KIMI_API_KEY:
        yield _connection(s, "kimi", "kimi", s.KIMI_MODEL, s.KIMI_API_KEY, s.KIMI_BASE_URL)
    if s.AITUNNEL_API_KEY:
        yield _connection(s, "aitunnel", "aitunnel", s.AITUNNEL_MODEL, s.AITUNNEL_API_KEY, s.AITUNNEL_BASE_URL)
    if s.AZURE_OPENAI_API_KEY:
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


def _llm_provider(adapters: LLMAdapters) -> ILLMProvider | None:
    if not adapters:
        return None
    models: Sequence[ILLMProvider] = tuple(adapters.values())
    # Where there are several, the next one answers sooner than a second try of the first.
    return LLMRouter(LLMRegistry(models if len(models) > 1 else [RetriedLLM(each) for each in models]))


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
    throttled = ThrottledPageReader(jina, settings.JINA_RPS or (JINA_RPS_WITH_KEY if key else JINA_RPS_WITHOUT))
    return GuardedPageReader(throttled, guard, at_home=_is_loopback(url) or guard.allows(url))


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


# --- services -------------------------------------------------------------------------------------------------------------


def _health(search: SearchAdapters, llms: LLMAdapters) -> HealthService:
    kimi = [name for name, each in llms.items() if getattr(each, "kind", name) == "kimi"]
    return HealthService(search, llms, searxng=[name for name in search if name.startswith("searxng")], kimi=kimi)


def _doctor(settings: Settings, search: SearchAdapters, llms: LLMAdapters) -> DoctorService:
    stand_in = not settings.SEARCH_PROVIDERS and search_order(settings) == (STAND_IN,)
    patients = [
        SearchPatient(
            each,
            paid=name == "bocha",
            finds=name != DOCUMENTS,
            configured=not (stand_in and name == STAND_IN),
            sources=("web", "news", "academic") if name.startswith("searxng") else ("web",),
        )
        for name, each in search.items()
    ]
    return DoctorService(patients, tuple(llms.values()))


def _options(settings: Settings) -> ResearchOptions:
    return ResearchOptions(
        timeout_s=settings.RESEARCH_TIMEOUT_S,
        results_per_search=settings.SEARXNG_MAX_RESULTS,
        max_tokens=settings.LLM_MAX_TOKENS,
    )


class Container(containers.DeclarativeContainer):
    """Each part once; what a test replaces is overridden here."""

    settings = providers.Dependency(instance_of=Settings)
    resources = providers.Singleton(Resources, settings)

    search_adapters = providers.Singleton(_search_adapters, settings, resources)
    web_search_provider = providers.Singleton(_web_search_provider, settings, search_adapters)
    llm_adapters = providers.Singleton(_llm_adapters, settings, resources)
    llm_provider = providers.Singleton(_llm_provider, llm_adapters)
    extractive = providers.Singleton(ExtractiveSynthesizer)
    synthesizer = providers.Singleton(_synthesizer, settings, llm_provider, llm_adapters, extractive)

    page_reader = providers.Singleton(_page_reader, settings, resources)

    web_search = providers.Singleton(
        WebSearchService, web_search_provider, log_queries=settings.provided.LOG_QUERIES
    )
    llm = providers.Singleton(LLMService, llm_provider, providers.Singleton(_missing_llm, settings))
    research = providers.Singleton(
        ResearchService,
        search=web_search,
        writer=synthesizer,
        last_resort=extractive,
        held=providers.Singleton(MemoryCache, HELD_RESEARCHES),
        planner=llm_provider,
        options=providers.Singleton(_options, settings),
    )
    pages = providers.Singleton(PageService, page_reader)
    health = providers.Singleton(_health, search_adapters, llm_adapters)
    doctor = providers.Singleton(_doctor, settings, search_adapters, llm_adapters)
    platform = providers.Factory(
        LLMPlatform,
        web_search=web_search,
        llm=llm,
        research=research,
        pages=pages,
        health=health,
        doctor=doctor,
        _close=resources.provided.aclose,
    )


def build_platform(settings: Settings | None = None, overrides: Mapping[type, object] | None = None) -> LLMPlatform:
    """The platform, wired from `settings` (None: this process's environment). Nothing is connected before the first call.

    `overrides` maps a port to the object that takes its place, policies included: IWebSearchProvider, ILLMProvider,
    ISynthesizer or IPageReader. Raises SettingsError when a variable cannot be read, ValueError for another port.
    """
    container = Container(settings=settings or Settings.load())
    for port, replacement in (overrides or {}).items():
        _override(container, port, replacement)
    platform: LLMPlatform = container.platform()
    return platform


def _override(container: Container, port: type, replacement: Any) -> None:
    if port is IWebSearchProvider:
        container.web_search_provider.override(providers.Object(replacement))
        container.search_adapters.override(providers.Object({replacement.name: replacement}))
    elif port is ILLMProvider:
        container.llm_provider.override(providers.Object(replacement))
        container.llm_adapters.override(providers.Object({replacement.name: replacement}))
    elif port is ISynthesizer:
        container.synthesizer.override(providers.Object(replacement))
    elif port is IPageReader:
        container.page_reader.override(providers.Object(replacement))
    else:
        raise ValueError(
            f"{port.__name__} cannot be overridden: choose IWebSearchProvider, ILLMProvider, ISynthesizer or IPageReader"
        )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host in LOOPBACK_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False
