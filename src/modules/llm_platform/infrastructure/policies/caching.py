"""Equal calls share one call while it runs, and caches keep what came of it (docs/reference/settings.md).

Failures are never cached. Processes that share a cache share a lock too: of equal calls at once, one process does the work.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from modules.llm_platform.domain.deadline import Deadline, current_deadline, set_deadline
from modules.llm_platform.domain.dtos import research_dtos as dtos
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.egress_log import (
    EgressLog,
    current_egress_log,
    log_cached,
    record_sent,
    record_sent_by,
)
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.metrics import CACHE_REQUESTS
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.cache import Value as Entry
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.domain.task_group import cancel_and_wait
from shared.exceptions import AppException

Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class _Flight(Generic[Value]):
    """One call in a task of its own, the parts that it has produced, and the number of callers that wait for it."""

    deadline: Deadline
    parts: list[Value] = field(default_factory=list)
    waiters: int = 0
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # replaced with each part of a stream
    task: asyncio.Task[None] = field(init=False)


class SingleFlight(Generic[Value]):
    """Callers with equal keys share one call while it runs.

    The call runs in its own task, with the context variables of the first caller and the latest deadline of all callers. It
    is cancelled, and its end awaited, when the last caller leaves; until then a cancelled caller, the first one too, changes
    nothing for the others. An error goes to all callers of that call. The next caller after its end starts a new call.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Value]] = {}

    async def run(self, key: Hashable, start: Callable[[], Awaitable[Value]]) -> tuple[Value, bool]:
        """The result, and whether this caller joined the call of another one, which accounts for its cost."""
        flight, has_joined = self._join(key, partial(_await_result, start))
        try:
            await asyncio.wait((flight.task,))
            if error := flight.task.exception():
                raise _shared(error) if has_joined else error
            return flight.parts[0], has_joined
        finally:
            await self._leave(key, flight)

    async def stream(
        self, key: Hashable, start: Callable[[], AsyncIterator[Value]]
    ) -> AsyncGenerator[tuple[Value, bool]]:
        """All parts of one stream from its beginning, each with the flag of `run`."""
        flight, has_joined = self._join(key, partial(_collect_parts, start))
        position = 0
        try:
            while position < len(flight.parts) or not flight.task.done():
                if position == len(flight.parts):
                    await flight.progress.wait()
                else:
                    position += 1
                    yield flight.parts[position - 1], has_joined
            if error := flight.task.exception():
                raise _shared(error) if has_joined else error
        finally:
            await self._leave(key, flight)

    def _join(
        self, key: Hashable, work: Callable[[_Flight[Value]], Coroutine[Any, Any, None]]
    ) -> tuple[_Flight[Value], bool]:
        """The running call with this key, or a new one, and whether it is another caller's."""
        flight = self._flights.get(key)
        has_joined = flight is not None and not flight.task.done()
        if flight is None or not has_joined:
            flight = self._flights[key] = _Flight(Deadline(current_deadline()))
            flight.task = asyncio.create_task(work(flight))
        else:
            flight.deadline.extend(current_deadline())
        flight.waiters += 1
        return flight, has_joined

    async def _leave(self, key: Hashable, flight: _Flight[Value]) -> None:
        flight.waiters -= 1
        if flight.waiters:
            return
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.task.done():
            await cancel_and_wait(flight.task)


async def _await_result(start: Callable[[], Awaitable[Value]], flight: _Flight[Value]) -> None:
    set_deadline(flight.deadline)
    flight.parts.append(await start())


async def _collect_parts(start: Callable[[], AsyncIterator[Value]], flight: _Flight[Value]) -> None:
    set_deadline(flight.deadline)
    flight.task.add_done_callback(lambda _: flight.progress.set())
    async with aclosing(start()) as parts:  # type: ignore[type-var]  # async generators
        async for part in parts:
            flight.parts.append(part)
            flight.progress.set()
            flight.progress = asyncio.Event()


def _shared(error: BaseException) -> BaseException:
    """The error for a caller that joined: a copy, because policies change the cost of an error, and it costs nothing."""
    if not isinstance(error, AppException):
        return error
    shared = copy.copy(error)
    shared.__cause__ = error.__cause__
    if isinstance(shared, LLMException):
        shared.spent = NOTHING_SPENT
    return shared


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
    """The same request over the same sources is written once at a time, and its text is cached for `ttl_s` seconds.

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
        async with aclosing(self._flights.stream(key, start)) as parts:
            async for part, has_joined in parts:
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
        limits = (request.max_tokens, request.instructions)
        return "synthesis:" + digest([text, limits, self._version, self.version, self.name])


async def _entry(cache: ICache[dtos.Synthesis], key: str) -> dtos.Synthesis | None:
    hit = await cache.get(key)
    log_cached(hit.sent_to if hit else ())
    return hit


def _reused(synthesis: dtos.Synthesis) -> dtos.Synthesis:
    return synthesis.model_copy(update={"cached": True, "spent": NOTHING_SPENT})


class CachedCitationJudge(ICitationJudge):
    """Caches verdicts for `ttl_s` seconds, so that an answer from the cache is not judged, and paid for, a second time.

    The key holds the question, the claims with their quotes, the judge's name and version, and `version` for what the
    caller knows of it (the models). An answer without any verdict is not stored.
    """

    def __init__(self, judge: ICitationJudge, cache: ICache[dtos.JudgedClaims], ttl_s: float, version: str = "") -> None:
        self.name = judge.name
        self.version = judge.version
        self._judge = judge
        self._cache = cache
        self._ttl_s = ttl_s
        self._version = version

    async def judge(self, question: str, claims: Sequence[dtos.CitedClaim]) -> dtos.JudgedClaims:
        shown = [(each.claim, each.quote, each.title) for each in claims]
        key = "judged:" + digest([question, shown, self.version, self.name, self._version])
        if hit := await self._cache.get(key):
            log_cached(hit.sent_to)
            return hit
        with record_sent() as egress_log:
            judged = await self._judge.judge(question, claims)
        if any(judged.verdicts):
            hit = judged.model_copy(update={"spent": NOTHING_SPENT, "degraded": (), "sent_to": egress_log.sent()})
            await self._cache.set(key, hit, self._ttl_s)
        return judged


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
