"""Search providers: a table with one row per provider, and the search provider built from the settings.

A new provider needs an adapter, its settings, a row in `SEARCH_PROVIDERS` and a subclass of the contract class. The choices
of the setting SEARCH_PROVIDERS and of `--provider`, the order of `auto`, the checks of `doctor`, the flags of /health, the
rate limits and the table in docs/reference/settings.md derive from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, get_args

from modules.llm_platform.application.platform import DocumentTitles, no_titles
from modules.llm_platform.application.services.doctor_service import SearchProviderCheck
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind, WebSearchResponse
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.web_search import MAX_CONCURRENT_SEARCHES, IWebSearchProvider
from modules.llm_platform.infrastructure.limits.upstream_guard import SEARCH, UpstreamGuard
from modules.llm_platform.infrastructure.limits.upstream_limits import MINUTE_S, THE_LIMIT, RateLimiter
from modules.llm_platform.infrastructure.search import web_search_chain as web_search
from modules.llm_platform.infrastructure.unconfigured import Unconfigured, unconfigured_web_search
from modules.llm_platform.wiring.redis import SharedState
from modules.llm_platform.wiring.resources import Resources, UpstreamStates, data_folder, is_installed, upstream_states
from shared.config import Settings, SettingsError, example_line

if TYPE_CHECKING:
    from modules.llm_platform.application.rag.retrieval import RetrievalService
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex
    from modules.llm_platform.infrastructure.search.keyed_service import KeyedWebSearch

SEARXNG: Final = "searxng"
ADAPTERS: Final = "modules.llm_platform.infrastructure.search"
BASE_URLS: Final = "SEARCH_BASE_URLS"
OWN_SETTINGS: Final[Mapping[str, tuple[str, str]]] = {  # of services that have more settings than their key: address, timeout
    "brave": ("BRAVE_BASE_URL", "BRAVE_TIMEOUT_S"),
    "bocha": ("BOCHA_BASE_URL", "BOCHA_TIMEOUT_S"),
}
INDEX_FOLDER = "index"  # below the data folder
OR_A_FOLDER = "; or set DOCUMENTS_DIR, or pass --documents DIR"
STORE_PACKAGES = ("qdrant_edge",)  # of the embedded index; SQLite is used without it
NOTHING_OFFLINE = (
    "Offline mode: only documents can be searched. Set DOCUMENTS_DIR, pass --documents DIR, or run `llm-platform index`"
)

REPORT_SEARXNG_RPM = 10.0  # searches per minute of all reports if SEARXNG_RPM is not set
MAX_SHARED_SEARCH_S = 15.0  # to wait for the same search of another process
MAX_REPORT_WAIT_S = 300.0  # for the rate limiter; the limits of a report end it sooner

SearchAdapters = Mapping[str, IWebSearchProvider]
RateLimiters = Mapping[str, RateLimiter]  # by the name of the adapter

_INSTANCE_NUMBER = re.compile(r"-\d+$")  # the second instance of a provider is `searxng-2`


@dataclass(frozen=True, slots=True)
class SearchParts:
    """What the builders of search adapters use."""

    settings: Settings
    resources: Resources
    retrieval: RetrievalService
    folder_index: FolderIndex | None


@dataclass(frozen=True, slots=True)
class SearchProviderSpec:
    """All facts about one search provider.

    `build` yields one adapter, or one per configured instance; an adapter without its settings raises an error when it is
    called. `configured`: whether its settings exist; `auto` uses it then, unless `named_only`: its settings serve something
    else too. `paid`: whether a search costs money; `doctor` searches only with --yes then. `source_kinds`: the sources that it
    supports; for others it searches the web and reports that in `degraded`.
    `settings`: its settings, first the one that configures it. `addresses`: its URLs, which are part of the keys of stored
    reports. `rpm_setting`: the one for the maximum of searches per minute, None: no limit; `report_rpm`: of all reports if it
    is not set. `fallback`: whether it is used if no provider is configured.
    """

    name: str
    build: Callable[[SearchParts], Iterator[IWebSearchProvider]]
    configured: Callable[[Settings], bool]
    paid: bool
    source_kinds: tuple[SourceKind, ...]
    label: str
    settings: tuple[str, ...]
    addresses: Callable[[Settings], Iterable[str]] = lambda settings: ()
    rpm_setting: str | None = None
    report_rpm: float | None = None
    fallback: bool = False
    named_only: bool = False

    def missing_setting(self, settings: Settings) -> str | None:
        """Return the required setting that is missing, if any. The documents provider reports that itself."""
        can_search = self.configured(settings) or self.fallback or self.name == DOCUMENTS
        return None if can_search else self.settings[0]


# --- the builders of the adapters -----------------------------------------------------------------------------------------


def _searxng(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter

    settings = parts.settings
    if not settings.SEARXNG_URL:
        yield unconfigured_web_search(
            SEARXNG, "SearXNG needs an address: set SEARXNG_URL, for instance http://localhost:8080"
        )
    for number, url in enumerate(settings.SEARXNG_URL, 1):
        password = settings.SEARXNG_PASSWORD
        yield SearXNGWebSearchAdapter(
            url,
            name=SEARXNG if number == 1 else f"{SEARXNG}-{number}",
            engines={
                "web": settings.SEARXNG_ENGINES_WEB,
                "news": settings.SEARXNG_ENGINES_NEWS,
                "academic": settings.SEARXNG_ENGINES_ACADEMIC,
            },
            username=settings.SEARXNG_USERNAME,
            password=password.get_secret_value() if password else None,
            timeout=settings.SEARXNG_TIMEOUT_S,
            safesearch=settings.SEARXNG_SAFESEARCH,
            client=parts.resources.client(url, settings.SEARXNG_TIMEOUT_S),
            redactor=parts.resources.redactor,
        )


def _documents(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    """Yield the search in the folder DOCUMENTS_DIR, or in the indexed collection, which may not exist yet."""
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    settings = parts.settings
    alternative = "" if settings.DOCUMENTS_DIR or has_index(settings) else OR_A_FOLDER
    yield DocumentWebSearch(
        parts.folder_index or parts.retrieval,
        settings.DOCUMENTS_BASE_URL,
        parts.resources.redactor,
        alternative,
        needs_words=settings.EMBEDDER == "wordllama",
    )


def _ddgs(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.search.ddgs import DdgsWebSearchAdapter

    adapter = DdgsWebSearchAdapter(proxy=parts.settings.UPSTREAM_PROXY, redactor=parts.resources.redactor)
    parts.resources.on_close(adapter.aclose)
    yield adapter


def _keyed_service(
    name: str, adapter: str, label: str, source_kinds: tuple[SourceKind, ...], *, named_only: bool = False
) -> SearchProviderSpec:
    """Return the row of a service with a key, in NAME_API_KEY. Its address is in NAME_BASE_URL and the timeout of a search in
    NAME_TIMEOUT_S if there are such settings of its own (`OWN_SETTINGS`), else in SEARCH_BASE_URLS and in its adapter.

    `adapter`: a KeyedWebSearch in `infrastructure/search/<name>.py`.
    """
    key_setting = f"{name.upper()}_API_KEY"
    url_setting, timeout_setting = OWN_SETTINGS.get(name, (BASE_URLS, None))

    def key_of(settings: Settings) -> str:
        key = getattr(settings, key_setting)
        return key.get_secret_value() if key else ""

    def url_of(settings: Settings) -> str | None:
        return settings.SEARCH_BASE_URLS.get(name) if url_setting == BASE_URLS else getattr(settings, url_setting)

    def build(parts: SearchParts) -> Iterator[IWebSearchProvider]:
        adapter_type: type[KeyedWebSearch] = getattr(import_module(f"{ADAPTERS}.{name}"), adapter)
        url = url_of(parts.settings) or adapter_type.base_url
        timeout_s = getattr(parts.settings, timeout_setting) if timeout_setting else adapter_type.timeout_s
        client, redactor = parts.resources.client(url, timeout_s), parts.resources.redactor
        yield adapter_type(key_of(parts.settings), url, timeout_s, client, redactor)

    return SearchProviderSpec(
        name=name,
        build=build,
        configured=lambda settings: bool(key_of(settings)),
        paid=True,
        source_kinds=source_kinds,
        label=label,
        settings=tuple(filter(None, (key_setting, url_setting, timeout_setting))),
        addresses=lambda settings: filter(None, (url_of(settings),)),
        named_only=named_only,
    )


# --- the table ------------------------------------------------------------------------------------------------------------

SEARCH_PROVIDERS: tuple[SearchProviderSpec, ...] = (  # in the order of `auto`
    SearchProviderSpec(
        name=SEARXNG,
        build=_searxng,
        configured=lambda settings: bool(settings.SEARXNG_URL),
        paid=False,
        source_kinds=("web", "news", "academic"),
        label="SearXNG, a self-hosted metasearch engine",
        settings=(
            "SEARXNG_URL", "SEARXNG_USERNAME", "SEARXNG_PASSWORD", "SEARXNG_TIMEOUT_S",
            "SEARXNG_SAFESEARCH", "SEARXNG_ENGINES_WEB", "SEARXNG_ENGINES_NEWS", "SEARXNG_ENGINES_ACADEMIC", "SEARXNG_RPM",
        ),
        addresses=lambda settings: settings.SEARXNG_URL,
        rpm_setting="SEARXNG_RPM",
        report_rpm=REPORT_SEARXNG_RPM,
    ),
    _keyed_service("brave", "BraveWebSearchAdapter", "Brave Search API", ("web", "news")),
    _keyed_service("bocha", "BochaWebSearchAdapter", "Bocha AI web search", ("web",)),
    _keyed_service("exa", "ExaWebSearchAdapter", "Exa, a search by meaning", ("web", "news", "academic")),
    _keyed_service("tavily", "TavilyWebSearchAdapter", "Tavily", ("web", "news")),
    _keyed_service("serper", "SerperWebSearchAdapter", "Serper, results of Google", ("web", "news", "academic")),
    _keyed_service("jina", "JinaWebSearchAdapter", "Jina's search, results of Google", ("web", "news"), named_only=True),
    SearchProviderSpec(
        name=DOCUMENTS,
        build=_documents,
        configured=lambda settings: settings.DOCUMENTS_DIR is not None,
        paid=False,
        source_kinds=(DOCUMENTS,),
        label="a folder of documents, or the index",
        settings=("DOCUMENTS_DIR", "DOCUMENTS_BASE_URL"),
        addresses=lambda settings: (str(settings.DOCUMENTS_DIR or ""),),
    ),
    SearchProviderSpec(
        name="ddgs",
        build=_ddgs,
        configured=lambda settings: False,
        paid=False,
        source_kinds=("web", "news"),
        label="public search engines, without an API key",
        settings=(),
        fallback=True,
    ),
)


def spec_of(provider: str) -> SearchProviderSpec | None:
    """Return the row of an adapter (`searxng-2` has that of SearXNG), or None for an adapter of the caller."""
    name = _INSTANCE_NUMBER.sub("", provider)
    return next((spec for spec in SEARCH_PROVIDERS if spec.name == name), None)


def provider_names() -> tuple[str, ...]:
    """Return the valid values of SEARCH_PROVIDERS and `--provider`."""
    return tuple(spec.name for spec in SEARCH_PROVIDERS)


# --- the providers in use -------------------------------------------------------------------------------------------------


def check_providers(settings: Settings) -> None:
    """Raise SettingsError if SEARCH_PROVIDERS or SEARCH_BASE_URLS names an unknown provider."""
    _check_names("SEARCH_PROVIDERS must be", settings.SEARCH_PROVIDERS, provider_names())
    with_address = [spec.name for spec in SEARCH_PROVIDERS if BASE_URLS in spec.settings]
    _check_names(f"{BASE_URLS} must name", settings.SEARCH_BASE_URLS, with_address)


def _check_names(rule: str, named: Iterable[str], known: Sequence[str]) -> None:
    if not set(named) <= set(known):
        *others, last = map(repr, known)
        raise SettingsError(f"{rule} {', '.join(others)} or {last}. Example: {example_line(rule.partition(' ')[0])}")


def search_order(settings: Settings) -> tuple[str, ...]:
    """Return the providers in use, in order: the named ones, else the configured ones, else the fallback.

    Offline: only documents, if there are any. Raises SettingsError like `check_providers`.
    """
    check_providers(settings)
    configured = tuple(spec.name for spec in SEARCH_PROVIDERS if spec.configured(settings) and not spec.named_only)
    fallback = tuple(spec.name for spec in SEARCH_PROVIDERS if spec.fallback)
    order = settings.SEARCH_PROVIDERS or configured or fallback
    if not settings.LLM_PLATFORM_OFFLINE:
        return order
    return (DOCUMENTS,) if DOCUMENTS in order or has_index(settings) else ()


def uses_fallback(settings: Settings) -> bool:
    """Return whether no provider is configured, so that queries go to the provider without an API key."""
    specs = map(spec_of, search_order(settings))
    return not settings.SEARCH_PROVIDERS and any(spec is not None and spec.fallback for spec in specs)


def has_index(settings: Settings) -> bool:
    """Return whether there is an index to search."""
    embedded = data_folder(settings) / INDEX_FOLDER / settings.QDRANT_COLLECTION
    data_file = embedded / ("current" if is_installed(STORE_PACKAGES) else "passages.sqlite3")
    return settings.QDRANT_URL is not None or data_file.is_file()


# --- wiring ---------------------------------------------------------------------------------------------------------------


def search_adapters(
    settings: Settings, resources: Resources, retrieval: RetrievalService, folder_index: FolderIndex | None
) -> SearchAdapters:
    """Return the adapters by name, in order. Existing documents are always included, for `sources: [documents]`."""
    names = search_order(settings)
    if not names:
        return {"offline": unconfigured_web_search("offline", NOTHING_OFFLINE)}
    add_documents = (settings.DOCUMENTS_DIR is not None or has_index(settings)) and DOCUMENTS not in names
    parts = SearchParts(settings, resources, retrieval, folder_index)
    specs = filter(None, map(spec_of, (*names, *((DOCUMENTS,) if add_documents else ()))))
    return {provider.name: provider for spec in specs for provider in spec.build(parts)}


def source_kinds(adapters: SearchAdapters) -> dict[str, tuple[SourceKind, ...]]:
    """Return the sources that each configured adapter supports; an adapter of the caller is one for the web."""
    configured = (name for name, adapter in adapters.items() if not isinstance(adapter, Unconfigured))
    return {name: spec.source_kinds if (spec := spec_of(name)) else ("web",) for name in configured}


def searchable_kinds(settings: Settings, adapters: SearchAdapters) -> tuple[SourceKind, ...]:
    """Return the sources that can be searched; documents if there are any."""
    served = {kind for kinds in source_kinds(adapters).values() for kind in kinds}
    if settings.DOCUMENTS_DIR is None and not has_index(settings):
        served.discard(DOCUMENTS)
    return tuple(kind for kind in get_args(SourceKind) if kind in served)


def document_titles(settings: Settings, adapters: SearchAdapters) -> DocumentTitles:
    """Return a function for at most so many titles of the documents that can be searched."""
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    documents = adapters.get(DOCUMENTS)
    if isinstance(documents, DocumentWebSearch) and DOCUMENTS in searchable_kinds(settings, adapters):
        return documents.titles
    return no_titles


def search_rate_limiters(settings: Settings, adapters: SearchAdapters) -> RateLimiters:
    """Return the rate limiters that all callers of an adapter share."""
    return {
        name: RateLimiter(_rpm(name, settings)[0] or _report_rpm(name), MINUTE_S, max_concurrent=MAX_CONCURRENT_SEARCHES)
        for name in adapters
        if name != DOCUMENTS
    }


def search_upstreams(adapters: SearchAdapters, metrics: IMetrics) -> UpstreamStates:
    """Return the circuits, retry budgets and call limits of all providers but the documents."""
    return upstream_states((name for name in adapters if name != DOCUMENTS), metrics)


@dataclass(frozen=True, slots=True)
class SearchPolicies:
    """What the chains of searches and of reports share. `caches`: None without caching."""

    limiters: RateLimiters
    upstreams: UpstreamStates
    caches: web_search.SearchCaches | None


def build_search_policies(
    settings: Settings, limiters: RateLimiters, upstreams: UpstreamStates, shared: SharedState
) -> SearchPolicies:
    caches = web_search.SearchCaches(
        settings.CACHE_TTL_S,
        shared.cache("search", WebSearchResponse),
        shared.cache("stale", web_search.StoredSearch),
        shared.lock("search", MAX_SHARED_SEARCH_S),
    )
    return SearchPolicies(limiters, upstreams, caches if settings.CACHE_TTL_S > 0 else None)


def web_search_provider(settings: Settings, adapters: SearchAdapters, policies: SearchPolicies) -> IWebSearchProvider:
    """Return the adapters with their policies as one provider that selects the adapter by source."""

    def guard(name: str) -> UpstreamGuard:
        upstream, (rpm, setting) = policies.upstreams[name], _rpm(name, settings)
        if rpm is not None:
            return upstream.guard(SEARCH, policies.limiters[name], setting=setting)
        return upstream.guard(SEARCH, upstream.calls, max_closed_s=SEARCH.max_pause_s)

    return _search_chain(settings, adapters, policies, guard)


def report_search_provider(
    settings: Settings, adapters: SearchAdapters, policies: SearchPolicies, ordinary: IWebSearchProvider
) -> IWebSearchProvider:
    """Return the same provider with the rate limits of reports, or `ordinary` if that replaces all adapters."""

    def guard(name: str) -> UpstreamGuard:
        limiter, (_, setting) = policies.limiters[name], _rpm(name, settings)
        return policies.upstreams[name].guard(SEARCH, limiter, max_wait_s=MAX_REPORT_WAIT_S, setting=setting)

    overridden = any(ordinary is adapter for adapter in adapters.values())
    return ordinary if overridden else _search_chain(settings, adapters, policies, guard)


def _rpm(provider: str, settings: Settings) -> tuple[float | None, str]:
    """Return the maximum of searches per minute, and the setting that raises it."""
    spec = spec_of(provider)
    if spec is None or spec.rpm_setting is None:
        return None, THE_LIMIT
    return getattr(settings, spec.rpm_setting), spec.rpm_setting


def _report_rpm(provider: str) -> float | None:
    spec = spec_of(provider)
    return spec.report_rpm if spec else None


def _search_chain(
    settings: Settings, adapters: SearchAdapters, policies: SearchPolicies, guard: Callable[[str], UpstreamGuard]
) -> IWebSearchProvider:
    documents = adapters.get(DOCUMENTS)
    web = [
        web_search.SearchUpstream(adapter, None if adapter is documents else guard(name))
        for name, adapter in adapters.items()
        if adapter is not documents or DOCUMENTS in search_order(settings)
    ]
    only_documents = [each.provider for each in web] == [documents]
    return web_search.WebSearchChain(() if only_documents else web, documents, policies.caches)


# --- for health, doctor and stored reports --------------------------------------------------------------------------------


def search_addresses(settings: Settings) -> tuple[str, ...]:
    """Return the URLs of all providers."""
    return tuple(address for spec in SEARCH_PROVIDERS for address in spec.addresses(settings))


def searxng_names(adapters: SearchAdapters) -> list[str]:
    """Return the adapters that are instances of SearXNG."""
    return [name for name in adapters if (spec := spec_of(name)) and spec.name == SEARXNG]


def search_checks(settings: Settings, adapters: SearchAdapters) -> list[SearchProviderCheck]:
    fallback = uses_fallback(settings)
    return [_search_check(name, adapter, settings, fallback=fallback) for name, adapter in adapters.items()]


def _search_check(name: str, adapter: IWebSearchProvider, settings: Settings, *, fallback: bool) -> SearchProviderCheck:
    spec = spec_of(name)
    if spec is None:  # an adapter of the caller: the cost of a search is unknown
        return SearchProviderCheck(adapter, paid=not isinstance(adapter, Unconfigured))
    missing = spec.missing_setting(settings)
    return SearchProviderCheck(
        adapter,
        paid=spec.paid,
        expects_results=name != DOCUMENTS,
        configured=not fallback or not spec.fallback,
        sources=spec.source_kinds,
        config_error=f"it is in SEARCH_PROVIDERS but not configured: set {missing}" if missing else "",
    )
