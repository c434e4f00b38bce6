"""Caches of searches, written answers and citation verdicts (docs/reference/settings.md). Failures are never cached.

Processes that share a cache share a lock too: of equal searches and answers at once, one process does the work.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import (
    CitedClaim,
    JudgedClaims,
    Synthesis,
    SynthesisPart,
    SynthesisToken,
)
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.egress_log import (
    EgressLog,
    current_egress_log,
    log_cached,
    record_sent,
    record_sent_by,
)
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.synthesizer import BaseSynthesizer, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.policies.base import PageReaderPolicy, WebSearchPolicy
from modules.llm_platform.infrastructure.policies.single_flight import SingleFlight
from shared.exceptions import AppException

log = logging.getLogger(__name__)

DEGRADED_TTL_S: Final = 60.0  # a provider that failed may be back soon
EMPTY_TTL_S: Final = 300.0
MAX_PAGE_CHARS: Final = 100_000  # of a page for quick and deep answers
STALE_TTL_S: Final = 6 * 3600.0  # results of a search that may be shown when every provider fails
STALE = "every search provider failed ({code}): these results are {age} old"


class CachedWebSearch(WebSearchPolicy):
    """Caches the answers of `provider` for `ttl_s` seconds, except those that come from documents."""

    def __init__(
        self,
        provider: IWebSearchProvider,
        cache: ICache[WebSearchResponse],
        ttl_s: float,
        lock: IKeyLock = NO_KEY_LOCK,
    ) -> None:
        super().__init__(provider)
        self._cache = cache
        self._lock = lock
        self._ttl_s = ttl_s

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        key = search_key(self.name, request)
        if hit := await self._cached(key):
            return hit
        async with self._lock.hold(key) as has_waited:
            if has_waited and (hit := await self._cached(key)):
                return hit
            with record_sent() as egress_log:
                answer = await self._provider.search(request)
            if answer.provider != DOCUMENTS:
                # Marked when it is stored, so that a hit needs no copy.
                entry = answer.model_copy(update={"cached": True, "sent_to": egress_log.sent()})
                await self._cache.set(key, entry, self._ttl_of(answer))
            return answer

    async def _cached(self, key: str) -> WebSearchResponse | None:
        hit = await self._cache.get(key)
        log_cached(hit.sent_to if hit else ())
        return hit

    def _ttl_of(self, answer: WebSearchResponse) -> float:
        if answer.degraded:
            return min(self._ttl_s, DEGRADED_TTL_S)
        return self._ttl_s if answer.results else min(self._ttl_s, EMPTY_TTL_S)


def search_key(provider: str, request: WebSearchRequest) -> str:
    """A digest of the provider, the type of the request and all of its fields; the order inside of lists does not count."""
    fields = request.model_dump()
    for name in ("engines", "sources", "domains"):
        fields[name] = sorted(set(fields[name]))
    return _digest([provider, type(request).__name__, fields])


class StoredSearch(BaseModel):
    """A response and the time at which the provider gave it."""

    model_config = ConfigDict(frozen=True)

    response: WebSearchResponse
    stored_at: datetime


class StaleWebSearch(WebSearchPolicy):
    """When `provider` fails, its last response to the same request is returned, up to STALE_TTL_S old.

    `degraded` names the error and the age. Meant to wrap all providers together: the next provider is better than an old
    response. Only responses with results are stored, and none of documents.
    """

    def __init__(
        self,
        provider: IWebSearchProvider,
        cache: ICache[StoredSearch],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(provider)
        self._cache = cache
        self._now = now

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            with record_sent() as egress_log:
                answer = await self._provider.search(request)
        except WebSearchRequestError:
            raise
        except AppException as error:
            stored = await self._cache.get(search_key(self.name, request))
            if stored is None:
                raise
            log_cached(stored.response.sent_to)
            log.warning("stale search results served", extra={"provider": self.name, "error": error.code})
            return self._stale(stored, error)
        if answer.results and not answer.cached and DOCUMENTS not in answer.provider:
            entry = answer.model_copy(update={"sent_to": egress_log.sent()})
            await self._cache.set(
                search_key(self.name, request), StoredSearch(response=entry, stored_at=self._now()), STALE_TTL_S
            )
        return answer

    def _stale(self, stored: StoredSearch, error: AppException) -> WebSearchResponse:
        minutes = int((self._now() - stored.stored_at).total_seconds() // 60)
        age = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
        entry = Degraded.of(self.name, error).model_copy(update={"reason": STALE.format(code=error.code, age=age)})
        return stored.response.model_copy(update={"cached": True}).with_degraded([entry])


class CachedPageReader(PageReaderPolicy):
    """Caches the pages of `reader` for `ttl_s` seconds, each cut to MAX_PAGE_CHARS. Equal addresses at once are read once."""

    def __init__(self, reader: IPageReader, cache: ICache[Page], ttl_s: float) -> None:
        super().__init__(reader)
        self._cache = cache
        self._ttl_s = ttl_s
        self._flights: SingleFlight[Page] = SingleFlight()

    async def read(self, url: str) -> Page:
        address = canonical_url(url)
        key = _digest([self.name, address])
        if self._ttl_s > 0 and (hit := await self._cache.get(key)):
            return hit
        page, _ = await self._flights.run(address, lambda: self._read(url, key))
        return page

    async def _read(self, url: str, key: str) -> Page:
        page = await self._reader.read(url)
        if len(page.text) > MAX_PAGE_CHARS:
            page = page.model_copy(update={"text": page.text[:MAX_PAGE_CHARS]})
        if self._ttl_s > 0:
            await self._cache.set(key, page, self._ttl_s)
        return page


class CachedSynthesizer(BaseSynthesizer):
    """Caches the texts of `writer` for `ttl_s` seconds; with 0 it only passes calls on.

    The key holds all that shapes the text: the request, the writer's name and version, and `version` for what the caller
    knows of it (the models). Only a complete text with nothing degraded is stored. A hit spends nothing.
    """

    def __init__(
        self,
        writer: ISynthesizer,
        cache: ICache[Synthesis],
        ttl_s: float,
        version: str,
        lock: IKeyLock = NO_KEY_LOCK,
    ) -> None:
        self.name = writer.name
        self.version = writer.version
        self.writes_reports = writer.writes_reports
        self._writer = writer
        self._cache = cache
        self._lock = lock
        self._ttl_s = ttl_s
        self._version = version

    async def write(self, request: SynthesisRequest) -> Synthesis:
        if self._ttl_s <= 0:
            return await request.synthesize_with(self._writer)
        key = self._key(request)
        if hit := await self._cached(key):
            return hit
        async with self._lock.hold(key) as has_waited:
            if has_waited and (hit := await self._cached(key)):
                return hit
            with record_sent() as egress_log:
                synthesis = await request.synthesize_with(self._writer)
            await self._store(key, synthesis, egress_log)
            return synthesis

    async def write_stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        if self._ttl_s <= 0:
            async with aclosing(request.stream_with(self._writer)) as parts:  # type: ignore[type-var]  # async generators
                async for part in parts:
                    yield part
            return
        key = self._key(request)
        hit = await self._cached(key)
        written = self._replay(hit) if hit else self._write_first(key, request)
        async with aclosing(written) as parts:  # type: ignore[type-var]  # async generators
            async for part in parts:
                yield part

    async def _write_first(self, key: str, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        """Yield what the writer writes, or what another process has written meanwhile."""
        async with self._lock.hold(key) as has_waited:
            hit = await self._cached(key) if has_waited else None
            egress_log = EgressLog(current_egress_log())
            written = self._replay(hit) if hit else record_sent_by(request.stream_with(self._writer), egress_log)
            async with aclosing(written) as parts:  # type: ignore[type-var]  # async generators
                async for part in parts:
                    if hit is None and isinstance(part, Synthesis):
                        await self._store(key, part, egress_log)
                    yield part

    async def _replay(self, hit: Synthesis) -> AsyncIterator[SynthesisPart]:
        yield SynthesisToken(text=hit.text)
        yield hit

    async def _cached(self, key: str) -> Synthesis | None:
        synthesis = await self._cache.get(key)
        log_cached(synthesis.sent_to if synthesis else ())
        return synthesis.model_copy(update={"cached": True, "spent": NOTHING_SPENT}) if synthesis else None

    async def _store(self, key: str, synthesis: Synthesis, egress_log: EgressLog) -> None:
        if synthesis.finish_reason == "stop" and not synthesis.degraded:
            entry = synthesis.model_copy(update={"sent_to": egress_log.sent()})
            await self._cache.set(key, entry, self._ttl_s)

    def _key(self, request: SynthesisRequest) -> str:
        sources = [
            (each.index, each.url, each.title, each.published, _text_digest(each.text)) for each in request.sources
        ]
        text = (request.question, list(request.questions), sources, request.language)
        limits = (request.max_tokens, request.instructions)
        return "synthesis:" + _digest([text, limits, self._version, self.version, self.name])


class CachedCitationJudge(ICitationJudge):
    """Caches verdicts for `ttl_s` seconds, so that an answer from the cache is not judged, and paid for, a second time.

    The key holds the question, the claims with their quotes, the judge's name and version, and `version` for what the
    caller knows of it (the models). An answer without any verdict is not stored.
    """

    def __init__(self, judge: ICitationJudge, cache: ICache[JudgedClaims], ttl_s: float, version: str = "") -> None:
        self.name = judge.name
        self.version = judge.version
        self._judge = judge
        self._cache = cache
        self._ttl_s = ttl_s
        self._version = version

    async def judge(self, question: str, claims: Sequence[CitedClaim]) -> JudgedClaims:
        shown = [(each.claim, each.quote, each.title) for each in claims]
        key = "judged:" + _digest([question, shown, self.version, self.name, self._version])
        if hit := await self._cache.get(key):
            log_cached(hit.sent_to)
            return hit
        with record_sent() as egress_log:
            judged = await self._judge.judge(question, claims)
        if any(judged.verdicts):
            hit = judged.model_copy(update={"spent": NOTHING_SPENT, "degraded": (), "sent_to": egress_log.sent()})
            await self._cache.set(key, hit, self._ttl_s)
        return judged


def _digest(value: Any) -> str:
    return _text_digest(json.dumps(value, sort_keys=True, separators=(",", ":")))


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
