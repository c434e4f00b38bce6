"""Share one call of the writer among equal requests, and cache its text (docs/reference/settings.md).

Failures are never cached. Processes that share a cache also share a lock, so only one of them writes a text.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import fields
from functools import partial

from modules.llm_platform.domain.concurrency.single_flight import SingleFlight, emit_all
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.domain.privacy.egress_log import EgressLog, current_egress_log, log_cached, record_sent_by
from modules.llm_platform.domain.research.store_key import digest


class SharedSynthesizer(StreamingSynthesizer):
    """Calls the writer once for equal requests with equal sources, and caches the text for `ttl_s` seconds.

    - The cache key has everything that shapes the text: the request, the name and version of the writer, and `version`,
      which names the models.
    - Only a complete text with nothing degraded is cached.
    - A text from the cache or from the call of another caller is marked as `cached` and costs nothing.
    """

    def __init__(
        self,
        writer: ISynthesizer,
        cache: ICache[Synthesis] | None = None,
        ttl_s: float = 0.0,
        version: str = "",
        lock: IKeyLock = NO_KEY_LOCK,
    ) -> None:
        self.name, self.is_free, self.is_small = writer.name, writer.is_free, writer.is_small
        self.version = writer.version
        self.writes_reports = writer.writes_reports
        self._writer = writer
        self._cache = cache if ttl_s > 0 else None
        self._lock = lock
        self._ttl_s = ttl_s
        self._version = version
        self._flights: SingleFlight[SynthesisPart] = SingleFlight()

    def begin_loading(self) -> None:
        self._writer.begin_loading()

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        key = self._make_key(request)
        start = partial(request.stream_with, self._writer)
        if self._cache is not None:
            start = partial(self._read_or_write, key, request, self._cache)
        async with aclosing(self._flights.stream(key, partial(emit_all, start))) as parts:
            async for part, has_joined, _ in parts:
                yield _mark_reused(part) if has_joined and isinstance(part, Synthesis) else part

    async def _read_or_write(
        self, key: str, request: SynthesisRequest, cache: ICache[Synthesis]
    ) -> AsyncIterator[SynthesisPart]:
        """Yield the cached text. If there is none, wait for a process that is writing it, or else let the writer write it."""
        hit = await _find_entry(cache, key)
        if hit is None:
            async with self._lock.hold(key) as has_waited:
                hit = await _find_entry(cache, key) if has_waited else None
                if hit is None:
                    egress_log = EgressLog(current_egress_log())
                    written = record_sent_by(request.stream_with(self._writer), egress_log)
                    async with aclosing(written) as parts:  # type: ignore[type-var]  # async generators
                        async for part in parts:
                            if isinstance(part, Synthesis) and part.finish_reason == "stop" and not part.degraded:
                                entry = part.model_copy(update={"sent_to": egress_log.sent()})
                                await cache.set(key, entry, self._ttl_s)
                            yield part
                    return
        yield SynthesisToken(text=hit.text, is_doubtful=hit.is_doubtful)
        yield _mark_reused(hit)

    def _make_key(self, request: SynthesisRequest) -> str:
        """Return the cache key. It has all fields of the request but `is_streamed`, so it needs no change for a new field."""
        shaping = {field.name: getattr(request, field.name) for field in fields(request)}
        del shaping["is_streamed"]  # it only changes how the text is divided into parts
        shaping["sources"] = [_digest_text(source) for source in request.sources]
        return "synthesis:" + digest([shaping, self._version, self.version, self.name])


def _digest_text(source: Source) -> Source:
    """Return the source with a digest instead of its text, which may be long, and without `read_at` and `media_type`."""
    return source.model_copy(update={"text": source.sha256, "read_at": None, "media_type": None})


async def _find_entry(cache: ICache[Synthesis], key: str) -> Synthesis | None:
    hit = await cache.get(key)
    log_cached(hit.sent_to if hit else ())
    return hit


def _mark_reused(synthesis: Synthesis) -> Synthesis:
    return synthesis.model_copy(update={"cached": True, "spent": NOTHING_SPENT})
