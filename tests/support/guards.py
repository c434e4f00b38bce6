"""Providers with the guard of their upstream, as the wiring builds them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.limits.daily_budget import ModelBudget
from modules.llm_platform.infrastructure.limits.upstream_guard import MODEL, PAGE_READER, SEARCH, UpstreamGuard
from modules.llm_platform.infrastructure.limits.upstream_limits import RateLimiter, RetryBudget
from modules.llm_platform.infrastructure.models.llm_router import LLMRouter
from modules.llm_platform.infrastructure.models.upstream_model import UpstreamModel
from modules.llm_platform.infrastructure.pages.upstream_page_reader import UpstreamPageReader
from modules.llm_platform.infrastructure.search.web_search_chain import SearchCaches, SearchUpstream, WebSearchChain

UNLIMITED = 100  # calls at once


def limiter_of(limiter: RateLimiter | None) -> RateLimiter:
    return limiter or RateLimiter(None, max_concurrent=UNLIMITED)


def guarded_search(
    provider: IWebSearchProvider, limiter: RateLimiter | None = None, caches: SearchCaches | None = None, **options: Any
) -> WebSearchChain:
    """Return one provider as the only one of the web; `options` as of UpstreamGuard."""
    return search_chain(provider, limiter=limiter, caches=caches, **options)


def search_chain(
    *providers: IWebSearchProvider,
    documents: IWebSearchProvider | None = None,
    limiter: RateLimiter | None = None,
    caches: SearchCaches | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    **options: Any,
) -> WebSearchChain:
    """Return the providers of the web in order; each has a guard with these `options`."""
    web = [
        SearchUpstream(provider, UpstreamGuard(SEARCH, provider.name, limiter_of(limiter), **options))
        for provider in providers
    ]
    return WebSearchChain(web, documents, caches, now)


def cached_search(provider: IWebSearchProvider, cache: ICache[Any], ttl_s: float) -> WebSearchChain:
    return guarded_search(provider, caches=SearchCaches(ttl_s, cache))


def guarded_model(
    provider: ILLMProvider, limiter: RateLimiter | None = None, budget: ModelBudget | None = None, **options: Any
) -> UpstreamModel:
    """`options` as of UpstreamGuard."""
    return UpstreamModel(provider, UpstreamGuard(MODEL, provider.name, limiter_of(limiter), **options), budget)


def retried_model(provider: ILLMProvider, retries: RetryBudget | None = None, **options: Any) -> UpstreamModel:
    return guarded_model(provider, retries=retries or RetryBudget(), **options)


def guarded_reader(reader: IPageReader, limiter: RateLimiter | None = None, **options: Any) -> UpstreamPageReader:
    """`options` as of UpstreamGuard."""
    return UpstreamPageReader(reader, UpstreamGuard(PAGE_READER, reader.name, limiter_of(limiter), **options))


def router(*providers: ILLMProvider) -> LLMRouter:
    """Failover over the providers, each behind a guard without limits."""
    return LLMRouter(
        [provider if isinstance(provider, UpstreamModel) else guarded_model(provider) for provider in providers]
    )
