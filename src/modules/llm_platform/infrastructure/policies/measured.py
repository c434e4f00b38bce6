"""Metrics and spans of upstreams, metrics of caches: each policy counts the calls of the object that it wraps."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Generic, Self

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, Spending
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.metrics import (
    CACHE_REQUESTS,
    LLM_COST,
    LLM_TOKENS,
    UPSTREAM_DURATION,
    UPSTREAM_REQUESTS,
    result_label,
)
from modules.llm_platform.domain.ports.cache import ICache, Value
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.tracing import NO_SPAN, ISpan, run_within, traced
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.spans import (
    COMPLETION_TOKENS,
    COST,
    MODEL,
    PROMPT_TOKENS,
    UPSTREAM,
    UPSTREAM_KIND,
    UPSTREAM_SPAN,
)
from modules.llm_platform.infrastructure.policies.base import LLMPolicy, PageReaderPolicy, WebSearchPolicy

log = logging.getLogger(__name__)


class _Call:
    """Context manager around one call of an upstream: counts its result and its duration, and is its span."""

    __slots__ = ("_began", "_kind", "_metrics", "_traced", "_upstream", "span")

    def __init__(self, metrics: IMetrics, kind: str, upstream: str, *, is_stream: bool = False) -> None:
        self._metrics = metrics
        self._kind = kind
        self._upstream = upstream
        self._traced = traced(UPSTREAM_SPAN, f"{kind} {upstream}", runs=not is_stream)

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self.span = span = self._traced.__enter__().span
        if span is not NO_SPAN:
            span.set(UPSTREAM_KIND, self._kind)
            span.set(UPSTREAM, self._upstream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        duration_s = time.perf_counter() - self._began
        result = result_label(error)
        self._metrics.count(UPSTREAM_REQUESTS, self._kind, self._upstream, result)
        self._metrics.observe(UPSTREAM_DURATION, duration_s, self._kind, self._upstream)
        if log.isEnabledFor(logging.DEBUG):
            fields = {"kind": self._kind, "upstream": self._upstream, "result": result}
            log.debug("upstream call", extra={**fields, "duration_ms": round(duration_s * 1000, 1)})
        self._traced.__exit__(kind, error, trace)


class MeasuredWebSearch(WebSearchPolicy):
    """Counts the searches of an adapter."""

    def __init__(self, provider: IWebSearchProvider, metrics: IMetrics) -> None:
        super().__init__(provider)
        self._metrics = metrics

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        with _Call(self._metrics, "search", self.name):
            return await self._provider.search(request)


class MeasuredPageReader(PageReaderPolicy):
    """Counts the reads of an adapter."""

    def __init__(self, reader: IPageReader, metrics: IMetrics) -> None:
        super().__init__(reader)
        self._metrics = metrics

    async def read(self, url: str) -> Page:
        with _Call(self._metrics, "page_reader", self.name):
            return await self._reader.read(url)


class MeasuredLLM(LLMPolicy):
    """Counts the calls of a model, with their tokens and their cost; a failed call may have cost something too."""

    def __init__(self, provider: ILLMProvider, metrics: IMetrics) -> None:
        super().__init__(provider)
        self._metrics = metrics

    async def generate(self, request: LLMRequest) -> LLMResponse:
        with _Call(self._metrics, "llm", self.name) as call:
            try:
                answer = await self._provider.generate(request)
            except LLMException as error:
                self._count(call.span, error.spent)
                raise
            self._count(call.span, answer.spent)
        return answer

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        with _Call(self._metrics, "llm", self.name, is_stream=True) as call:
            stream = self._provider.stream(request)
            if call.span is not NO_SPAN:
                stream = run_within(call.span, stream)
            try:
                async with aclosing(stream) as parts:  # type: ignore[type-var]
                    async for part in parts:
                        if isinstance(part, LLMResponse):
                            self._count(call.span, part.spent)
                        yield part
            except LLMException as error:
                self._count(call.span, error.spent)
                raise

    def _count(self, span: ISpan, spent: Spending) -> None:
        model = self.model or ""
        if span is not NO_SPAN:
            span.set(MODEL, model)
            span.set(PROMPT_TOKENS, spent.prompt_tokens)
            span.set(COMPLETION_TOKENS, spent.completion_tokens)
            if spent.cost_usd is not None:
                span.set(COST, spent.cost_usd)
        self._metrics.count(LLM_TOKENS, self.name, model, "prompt", by=spent.prompt_tokens)
        self._metrics.count(LLM_TOKENS, self.name, model, "completion", by=spent.completion_tokens)
        if spent.cost_usd is not None:
            self._metrics.count(LLM_COST, self.name, model, by=spent.cost_usd)


class MeasuredCache(ICache[Value], Generic[Value]):
    """Counts the hits and misses of a cache under `name`."""

    def __init__(self, cache: ICache[Value], name: str, metrics: IMetrics) -> None:
        self._cache = cache
        self._name = name
        self._metrics = metrics

    async def get(self, key: str) -> Value | None:
        value = await self._cache.get(key)
        self._metrics.count(CACHE_REQUESTS, self._name, "miss" if value is None else "hit")
        return value

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        await self._cache.set(key, value, ttl_s)
