"""The search provider of the settings: the adapters, their limits and caches, as one chain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind, WebSearchResponse
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.web_search import MAX_CONCURRENT_SEARCHES, IWebSearchProvider
from modules.llm_platform.infrastructure.cache.from_settings import SharedState
from modules.llm_platform.infrastructure.limits.upstream_guard import SEARCH, UpstreamGuard
from modules.llm_platform.infrastructure.limits.upstream_limits import MINUTE_S, THE_LIMIT, RateLimiter
from modules.llm_platform.infrastructure.limits.upstream_states import (
    MAX_REPORT_WAIT_S,
    RateLimiters,
    UpstreamStates,
    make_upstream_states,
)
from modules.llm_platform.infrastructure.resources import Resources, has_documents
from modules.llm_platform.infrastructure.search import web_search_chain as web_search
from modules.llm_platform.infrastructure.search.from_settings.providers import (
    SEARXNG,
    SearchParts,
    find_spec,
    search_order,
)
from modules.llm_platform.infrastructure.unconfigured import Unconfigured, unconfigured_web_search
from shared.config import Settings

NOTHING_OFFLINE = (
    "Offline mode: only documents can be searched. Set DOCUMENTS_DIR, pass --documents DIR, or run `llm-platform index`"
)

MAX_SHARED_SEARCH_S = 15.0  # wait for the same search of another process

SearchAdapters = Mapping[str, IWebSearchProvider]


def build_search_adapters(
    settings: Settings, resources: Resources, documents: Callable[[], IWebSearchProvider]
) -> SearchAdapters:
    """Return the adapters by name, in order. Existing documents are always included, for `sources: [documents]`."""
    names = search_order(settings)
    if not names:
        return {"offline": unconfigured_web_search("offline", NOTHING_OFFLINE)}
    if has_documents(settings) and DOCUMENTS not in names:
        names = (*names, DOCUMENTS)
    parts = SearchParts(settings, resources, documents)
    return {provider.name: provider for spec in map(find_spec, names) if spec for provider in spec.build(parts)}


def list_source_kinds(adapters: SearchAdapters) -> dict[str, tuple[SourceKind, ...]]:
    """Return the sources that each configured adapter supports. An adapter of the caller searches the web."""
    configured = (name for name, adapter in adapters.items() if not isinstance(adapter, Unconfigured))
    return {name: spec.source_kinds if (spec := find_spec(name)) else ("web",) for name in configured}


def list_searchable_kinds(settings: Settings, adapters: SearchAdapters) -> tuple[SourceKind, ...]:
    """Return the kinds of sources that can be searched, with documents if there are any."""
    served = {kind for kinds in list_source_kinds(adapters).values() for kind in kinds}
    if not has_documents(settings):
        served.discard(DOCUMENTS)
    return tuple(kind for kind in get_args(SourceKind) if kind in served)


def list_searxng_names(adapters: SearchAdapters) -> list[str]:
    """Return the adapters that are instances of SearXNG."""
    return [name for name in adapters if (spec := find_spec(name)) and spec.name == SEARXNG]


def build_search_upstreams(adapters: SearchAdapters, metrics: IMetrics) -> UpstreamStates:
    """Return the circuits, retry budgets and call limits of all providers but the documents."""
    return make_upstream_states((name for name in adapters if name != DOCUMENTS), metrics)


@dataclass(frozen=True, slots=True)
class SearchPolicies:
    """The policies that the chains of searches and of reports share. `caches` is None if nothing is cached."""

    limiters: RateLimiters
    upstreams: UpstreamStates
    caches: web_search.SearchCaches | None


def build_search_policies(settings: Settings, upstreams: UpstreamStates, shared: SharedState) -> SearchPolicies:
    limiters = {
        name: RateLimiter(_find_report_rpm(name, settings), MINUTE_S, max_concurrent=MAX_CONCURRENT_SEARCHES)
        for name in upstreams
    }
    if settings.CACHE_TTL_S <= 0:
        return SearchPolicies(limiters, upstreams, None)
    searches, stale = shared.cache("search", WebSearchResponse), shared.cache("stale", web_search.StoredSearch)
    lock = shared.lock("search", MAX_SHARED_SEARCH_S)
    return SearchPolicies(limiters, upstreams, web_search.SearchCaches(settings.CACHE_TTL_S, searches, stale, lock))


def _find_rpm(provider: str, settings: Settings) -> tuple[float | None, str]:
    """Return the maximum of searches per minute, and the setting that raises it."""
    spec = find_spec(provider)
    if spec is None or spec.rpm_setting is None:
        return None, THE_LIMIT
    return getattr(settings, spec.rpm_setting), spec.rpm_setting


def _find_report_rpm(provider: str, settings: Settings) -> float | None:
    spec = find_spec(provider)
    return _find_rpm(provider, settings)[0] or (spec.report_rpm if spec else None)


def build_search_provider(settings: Settings, adapters: SearchAdapters, policies: SearchPolicies) -> IWebSearchProvider:
    """Return the adapters with their policies as one provider that selects the adapter by source."""

    def guard(name: str) -> UpstreamGuard:
        upstream, (rpm, setting) = policies.upstreams[name], _find_rpm(name, settings)
        if rpm is not None:
            return upstream.guard(SEARCH, policies.limiters[name], setting=setting)
        return upstream.guard(SEARCH, upstream.calls, max_closed_s=SEARCH.max_pause_s)

    return _build_chain(settings, adapters, policies, guard)


def build_report_search_provider(
    settings: Settings, adapters: SearchAdapters, policies: SearchPolicies, ordinary: IWebSearchProvider
) -> IWebSearchProvider:
    """Return the same provider with the rate limits of reports, or `ordinary` if that replaces all adapters."""

    def guard(name: str) -> UpstreamGuard:
        limiter, (_, setting) = policies.limiters[name], _find_rpm(name, settings)
        return policies.upstreams[name].guard(SEARCH, limiter, max_wait_s=MAX_REPORT_WAIT_S, setting=setting)

    is_overridden = any(ordinary is adapter for adapter in adapters.values())
    return ordinary if is_overridden else _build_chain(settings, adapters, policies, guard)


def _build_chain(
    settings: Settings, adapters: SearchAdapters, policies: SearchPolicies, guard: Callable[[str], UpstreamGuard]
) -> IWebSearchProvider:
    documents = adapters.get(DOCUMENTS)
    web = [
        web_search.SearchUpstream(adapter, None if adapter is documents else guard(name))
        for name, adapter in adapters.items()
        if adapter is not documents or DOCUMENTS in search_order(settings)
    ]
    only_documents = [upstream.provider for upstream in web] == [documents]
    return web_search.WebSearchChain(() if only_documents else web, documents, policies.caches)
