"""A consumed request and its states, from the consumer to the delivery report.

    Consumed -> Preparing -> Working -> WaitingForTurn -> Producing -> Ended (written)
                                                            |   ^
                                                            v   |
                                                           Refused

Every state before the last can also end without an outcome: the request is then read again. The methods of a state are its only
transitions. They return the next state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import InitVar, dataclass, field
from types import TracebackType
from typing import Any

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker

Work = Coroutine[Any, Any, None]


class Slot:
    """A slot for one of the requests that run a stage. It is held inside `async with`.

    Waiting requests get slots in their order. A slot is free again while an outcome is stored or written. After an exception,
    `has_started` is False again.
    """

    __slots__ = ("_semaphore", "has_started")

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self.has_started = False

    async def __aenter__(self) -> None:
        await self._semaphore.acquire()
        self.has_started = True

    async def __aexit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if kind is not None:
            self.has_started = False
        self._semaphore.release()


class KeyTurn:
    """The turn of one request among those with its key.

    The outcomes of a key are written in the order of their requests, although their stages run concurrently. A record without a
    key needs a key of its own, which no other record has. `assignment` is the assignment of the partition under which the
    request was read.
    """

    __slots__ = ("_assignment", "_is_given_up", "_key", "_last_turns", "_previous", "_released")

    def __init__(self, key: Hashable, last_turns: dict[Hashable, KeyTurn], assignment: object = None) -> None:
        """Append a turn to `last_turns`, which maps each key to its last turn that is not released."""
        self._key = key
        self._last_turns = last_turns
        self._assignment = assignment
        self._is_given_up = False
        self._released = asyncio.Event()
        self._previous = last_turns.get(key)
        last_turns[key] = self

    async def wait(self) -> None:
        """Wait for the turn.

        Raises CancelledError if the request before was given up: its partition is read again from there, so the outcome of
        this request would come too early. Requests that were read under a later assignment continue.
        """
        # Without the reference, a long chain of turns can be freed.
        previous, self._previous = self._previous, None
        if previous is not None:
            await previous._released.wait()
            if previous._is_given_up and previous._assignment is self._assignment:
                raise asyncio.CancelledError

    def give_up(self) -> None:
        """Release the turn of a request that has no outcome. Later requests of the key and the assignment are given up, too."""
        self._is_given_up = True
        self.release()

    def release(self) -> None:
        """Let the next request of the key proceed. Repeated calls do nothing."""
        self._released.set()
        if self._last_turns.get(self._key) is self:
            del self._last_turns[self._key]


@dataclass(frozen=True, slots=True)
class Ended:
    """The request is settled. The offset is committed only if the outcome is written."""

    is_written: bool


class Unsettled:
    """A state before the last one."""

    __slots__ = ()

    def abandon(self) -> Ended:
        """End without an outcome. If the producer has the outcome, the next owner of the partition writes the same one again."""
        return Ended(is_written=False)


@dataclass(slots=True, eq=False)
class BeforeProducing(Unsettled):
    """A state in which the outcome is not produced, so that later requests with the key wait."""

    turn: KeyTurn

    def abandon(self) -> Ended:
        self.turn.give_up()
        return Ended(is_written=False)


@dataclass(slots=True, eq=False)
class Consumed(Unsettled):
    """The consumer has read the request, and passes it to the scheduler."""


@dataclass(slots=True, eq=False)
class Preparing(BeforeProducing):
    """The handler looks up the stored outcome, in one query for many requests."""

    def work(self, slot: Slot, run: Callable[[Working], Work]) -> Working:
        """Start a task that runs `run`."""
        return Working(self.turn, slot, run)


@dataclass(slots=True, eq=False)
class Working(BeforeProducing):
    """The handler computes the outcome. The stage waits for the slot, and then runs in it."""

    slot: Slot
    run: InitVar[Callable[[Working], Work]]
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self, run: Callable[[Working], Work]) -> None:
        self.task = asyncio.create_task(run(self))

    def wait_for_turn(self) -> WaitingForTurn:
        """The handler has returned the outcome."""
        return WaitingForTurn(self.turn, self.task)


@dataclass(slots=True, eq=False)
class WaitingForTurn(BeforeProducing):
    """The outcome is computed. It waits until the earlier outcomes of the key are produced."""

    task: asyncio.Task[None]

    def produce(self, outcome: OutgoingRecord) -> Producing:
        """The producer keeps the order, so the next request of the key may follow at once."""
        self.turn.release()
        return Producing(outcome)


@dataclass(slots=True, eq=False)
class Producing(Unsettled):
    """The producer or the brokers have the outcome. `is_replacement` is True for the small failure after an oversized outcome."""

    outcome: OutgoingRecord
    is_replacement: bool = False

    def refuse(self, run: Callable[[Refused], Work]) -> Refused:
        """Start a task that runs `run`, which produces again."""
        return Refused(self.outcome, self.is_replacement, run)

    def acknowledge(self) -> Ended:
        return Ended(is_written=True)


@dataclass(slots=True, eq=False)
class Refused(Unsettled):
    """The client or the brokers have refused the outcome."""

    outcome: OutgoingRecord
    is_replacement: bool
    run: InitVar[Callable[[Refused], Work]]
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self, run: Callable[[Refused], Work]) -> None:
        self.task = asyncio.create_task(run(self))

    def produce_again(self) -> Producing:
        return Producing(self.outcome, self.is_replacement)

    def replace(self, failure: OutgoingRecord) -> Producing:
        """Produce a small failure instead of an oversized outcome."""
        return Producing(failure, is_replacement=True)


State = Consumed | Preparing | Working | WaitingForTurn | Producing | Refused | Ended


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A consumed request. `tracker` belongs to the assignment under which it was read."""

    record: IncomingRecord
    tracker: OffsetTracker
    state: State = field(default_factory=Consumed)

    @property
    def is_waiting(self) -> bool:
        """True if the request has no outcome and its stage has not started."""
        match self.state:
            case Consumed() | Preparing():
                return True
            case Working(slot=slot):
                return not slot.has_started
            case _:
                return False

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that brings the request to its next state. None in a state that needs no task."""
        match self.state:
            case Working(task=task) | WaitingForTurn(task=task) | Refused(task=task):
                return task
            case _:
                return None

    @property
    def is_written(self) -> bool:
        return self.state == Ended(is_written=True)
