"""Equal calls share one call while it runs, and caches keep what came of it (docs/reference/settings.md).

Failures are never cached. Processes that share a cache share a lock too: of equal calls at once, one process does the work.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, Generic

from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.egress_log import EgressLog, current_egress_log, log_cached, record_sent_by
from modules.llm_platform.domain.metrics import CACHE_REQUESTS
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.cache import Value as Entry
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.domain.single_flight import SingleFlight, emit_all


class SingleFlightLLM(ILLMProvider):
    """Equal requests for a complete answer at the same time are one call; those that join it spend nothing.

    For prompts of the platform (a plan). Streams, and the chats of users, who expect an answer of their own, pass through.
    """

    def __init__(self, provider: ILLMProvider) -> None:
        self.name = provider.name
        self.model = provider.model
        self._provider = provider
        self._flights: SingleFlight[LLMResponse] = SingleFlight()

    async def generate(self, request: LLMRequest) -> LLMResponse:
        key = request.model_dump_json()  # a request with a JSON schema has no hash
        answer, has_joined = await self._flights.run(key, partial(self._provider.generate, request))
        return answer.model_copy(update={"spent": NOTHING_SPENT}) if has_joined else answer

    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        return self._provider.stream(request)


class SharedSynthesizer(StreamingSynthesizer):
    """Writes one text at a time for equal requests over equal sources, and caches it for `ttl_s` seconds.

    The key holds all that shapes the text: the request, the writer's name and version, and `version` for what the caller
    knows of it (the models). Only a complete text with nothing degraded is stored; without a `cache` none is. A text that
    comes from the cache, or from the call of another caller, is marked as `cached` and spends nothing.
    """

    def __init__(
        self,
        writer: ISynthesizer,
        cache: ICache[dtos.Synthesis] | None = None,
        ttl_s: float = 0.0,
        version: str = "",
        lock: IKeyLock = NO_KEY_LOCK,
    ) -> None:
        self.name = writer.name
        self.version = writer.version
        self.writes_reports = writer.writes_reports
        self._writer = writer
        self._cache = cache if ttl_s > 0 else None
        self._lock = lock
        self._ttl_s = ttl_s
        self._version = version
        self._flights: SingleFlight[dtos.SynthesisPart] = SingleFlight()

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[dtos.SynthesisPart]:
        key = self._key(request)
        start = partial(request.stream_with, self._writer)
        if self._cache is not None:
            start = partial(self._cached_or_written, key, request, self._cache)
        async with aclosing(self._flights.stream(key, partial(emit_all, start))) as parts:
            async for part, has_joined, _ in parts:
                yield _reused(part) if has_joined and isinstance(part, dtos.Synthesis) else part

    async def _cached_or_written(
        self, key: str, request: SynthesisRequest, cache: ICache[dtos.Synthesis]
    ) -> AsyncIterator[dtos.SynthesisPart]:
        """What is cached, what another process has written meanwhile, or what the writer writes."""
        hit = await _entry(cache, key)
        if hit is None:
            async with self._lock.hold(key) as has_waited:
                hit = await _entry(cache, key) if has_waited else None
                if hit is None:
                    egress_log = EgressLog(current_egress_log())
                    written = record_sent_by(request.stream_with(self._writer), egress_log)
                    async with aclosing(written) as parts:  # type: ignore[type-var]  # async generators
                        async for part in parts:
                            if isinstance(part, dtos.Synthesis) and part.finish_reason == "stop" and not part.degraded:
                                entry = part.model_copy(update={"sent_to": egress_log.sent()})
                                await cache.set(key, entry, self._ttl_s)
                            yield part
                    return
        yield dtos.SynthesisToken(text=hit.text)
        yield _reused(hit)

    def _key(self, request: SynthesisRequest) -> str:
        sources = [
            (each.index, each.url, each.title, each.published, _text_digest(each.text)) for each in request.sources
        ]
        text = (request.question, list(request.questions), sources, request.language)
        wishes = (request.max_tokens, request.instructions, request.context)
        return "synthesis:" + digest([text, wishes, self._version, self.version, self.name])


async def _entry(cache: ICache[dtos.Synthesis], key: str) -> dtos.Synthesis | None:
    hit = await cache.get(key)
    log_cached(hit.sent_to if hit else ())
    return hit


def _reused(synthesis: dtos.Synthesis) -> dtos.Synthesis:
    return synthesis.model_copy(update={"cached": True, "spent": NOTHING_SPENT})


class MeasuredCache(ICache[Entry], Generic[Entry]):
    """Counts the hits and misses of a cache under `name`."""

    def __init__(self, cache: ICache[Entry], name: str, metrics: IMetrics) -> None:
        self._cache = cache
        self._name = name
        self._metrics = metrics

    async def get(self, key: str) -> Entry | None:
        value = await self._cache.get(key)
        self._metrics.count(CACHE_REQUESTS, self._name, "miss" if value is None else "hit")
        return value

    async def set(self, key: str, value: Entry, ttl_s: float) -> None:
        await self._cache.set(key, value, ttl_s)


def digest(value: Any) -> str:
    """A key for a value that JSON can express."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
