"""Search providers: one row of facts for each, and how the rows of the settings become one provider.

A new provider costs an adapter, its settings, a row of `SEARCH_PROVIDERS` and a subclass of the contract. The choices of
the setting SEARCH_PROVIDERS and of `--provider`, the order of `auto`, what `doctor` asks and when it asks before it
spends money, the flags of /health, rate limits and the table in docs/reference/settings.md derive from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.application.services.doctor_service import SearchProviderCheck
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.policies.caching import CachedWebSearch
from modules.llm_platform.infrastructure.policies.failover import FailoverWebSearch
from modules.llm_platform.infrastructure.policies.rate_limits import MINUTE_S, RateLimiter, ThrottledWebSearch
from modules.llm_platform.infrastructure.policies.retries import RetriedWebSearch
from modules.llm_platform.infrastructure.policies.routing import BySourceWebSearch
from modules.llm_platform.infrastructure.policies.unconfigured import UnconfiguredWebSearch
from modules.llm_platform.wiring.resources import Resources, data_folder, is_installed
from shared.config import Settings, SettingsError, example

if TYPE_CHECKING:
    from modules.llm_platform.application.services.retrieval_service import RetrievalService
    from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind
    from modules.llm_platform.domain.ports.cache import ICache
    from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex

SEARXNG: Final = "searxng"  # /health has a flag for it
DOCUMENTS: Final = "documents"  # a provider and a kind of source: what is on this machine, searched without a network
INDEX_FOLDER = "index"  # below the data folder
OR_A_FOLDER = "; or set DOCUMENTS_DIR, or give --documents DIR"
STORE_PACKAGES = ("qdrant_edge",)  # the embedded index; SQLite serves without it
NOTHING_OFFLINE = (
    "Offline, only documents can be searched: set DOCUMENTS_DIR, give --documents DIR, or run `llm-platform index`"
)

REPORT_SEARXNG_RPM = 10.0  # searches a minute of all reports, where SEARXNG_RPM sets no rate for all
SEARCHES_AT_ONCE = 4  # of one service; a higher rate makes room for more
REPORT_WAIT_S = 300.0  # for a turn: a report has minutes, and its own limits end it sooner

SearchAdapters = Mapping[str, IWebSearchProvider]
Paces = Mapping[str, RateLimiter]  # by the name of the service

_NUMBERED = re.compile(r"-\d+$")  # the second instance of a provider is `searxng-2`


@dataclass(frozen=True, slots=True)
class SearchParts:
    """What a search provider is built from."""

    settings: Settings
    resources: Resources
    retrieval: RetrievalService
    folder_index: FolderIndex | None


@dataclass(frozen=True, slots=True)
class SearchProviderSpec:
    """What there is to know about a search provider, all of it.

    `build` gives one adapter, or one for each configured instance; an adapter without what it needs says so when it is
    asked. `configured`: whether `auto` chooses it. `paid`: a search costs money, so `doctor` does not try one unasked.
    `source_kinds`: what it serves; it searches the web for the others and says so in `degraded`. `settings`: those that
    are its own, first the one that configures it. `addresses`: where it is asked, so that stored reports of another
    service are not taken for its own. `rpm`: searches a minute at most, None: no limit; `report_rpm`: of all reports,
    where `rpm` gives none. `fallback`: it serves where nothing is configured.
    """

    name: str
    build: Callable[[SearchParts], Iterator[IWebSearchProvider]]
    configured: Callable[[Settings], bool]
    paid: bool
    source_kinds: tuple[SourceKind, ...]
    label: str
    settings: tuple[str, ...]
    addresses: Callable[[Settings], Iterable[str]] = lambda settings: ()
    rpm: Callable[[Settings], float | None] = lambda settings: None
    report_rpm: float | None = None
    fallback: bool = False

    def missing_setting(self, settings: Settings) -> str | None:
        """The setting without which it cannot search; None where it can, or where it says so itself (documents)."""
        serves = self.configured(settings) or self.fallback or self.name == DOCUMENTS
        return None if serves else self.settings[0]


# --- the builders of the adapters -----------------------------------------------------------------------------------------


def _searxng(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.searxng_web_search import SearXNGWebSearchAdapter

    settings = parts.settings
    if not settings.SEARXNG_URL:
        yield UnconfiguredWebSearch(
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


def _bocha(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.bocha_web_search import BochaWebSearchAdapter

    settings = parts.settings
    yield BochaWebSearchAdapter(
        settings.BOCHA_API_KEY.get_secret_value(),
        base_url=settings.BOCHA_BASE_URL,
        timeout=settings.BOCHA_TIMEOUT_S,
        client=parts.resources.client(settings.BOCHA_BASE_URL, settings.BOCHA_TIMEOUT_S),
        redactor=parts.resources.redactor,
    )


def _brave(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.brave_web_search import BraveWebSearchAdapter

    settings = parts.settings
    yield BraveWebSearchAdapter(
        settings.BRAVE_API_KEY.get_secret_value(),
        base_url=settings.BRAVE_BASE_URL,
        timeout=settings.BRAVE_TIMEOUT_S,
        client=parts.resources.client(settings.BRAVE_BASE_URL, settings.BRAVE_TIMEOUT_S),
        redactor=parts.resources.redactor,
    )


def _documents(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    """A named folder, or the collection that was indexed, now or once it is made."""
    from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearch

    settings = parts.settings
    otherwise = "" if settings.DOCUMENTS_DIR or has_index(settings) else OR_A_FOLDER
    yield DocumentWebSearch(
        parts.folder_index or parts.retrieval,
        settings.DOCUMENTS_BASE_URL,
        parts.resources.redactor,
        otherwise,
        needs_words=settings.EMBEDDER == "wordllama",
    )


def _ddgs(parts: SearchParts) -> Iterator[IWebSearchProvider]:
    from modules.llm_platform.infrastructure.adapters.ddgs_web_search import DdgsWebSearchAdapter

    adapter = DdgsWebSearchAdapter(proxy=parts.settings.UPSTREAM_PROXY, redactor=parts.resources.redactor)
    parts.resources.closing(adapter.aclose)
    yield adapter


# --- the table ------------------------------------------------------------------------------------------------------------

SEARCH_PROVIDERS: tuple[SearchProviderSpec, ...] = (  # in the order of `auto`
    SearchProviderSpec(
        name=SEARXNG,
        build=_searxng,
        configured=lambda settings: bool(settings.SEARXNG_URL),
        paid=False,
        source_kinds=("web", "news", "academic"),
        label="SearXNG, a metasearch engine of your own",
        settings=(
            "SEARXNG_URL", "SEARXNG_USERNAME", "SEARXNG_PASSWORD", "SEARXNG_TIMEOUT_S", "SEARXNG_MAX_RESULTS",
            "SEARXNG_SAFESEARCH", "SEARXNG_ENGINES_WEB", "SEARXNG_ENGINES_NEWS", "SEARXNG_ENGINES_ACADEMIC", "SEARXNG_RPM",
        ),
        addresses=lambda settings: settings.SEARXNG_URL,
        rpm=lambda settings: settings.SEARXNG_RPM,
        report_rpm=REPORT_SEARXNG_RPM,
    ),
    SearchProviderSpec(
        name="brave",
        build=_brave,
        configured=lambda settings: bool(settings.BRAVE_API_KEY.get_secret_value()),
        paid=True,
        source_kinds=("web", "news"),
        label="Brave Search API",
        settings=("BRAVE_API_KEY", "BRAVE_BASE_URL", "BRAVE_TIMEOUT_S"),
        addresses=lambda settings: (settings.BRAVE_BASE_URL,),
    ),
    SearchProviderSpec(
        name="bocha",
        build=_bocha,
        configured=lambda settings: bool(settings.BOCHA_API_KEY.get_secret_value()),
        paid=True,
        source_kinds=("web",),
        label="Bocha AI web search",
        settings=("BOCHA_API_KEY", "BOCHA_BASE_URL", "BOCHA_TIMEOUT_S"),
        addresses=lambda settings: (settings.BOCHA_BASE_URL,),
    ),
    SearchProviderSpec(
        name=DOCUMENTS,
        build=_documents,
        configured=lambda settings: settings.DOCUMENTS_DIR is not None,
        paid=False,
        source_kinds=(DOCUMENTS,),
        label="a folder of your documents, or without one the index",
        settings=("DOCUMENTS_DIR", "DOCUMENTS_BASE_URL"),
        addresses=lambda settings: (str(settings.DOCUMENTS_DIR or ""),),
    ),
    SearchProviderSpec(
        name="ddgs",
        build=_ddgs,
        configured=lambda settings: False,
        paid=False,
        source_kinds=("web", "news"),
        label="public search engines, without a key",
        settings=(),
        fallback=True,
    ),
)  # fmt: skip


def spec_of(provider: str) -> SearchProviderSpec | None:
    """The row of a provider by its own name (`searxng-2` is one of SearXNG's); None for one that a caller brought."""
    name = _NUMBERED.sub("", provider)
    return next((spec for spec in SEARCH_PROVIDERS if spec.name == name), None)


def provider_names() -> tuple[str, ...]:
    """The names that SEARCH_PROVIDERS and `--provider` may hold."""
    return tuple(spec.name for spec in SEARCH_PROVIDERS)


# --- which of them are asked ----------------------------------------------------------------------------------------------


def check_providers(settings: Settings) -> None:
    """SettingsError when SEARCH_PROVIDERS names a provider that does not exist."""
    names = provider_names()
    if not set(settings.SEARCH_PROVIDERS) <= set(names):
        *others, last = map(repr, names)
        raise SettingsError(
            f"SEARCH_PROVIDERS must be {', '.join(others)} or {last}. Example: {example('SEARCH_PROVIDERS')}"
        )


def search_order(settings: Settings) -> tuple[str, ...]:
    """The providers in order: those that are named, else those that are configured, else the fallback; offline the
    documents, if there are any. SettingsError as `check_providers`.
    """
    check_providers(settings)
    configured = tuple(spec.name for spec in SEARCH_PROVIDERS if spec.configured(settings))
    fallback = tuple(spec.name for spec in SEARCH_PROVIDERS if spec.fallback)
    wanted = settings.SEARCH_PROVIDERS or configured or fallback
    if not settings.LLM_PLATFORM_OFFLINE:
        return wanted
    return (DOCUMENTS,) if DOCUMENTS in wanted or has_index(settings) else ()


def uses_fallback(settings: Settings) -> bool:
    """Whether nothing is configured, so that queries go to the provider that needs no key."""
    specs = map(spec_of, search_order(settings))
    return not settings.SEARCH_PROVIDERS and any(spec is not None and spec.fallback for spec in specs)


def has_index(settings: Settings) -> bool:
    """Whether there is an index that can be searched where no folder is named."""
    embedded = data_folder(settings) / INDEX_FOLDER / settings.QDRANT_COLLECTION
    made = embedded / ("current" if is_installed(STORE_PACKAGES) else "passages.sqlite3")
    return settings.QDRANT_URL is not None or made.is_file()


# --- wiring ---------------------------------------------------------------------------------------------------------------


def search_adapters(
    settings: Settings, resources: Resources, retrieval: RetrievalService, folder_index: FolderIndex | None
) -> SearchAdapters:
    """The adapters by name, in order; documents serve `sources: [documents]` even where no list names them."""
    names = search_order(settings)
    if not names:
        return {"offline": UnconfiguredWebSearch("offline", NOTHING_OFFLINE)}
    aside = (settings.DOCUMENTS_DIR is not None or has_index(settings)) and DOCUMENTS not in names
    parts = SearchParts(settings, resources, retrieval, folder_index)
    specs = filter(None, map(spec_of, (*names, *((DOCUMENTS,) if aside else ()))))
    return {provider.name: provider for spec in specs for provider in spec.build(parts)}


def search_paces(settings: Settings, adapters: SearchAdapters) -> Paces:
    """How fast each service may be asked, whoever asks it."""
    return {
        name: RateLimiter(_rpm(name, settings) or _report_rpm(name), MINUTE_S, at_once=SEARCHES_AT_ONCE)
        for name in adapters
        if name != DOCUMENTS
    }


def web_search_provider(
    settings: Settings, adapters: SearchAdapters, paces: Paces, cache: ICache[Any]
) -> IWebSearchProvider:
    """What searches: the adapters with their policies, each kind of source sent to who serves it."""

    def paced(adapter: IWebSearchProvider) -> IWebSearchProvider:
        limited = _rpm(adapter.name, settings) is not None
        return ThrottledWebSearch(adapter, paces[adapter.name]) if limited else adapter

    return _search_chain(settings, adapters, cache, paced)


def report_search_provider(
    settings: Settings, adapters: SearchAdapters, paces: Paces, cache: ICache[Any], ordinary: IWebSearchProvider
) -> IWebSearchProvider:
    """The same services at the pace of a report, with the same cache; `ordinary` itself where it stands in for all."""

    def paced(adapter: IWebSearchProvider) -> IWebSearchProvider:
        return ThrottledWebSearch(adapter, paces[adapter.name], longest_wait_s=REPORT_WAIT_S)

    overridden = any(ordinary is adapter for adapter in adapters.values())
    return ordinary if overridden else _search_chain(settings, adapters, cache, paced)


def _rpm(provider: str, settings: Settings) -> float | None:
    spec = spec_of(provider)
    return spec.rpm(settings) if spec else None


def _report_rpm(provider: str) -> float | None:
    spec = spec_of(provider)
    return spec.report_rpm if spec else None


def _search_chain(
    settings: Settings,
    adapters: SearchAdapters,
    cache: ICache[Any],
    paced: Callable[[IWebSearchProvider], IWebSearchProvider],
) -> IWebSearchProvider:
    def policies(adapter: IWebSearchProvider) -> IWebSearchProvider:
        if adapter.name == DOCUMENTS:
            return adapter  # local: nothing to try again, and a file may change at any time
        retried = RetriedWebSearch(paced(adapter))
        return CachedWebSearch(retried, cache, settings.CACHE_TTL_S) if settings.CACHE_TTL_S > 0 else retried

    named = search_order(settings)
    wired = {name: policies(adapter) for name, adapter in adapters.items()}
    web = [provider for name, provider in wired.items() if name != DOCUMENTS or DOCUMENTS in named]
    failover = web[0] if len(web) == 1 else FailoverWebSearch(web)
    documents = wired.get(DOCUMENTS)
    return BySourceWebSearch(None if failover is documents else failover, documents)


# --- what others want to know about them ----------------------------------------------------------------------------------


def search_addresses(settings: Settings) -> tuple[str, ...]:
    """Where the providers are asked: with another address, what was found is another's."""
    return tuple(address for spec in SEARCH_PROVIDERS for address in spec.addresses(settings))


def searxng_names(adapters: SearchAdapters) -> list[str]:
    """The instances of SearXNG among the adapters."""
    return [name for name in adapters if (spec := spec_of(name)) and spec.name == SEARXNG]


def search_patients(settings: Settings, adapters: SearchAdapters) -> list[SearchProviderCheck]:
    """The adapters as `doctor` examines them."""
    fallback = uses_fallback(settings)
    return [_patient(name, adapter, settings, fallback=fallback) for name, adapter in adapters.items()]


def _patient(name: str, adapter: IWebSearchProvider, settings: Settings, *, fallback: bool) -> SearchProviderCheck:
    spec = spec_of(name)
    if spec is None:  # nobody knows what a search of a caller's own provider costs
        return SearchProviderCheck(adapter, paid=not isinstance(adapter, UnconfiguredWebSearch))
    missing = spec.missing_setting(settings)
    return SearchProviderCheck(
        adapter,
        paid=spec.paid,
        finds=name != DOCUMENTS,
        configured=not fallback or not spec.fallback,
        sources=spec.source_kinds,
        mistake=f"SEARCH_PROVIDERS names it, and it cannot search: set {missing}" if missing else "",
    )
