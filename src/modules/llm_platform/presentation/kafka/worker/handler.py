"""Compute exactly one outcome for the bytes of a request. Nothing here depends on a Kafka client."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, TypeVar

from modules.llm_platform.domain.concurrency.deadline import deadline_in, remaining_s
from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports import tracing
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.domain.telemetry.metrics import CANCELLED
from modules.llm_platform.domain.telemetry.spans import (
    MESSAGE_SPAN,
    OFFSET,
    OPERATION,
    PARTITION,
    REQUEST_ID,
    SYSTEM,
    TOPIC,
)
from modules.llm_platform.presentation.kafka.contract import requests
from modules.llm_platform.presentation.kafka.contract.outcomes import (
    OUTCOME_TOO_LARGE,
    UNEXPECTED_ERROR,
    DependencyName,
    Failure,
    IncomingRecord,
    Job,
    OutcomeBuilder,
    OutgoingRecord,
    describe_failure,
)
from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas, without_header
from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies
from shared.exceptions import AppException
from shared.logging import bind_request_id

if TYPE_CHECKING:
    from modules.llm_platform.application.rag.retrieval import RetrievalService
    from modules.llm_platform.application.services.answer_service import AnswerService

log = logging.getLogger(__name__)

RETRY_WAITS_S: Final = (0.5, 1.0, 2.0, 4.0)  # The waits between the tries of one request.
RETRY_JITTER: Final = 0.25  # A wait varies by this share, so that many requests do not retry at once.
STORE_RETRY_WAITS_S: Final = (0.1, 0.5, 2.0, 5.0)  # The waits for the outcome store. The last one repeats.
MAX_LOGGED_TRACE_CHARS: Final = 200
PARSED_AT_ONCE_BYTES: Final = 100_000  # Other requests and probes run in between: a megabyte takes up to half a second.
SMALL_RECORD_BYTES: Final = 64_000  # Every topic accepts a record of this size, whatever limit is configured.
# A successful request shows that these dependencies of its stage work. An answer may use only its context, and no index.
USED_DEPENDENCIES: Final[Mapping[dtos.RagStage, tuple[DependencyName, ...]]] = {
    "search": ("index", "embedder"),
    "answer": ("model",),
}

KeepFailed = Callable[[dtos.FailedRequest], Awaitable[None]]
Search = Callable[[dtos.RagSearch], Awaitable[dtos.RagHits]]
Answer = Callable[[dtos.RagQuestion], Awaitable[dtos.RagAnswer]]
Sleep = Callable[[float], Awaitable[None]]
SlotContext = AbstractAsyncContextManager[None]
OutcomeKey = tuple[dtos.RagStage, str, str]  # The stage, the request id and the tenant.
Result = TypeVar("Result")

NO_SLOT: Final[SlotContext] = nullcontext()


async def retry_until_deadline(call: Callable[[], Awaitable[Result]], timeout_s: float, sleep: Sleep) -> Result:
    """Return the result of `call`. After a recoverable error it is called again if the wait ends before the deadline.

    Raises the last error, or TimeoutError if the deadline passes during a call.
    """
    async with deadline_in(timeout_s):
        for usual_wait_s in RETRY_WAITS_S:
            try:
                return await call()
            except AppException as error:
                jitter = random.uniform(1 - RETRY_JITTER, 1 + RETRY_JITTER)  # noqa: S311  not a secret
                wait_s = max(usual_wait_s * jitter, error.retry_after_s or 0.0)
                if not error.retryable or wait_s >= remaining_s():
                    raise
            await sleep(wait_s)
        return await call()


@dataclass(slots=True)
class HandlerCounters:
    """Counters for the metrics, since the start of the process.

    - `outcomes` counts new outcomes by stage and code.
    - `duplicates` counts requests that got a stored outcome.
    - `reused_ids` counts requests whose id was first used with another payload.
    - `store_waits` counts failed calls of the outcome store.
    """

    outcomes: Counter[tuple[dtos.RagStage, str]] = field(default_factory=Counter)
    duplicates: Counter[dtos.RagStage] = field(default_factory=Counter)
    reused_ids: Counter[dtos.RagStage] = field(default_factory=Counter)
    store_waits: int = 0


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """Options of a RagHandler.

    - `max_message_bytes` is the size of the largest request that is accepted.
    - `timeout_s` is the deadline of a request with all its tries.
    - `tenant_field` is the metadata field that becomes a filter of the same name, or None.
    - `max_record_bytes` has the limit of each topic whose limit is not DEFAULT_RECORD_BYTES.
    - `topics` are the names of the topics on the brokers.
    - `schemas` encodes outcomes for a schema registry, and is None without a registry.
    """

    max_message_bytes: int = 1_000_000
    timeout_s: float = 120.0
    tenant_field: str | None = None
    max_record_bytes: Mapping[str, int] = field(default_factory=dict)
    topics: requests.Topics = requests.CONTRACT_TOPICS
    schemas: MessageSchemas | None = None


class RagHandler:
    """Handler of the requests of both stages.

    - `search` and `answer` run the stages.
    - `outcomes` stores one outcome for each request id.
    - `keep_failed` stores a failed request for a replay. It is None if failed requests are not stored.
    - `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        search: Search,
        answer: Answer,
        outcomes: IOutcomeStore,
        options: HandlerOptions | None = None,
        dependencies: Dependencies | None = None,
        keep_failed: KeepFailed | None = None,
        *,
        tracer: tracing.ITracer = tracing.NO_TRACER,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = HandlerCounters()
        self._tracer = tracer
        self._search, self._answer = search, answer
        self._options = options or HandlerOptions()
        topics = self._options.topics
        encode = None if self._options.schemas is None else self._options.schemas.encode
        self._builder = OutcomeBuilder(self._options.max_record_bytes, topics, encode)
        self._small_builder = OutcomeBuilder({topics.failed: SMALL_RECORD_BYTES}, topics, encode)
        self._store, self._sleep, self._clock = outcomes, sleep, clock
        self._dependencies = dependencies or Dependencies()
        self._keep_failed = keep_failed
        self._store_failed_at: float | None = None  # The time on the clock, or None while the outcome store works.
        # The keys are the requests in progress, the values are the duplicates that wait for their outcomes.
        self._in_flight: dict[OutcomeKey, list[asyncio.Future[dtos.Outcome | None]]] = {}

    async def handle(self, record: IncomingRecord, slot: SlotContext = NO_SLOT) -> OutgoingRecord:
        """Prepare and process one request. See `prepare` and `process`."""
        [job] = await self.prepare((record,))
        return await self.process(job, slot)

    async def prepare(self, records: Sequence[IncomingRecord]) -> list[Job]:
        """Parse requests, and look up their stored outcomes in one query.

        Raises only CancelledError. If the outcome store fails, `process` queries it again.
        """
        jobs: list[Job] = []
        parsed_bytes = 0
        for record in records:
            if parsed_bytes >= PARSED_AT_ONCE_BYTES:
                parsed_bytes = 0
                await asyncio.sleep(0)
            jobs.append(self._parse(record))
            parsed_bytes += len(record.value or b"")
        storable = [job for job in jobs if self._is_storable(job)]
        try:
            outcomes = await self._store.get_many([(job.stage, job.request_id, job.tenant) for job in storable])
        except OutcomeStoreError:
            return jobs
        for job, outcome in zip(storable, outcomes, strict=True):
            job.is_looked_up, job.stored = True, outcome
        return jobs

    async def process(self, job: Job, slot: SlotContext = NO_SLOT) -> OutgoingRecord:
        """Return the outcome of a request. `slot` is held while the stage runs.

        The outcome is stored before it is returned, so this waits while the outcome store fails. Raises only CancelledError,
        after which there is no outcome.
        """
        if not self._tracer.is_enabled:
            return await self._process(job, slot)
        result = CANCELLED
        span = _start_span(self._tracer, job)
        try:
            with tracing.running(span):
                outcome = await self._process(job, slot)
            result = job.code
            return outcome
        finally:
            span.end(result)

    async def _process(self, job: Job, slot: SlotContext) -> OutgoingRecord:
        if self._is_storable(job):
            outcome = await self._share_work(job, slot)
        else:
            outcome, code = await self._compute(job, slot)
            self.counters.outcomes[job.stage, code] += 1
        if outcome.request_sha256 != job.sha256:
            self.counters.reused_ids[job.stage] += 1
            log.warning("request_id_reused: the id was first used with another payload", extra=_log_fields(job))
        return self._builder.to_record(job, outcome)

    def replace_oversized(self, record: IncomingRecord) -> OutgoingRecord:
        """Return the small failure that replaces an outcome which the brokers refuse as too large.

        Its bytes are the same at each call, so a redelivered request gets the same record.
        """
        job = self._parse(record)
        return self._small_builder.to_record(job, self._small_builder.build_failure(job, OUTCOME_TOO_LARGE))

    def _is_storable(self, job: Job) -> bool:
        """Return whether the outcome can be found again: the request has an id, and a tenant if ids belong to tenants.

        Any other request fails in a way that depends only on its bytes and its position.
        """
        request = job.request
        return request.request_id is not None and (self._options.tenant_field is None or request.tenant is not None)

    def _parse(self, record: IncomingRecord) -> Job:
        options, stage = self._options, self._options.topics.stage_of[record.topic]
        value = record.value  # The record keeps the header: it may be stored, and sent again.
        if options.schemas is not None and value is not None:
            value = without_header(value)
        request = requests.parse_request(stage, value, options.max_message_bytes, options.tenant_field)
        return Job.from_record(record, value, stage, request)

    async def _share_work(self, job: Job, slot: SlotContext) -> dtos.Outcome:
        """Return the first outcome of the id.

        A duplicate waits for the request that is in progress, and replaces it if that one is cancelled.
        """
        key = job.stage, job.request_id, job.tenant
        outcome: dtos.Outcome | None = None
        while (waiters := self._in_flight.get(key)) is not None:
            waiters.append(waiter := asyncio.get_running_loop().create_future())
            outcome = await waiter
            job.is_looked_up = False  # Another request may have stored an outcome since the lookup.
            if outcome is not None:
                self.counters.duplicates[job.stage] += 1
                return outcome
        waiters = self._in_flight[key] = []
        try:
            outcome = await self._ensure_outcome(job, key, slot)
            return outcome
        finally:
            del self._in_flight[key]
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(outcome)

    async def _ensure_outcome(self, job: Job, key: OutcomeKey, slot: SlotContext) -> dtos.Outcome:
        """Return the stored outcome, or compute and store it. If another worker stores its own first, return that one."""
        stored = job.stored
        if not job.is_looked_up:
            stored = await self._call_store(job, partial(self._store.get, *key))
        if stored is None:
            computed, code = await self._compute(job, slot)
            if computed.kind == "failed" and self._keep_failed is not None:
                await self._keep_request(job, self._keep_failed)
            [stored] = await self._call_store(job, partial(self._store.put_if_absent, (computed,)))
            if stored is computed or stored.body == computed.body:
                self.counters.outcomes[job.stage, code] += 1
                return stored
        self.counters.duplicates[job.stage] += 1
        return stored

    async def _keep_request(self, job: Job, keep: KeepFailed) -> None:
        """Store a failed request for a replay, before its outcome. An invalid request is not stored: it would fail again."""
        record = job.record
        if isinstance(job.request.content, requests.RequestError) or record.value is None:
            return
        try:
            await keep(
                dtos.FailedRequest(job.stage, job.request_id, job.tenant, record.value, record.key, record.headers)
            )
        except OutcomeStoreError as error:
            # Only the outcome is guaranteed. The replay is a convenience.
            about = {"reason": error.message, **_log_fields(job)}
            log.warning("a failed request could not be stored: it cannot be replayed", extra=about)

    async def _compute(self, job: Job, slot: SlotContext) -> tuple[dtos.Outcome, str]:
        content, took_s = await self._run_stage(job, slot)
        outcome, code = self._builder.build(job, content, round(took_s * 1000))
        job.code = code
        if isinstance(content, Failure):
            level = logging.WARNING if content.needs_operator or content is UNEXPECTED_ERROR else logging.INFO
            cause = content.details.get("cause") or content.details.get("reason")
            about = {"error_code": code, "cause": cause, "reason": content.message}
            log.log(level, "a request failed", extra={**about, **_log_fields(job)})
        elif outcome.kind == "failed":
            log.info("a request failed", extra={"error_code": code, **_log_fields(job)})
        return outcome, code

    async def _run_stage(self, job: Job, slot: SlotContext) -> tuple[dtos.RagHits | dtos.RagAnswer | Failure, float]:
        """Return the content of the outcome, and the seconds that the stage took.

        A failure that only the operator can repair is not an outcome. The request waits for the repair without a slot, and
        runs again. If it fails twice while a probe of the dependency succeeds, the request itself is the cause, and the
        failure becomes its outcome.
        """
        content = job.request.content
        if isinstance(content, requests.RequestError):
            async with slot:
                return describe_failure(content), 0.0
        is_confirmed = True
        while True:
            await self._dependencies.wait_until_usable()
            async with slot:
                started = self._clock()
                result = await self._call_stage(job.request_id, content)
                took_s = self._clock() - started
            if not isinstance(result, Failure):
                for dependency in USED_DEPENDENCIES[job.stage]:
                    self._dependencies.record_call(dependency, None)
                return result, took_s
            name = result.dependency
            if name is None:
                return result, took_s
            if not result.needs_operator:
                self._dependencies.record_call(name, result.message)
                return result, took_s
            if not is_confirmed or not self._dependencies.is_watched(name):
                return result, took_s
            is_confirmed = await self._dependencies.confirm_failure(name)

    async def _call_stage(
        self, request_id: str, content: dtos.RagSearch | dtos.RagQuestion
    ) -> dtos.RagHits | dtos.RagAnswer | Failure:
        """Run the stage, and return its result or failure. Raises CancelledError if this task is cancelled, else nothing."""
        call: Callable[[], Awaitable[dtos.RagHits | dtos.RagAnswer]] = (
            partial(self._search, content) if isinstance(content, dtos.RagSearch) else partial(self._answer, content)
        )
        try:
            with bind_request_id(request_id):
                return await retry_until_deadline(call, self._options.timeout_s, self._sleep)
        except (AppException, TimeoutError) as error:
            return describe_failure(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.exception("a stage raised CancelledError without being cancelled")
            return UNEXPECTED_ERROR
        except Exception as error:
            # This is the outermost handler of a request: a defect must not affect other requests.
            log.error("unexpected error", exc_info=error)
            return UNEXPECTED_ERROR

    async def _call_store(self, job: Job, call: Callable[[], Awaitable[Result]]) -> Result:
        """Call the outcome store until it works. Only the first request that waits logs a warning."""
        try:
            return await call()
        except OutcomeStoreError as error:
            if self._store_failed_at is None:
                self._store_failed_at = self._clock()
                about = {"reason": error.message, **_log_fields(job)}
                log.warning("the outcome store fails: requests wait for it", extra=about)
        for wait_s in chain(STORE_RETRY_WAITS_S, repeat(STORE_RETRY_WAITS_S[-1])):
            self.counters.store_waits += 1
            await self._sleep(wait_s)
            try:
                result = await call()
            except OutcomeStoreError:
                continue
            if self._store_failed_at is not None:
                waited_s = round(self._clock() - self._store_failed_at, 1)
                self._store_failed_at = None
                log.info("the outcome store works again", extra={"after_s": waited_s, **_log_fields(job)})
            return result
        raise AssertionError("unreachable: the waits repeat forever")


def _start_span(tracer: tracing.ITracer, job: Job) -> tracing.ISpan:
    """Start the span of a request.

    Its trace headers replace the sender's headers in the record, so that the outcome has them.
    """
    record = job.record
    sent = {name: (value or b"").decode("latin-1") for name, value in record.headers if name in tracing.TRACE_HEADERS}
    span = tracer.start(MESSAGE_SPAN, f"process {record.topic}", sent, link=True)
    span.set(SYSTEM, "kafka")
    span.set(OPERATION, "process")
    span.set(TOPIC, record.topic)
    span.set(PARTITION, str(record.partition))
    span.set(OFFSET, record.offset)
    span.set(REQUEST_ID, job.request_id)
    others = (header for header in record.headers if header[0] not in tracing.TRACE_HEADERS)
    record.headers = (*others, *((name, value.encode()) for name, value in span.headers().items()))
    return span


def _log_fields(job: Job) -> dict[str, str | int]:
    record = job.record
    fields: dict[str, str | int] = {
        "request_id": job.request_id,
        "stage": job.stage,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
    }
    if job.request.echo.trace_id is not None:
        fields["trace_id"] = str(json.loads(job.request.echo.trace_id))[:MAX_LOGGED_TRACE_CHARS]
    elif trace_id := tracing.current_trace_id():
        fields["trace_id"] = trace_id
    return fields


def build_rag_handler(
    retrieval: RetrievalService,
    answers: AnswerService,
    outcomes: IOutcomeStore,
    options: HandlerOptions,
    dependencies: Dependencies | None = None,
    tracer: tracing.ITracer = tracing.NO_TRACER,
    keep_failed: KeepFailed | None = None,
) -> RagHandler:
    """Create a handler from the platform's services.

    A model or embedder that fails has no fallback, because the first outcome of an id is final. After a recoverable failure
    the sender can send the request again under a new id.
    """

    async def answer(question: dtos.RagQuestion) -> dtos.RagAnswer:
        return await answers.answer(question)

    async def search(request: dtos.RagSearch) -> dtos.RagHits:
        return await retrieval.search(request.model_copy(update={"keyword_fallback": False}))

    return RagHandler(search, answer, outcomes, options, dependencies, keep_failed, tracer=tracer)
