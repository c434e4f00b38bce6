"""Bytes in, exactly one outcome out (requirement RC8); nothing here knows a Kafka client."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, TypeVar

from modules.llm_platform.domain.dtos.retrieval_dtos import (
    Outcome,
    RagAnswer,
    RagHits,
    RagQuestion,
    RagSearch,
    RagStage,
)
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.contract.outcomes import (
    OUTCOME_TOO_LARGE,
    UNFORESEEN,
    DependencyName,
    Failure,
    IncomingRecord,
    Job,
    Outcomes,
    OutgoingRecord,
    failure_of,
)
from modules.llm_platform.presentation.kafka.contract.requests import FAILED_TOPIC, STAGE_OF, RequestError, read_message
from modules.llm_platform.presentation.kafka.worker.deadlines import (
    STORE_WAITS_S,
    Deadlines,
    Sleep,
    deadline,
    until_deadline,
)
from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies
from shared.exceptions import AppException
from shared.logging import bind_request_id

if TYPE_CHECKING:
    from modules.llm_platform.application.services.answer_service import AnswerService
    from modules.llm_platform.application.services.retrieval_service import RetrievalService
    from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
    from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
    from modules.llm_platform.presentation.kafka.worker.dependencies import Dependencies


# Carries a request out: what it asked for, or the failure to tell.


log = logging.getLogger(__name__)

Search = Callable[[RagSearch], Awaitable[RagHits]]
Answer = Callable[[RagQuestion], Awaitable[RagAnswer]]


class Stages:
    """The two stages under one deadline for each request, `timeout_s` seconds with all tries together."""

    def __init__(self, search: Search, answer: Answer, timeout_s: float, sleep: Sleep) -> None:
        self._search, self._answer = search, answer
        self._deadlines, self._sleep = Deadlines(timeout_s), sleep

    async def carry_out(
        self, request_id: str, asked: RagSearch | RagQuestion | RequestError
    ) -> RagHits | RagAnswer | Failure:
        """Raises nothing but CancelledError, and that only when somebody cancels us."""
        if isinstance(asked, RequestError):
            return failure_of(asked)
        try:
            with bind_request_id(request_id):
                return await until_deadline(self._call(asked), self._deadlines, self._sleep)
        except (AppException, TimeoutError) as error:
            return failure_of(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.exception("a stage cancelled itself")  # nobody would handle the request again
            return UNFORESEEN
        except Exception as error:  # the outermost loop of a request: one that breaks a stage breaks no other
            log.error("unexpected error", exc_info=error)
            return UNFORESEEN

    def _call(self, asked: RagSearch | RagQuestion) -> Callable[[], Awaitable[RagHits | RagAnswer]]:
        return partial(self._search, asked) if isinstance(asked, RagSearch) else partial(self._answer, asked)


# What a handler has done, for metrics.


@dataclass(slots=True)
class HandlerCounts:
    """Numbers that only grow, since the process began."""

    outcomes: Counter[tuple[RagStage, str]] = field(default_factory=Counter)  # first ones, by stage and code
    repeated: Counter[RagStage] = field(default_factory=Counter)  # requests that got an earlier outcome again
    reused: Counter[RagStage] = field(default_factory=Counter)  # those of them whose payload was another one
    store_waits: int = 0  # times that the store of outcomes could not be used and was waited for


TRACE_CHARS: Final = 200  # of a trace_id in the log
SERVED: Final[Mapping[RagStage, tuple[DependencyName, ...]]] = {  # what has served a request that has a result
    "search": ("index", "embedder"),
    "answer": ("model",),  # it may be answered from its context alone
}
SMALL_RECORD_BYTES: Final = 64_000  # what any topic takes; for those that take less than we were told

Place = AbstractAsyncContextManager[None]
ANYWHERE: Final[Place] = nullcontext()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """`outcome_bytes`: topic to the longest record that it takes, where that is not `outcomes.OUTCOME_BYTES`.

    `tenant_field`: the field of metadata that becomes a filter of the same name; None for none.
    """

    max_message_bytes: int = 1_000_000
    timeout_s: float = 120.0
    tenant_field: str | None = None
    outcome_bytes: Mapping[str, int] = field(default_factory=dict)


class RagHandler:
    """Answers requests of both stages. `clock`: seconds that only grow."""

    def __init__(
        self,
        search: Search,
        answer: Answer,
        outcomes: IOutcomeStore,
        options: HandlerOptions | None = None,
        dependencies: Dependencies | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = HandlerCounts()
        self._options = options or HandlerOptions()
        self._stages = Stages(search, answer, self._options.timeout_s, sleep)
        self._outcomes = Outcomes(self._options.outcome_bytes)
        self._small_outcomes = Outcomes({FAILED_TOPIC: SMALL_RECORD_BYTES})
        self._store, self._sleep, self._clock = outcomes, sleep, clock
        self._dependencies = dependencies or Dependencies()
        self._waiting_since: float | None = None  # for the store of outcomes (clock); None: it can be used
        # Who waits for the outcome of a request that came before and is not over; mostly nobody does.
        self._in_flight: dict[tuple[RagStage, str, str], list[asyncio.Future[Outcome | None]]] = {}

    async def handle(self, record: IncomingRecord, slot: Place = ANYWHERE) -> OutgoingRecord:
        """The one outcome of a request, whatever its bytes are: `look_up` and `carry_out`."""
        [job] = await self.look_up((record,))
        return await self.carry_out(job, slot)

    async def look_up(self, records: Sequence[IncomingRecord]) -> list[Job]:
        """What these ask, with what was kept, for all of them at once. Nothing is raised but CancelledError; a store that
        cannot be used is asked again when they are carried out.
        """
        jobs = [self._job(record) for record in records]
        wanted = [job for job in jobs if self._can_be_kept(job)]
        try:
            found = await self._store.get_many([(job.stage, job.request_id, job.tenant) for job in wanted])
        except OutcomeStoreError:
            return jobs
        for job, kept in zip(wanted, found, strict=True):
            job.known, job.kept = True, kept
        return jobs

    async def carry_out(self, job: Job, slot: Place = ANYWHERE) -> OutgoingRecord:
        """The one outcome; nothing is raised but CancelledError. While its stage runs `slot` is entered, and neither before
        nor after that.

        While the store of outcomes cannot be used this waits: nothing is told that was not kept. A cancelled request has no
        outcome and is to be handled again.
        """
        if not self._can_be_kept(job):
            outcome, code = await self._decided(job, slot)
            self.counts.outcomes[job.stage, code] += 1
        else:
            outcome = await self._first_outcome(job, slot)
        if outcome.request_sha256 != job.sha256:
            self.counts.reused[job.stage] += 1
            log.warning("request_id_reused: an id came again with another payload", extra=_place(job))
        return self._outcomes.told(job, outcome)

    def too_large(self, record: IncomingRecord) -> OutgoingRecord:
        """What to tell when the broker finds the outcome of this request too large after all: small, and the same each time."""
        job = self._job(record)
        return self._small_outcomes.told(job, self._small_outcomes.failed(job, OUTCOME_TOO_LARGE))

    def _can_be_kept(self, job: Job) -> bool:
        """Whether there is somebody who can ask for its outcome again: an id, and a tenant where each has its own ids. Of any
        other request the outcome is a failure that follows from its bytes and its place alone.
        """
        message = job.message
        return message.request_id is not None and (self._options.tenant_field is None or message.tenant is not None)

    def _job(self, record: IncomingRecord) -> Job:
        options, stage = self._options, STAGE_OF[record.topic]
        return Job.of(record, stage, read_message(stage, record.value, options.max_message_bytes, options.tenant_field))

    async def _first_outcome(self, job: Job, slot: Place) -> Outcome:
        """What is told first under this id: what another task is working on, what was kept, or what is found now."""
        place = job.stage, job.request_id, job.tenant
        outcome: Outcome | None = None
        while (others := self._in_flight.get(place)) is not None:
            others.append(told := asyncio.get_running_loop().create_future())
            outcome = await told
            job.known = False  # what was looked up is older than that
            if outcome is not None:
                self.counts.repeated[job.stage] += 1
                return outcome
        waiting = self._in_flight[place] = []
        try:
            outcome = await self._kept(job, place, slot)
            return outcome
        finally:
            del self._in_flight[place]
            for told in waiting:  # without an outcome they take over
                if not told.done():
                    told.set_result(outcome)

    async def _kept(self, job: Job, place: tuple[RagStage, str, str], slot: Place) -> Outcome:
        """What the store has from now on: ours, unless it has one already or another worker is faster."""
        kept = job.kept if job.known else await self._looked_up(job, place)
        if kept is None:
            mine, code = await self._decided(job, slot)
            try:
                [kept] = await self._store.keep((mine,))
            except OutcomeStoreError as error:
                [kept] = await self._patiently(job, error, partial(self._store.keep, (mine,)))
            if kept is mine or kept.body == mine.body:
                self.counts.outcomes[job.stage, code] += 1
                return kept
        self.counts.repeated[job.stage] += 1
        return kept

    async def _looked_up(self, job: Job, place: tuple[RagStage, str, str]) -> Outcome | None:
        try:
            return await self._store.get(*place)
        except OutcomeStoreError as error:
            return await self._patiently(job, error, partial(self._store.get, *place))

    async def _decided(self, job: Job, slot: Place) -> tuple[Outcome, str]:
        found, took_s = await self._found(job, slot)
        outcome, code = self._outcomes.made(job, found, round(took_s * 1000))
        if isinstance(found, Failure) or outcome.kind == "failed":
            level, cause = logging.INFO, {}
            if isinstance(found, Failure):
                level = logging.WARNING if found.must_mend or found is UNFORESEEN else logging.INFO
                cause = {"cause": found.details.get("cause") or found.details.get("reason"), "reason": found.message}
            log.log(level, "a request failed", extra={"error_code": code, **cause, **_place(job)})
        return outcome, code

    async def _found(self, job: Job, slot: Place) -> tuple[RagHits | RagAnswer | Failure, float]:
        """What the stage gave, and the seconds it took. What only the operator can mend is waited for, outside of the slot,
        and then tried again. A request that fails by such a cause twice while a probe finds nothing wrong brings it about
        itself: that is its failure.
        """
        if isinstance(job.message.asked, RequestError):
            return await self._carried_out(job, slot)
        suspect = False
        while True:
            await self._dependencies.usable()
            try:
                return await self._carried_out(job, slot, final=suspect)
            except _MustMendError as stopped:
                dependency = stopped.dependency
            if not await self._dependencies.confirm(dependency):
                suspect = True

    async def _carried_out(
        self, job: Job, slot: Place, *, final: bool = True
    ) -> tuple[RagHits | RagAnswer | Failure, float]:
        """One try. Unless it is `final`, raises _MustMendError for a cause that the operator has to mend."""
        async with slot:
            begun = self._clock()
            found = await self._stages.carry_out(job.request_id, job.message.asked)
            took_s = self._clock() - begun
            if isinstance(found, Failure) and found.dependency is not None:
                if found.must_mend and not final and self._dependencies.watches(found.dependency):
                    raise _MustMendError(found.dependency)
                if not found.must_mend:
                    self._dependencies.met(found.dependency, found.message)
            elif isinstance(found, RagHits | RagAnswer):
                for name in SERVED[job.stage]:
                    self._dependencies.met(name, None)
        return found, took_s

    async def _patiently(self, job: Job, error: OutcomeStoreError, ask: Callable[[], Awaitable[Result]]) -> Result:
        """What the store says, as soon as it can be used; it could not the first time. Of all that wait the first says so."""
        if self._waiting_since is None:
            self._waiting_since = self._clock()
            log.warning("waiting for the store of outcomes", extra={"reason": error.message, **_place(job)})
        for wait_s in chain(STORE_WAITS_S, repeat(STORE_WAITS_S[-1])):
            self.counts.store_waits += 1
            await self._sleep(wait_s)
            try:
                found = await ask()
            except OutcomeStoreError:
                continue
            if self._waiting_since is not None:
                waited_s = round(self._clock() - self._waiting_since, 1)
                self._waiting_since = None
                log.info("the store of outcomes can be used again", extra={"after_s": waited_s, **_place(job)})
            return found
        raise AssertionError("the waits have no end")


class _MustMendError(Exception):
    """A stage failed by a cause that the operator has to mend."""

    def __init__(self, dependency: DependencyName) -> None:
        self.dependency = dependency
        super().__init__(dependency)


def _place(job: Job) -> dict[str, str | int]:
    """What a line of the log says of a request."""
    record = job.record
    place: dict[str, str | int] = {
        "request_id": job.request_id, "stage": job.stage, "topic": record.topic, "partition": record.partition,
        "offset": record.offset,
    }  # fmt: skip
    if job.message.echo.trace_id is not None:
        place["trace_id"] = str(json.loads(job.message.echo.trace_id))[:TRACE_CHARS]
    return place


# The handler of requests, put together from the services of the platform.


def rag_handler(
    retrieval: RetrievalService,
    answers: AnswerService,
    outcomes: IOutcomeStore,
    options: HandlerOptions,
    dependencies: Dependencies | None = None,
) -> RagHandler:
    """Both stages. Every try of a request knows the deadline of all of them.

    Nobody steps in for a model or an embedder that fails: what is told first under an id is told for ever, and the sender of a
    recoverable failure can ask again under a new one.
    """

    async def answer(asked: RagQuestion) -> RagAnswer:
        return await answers.answer(asked, deadline=deadline())

    async def search(asked: RagSearch) -> RagHits:
        return await retrieval.search(asked.model_copy(update={"by_words_alone": False}))

    return RagHandler(search, answer, outcomes, options, dependencies)
