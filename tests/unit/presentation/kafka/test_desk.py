"""The loop's side of the worker, with a client that does as it is told."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker import scheduler as desk_module
from modules.llm_platform.presentation.kafka.worker.consumer import Settled
from modules.llm_platform.presentation.kafka.worker.producer import Told
from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker, Request, Slot
from modules.llm_platform.presentation.kafka.worker.scheduler import RequestScheduler
from modules.llm_platform.testing.patience import STARTS_WITHIN_S, becomes

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
NOT_ALLOWED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class FakePump:
    """Writes at once, unless there are answers to be given first. `refusals` are the client's, `answers` the brokers'."""

    def __init__(self) -> None:
        self.written: list[OutgoingRecord] = []
        self.answers: list[KafkaError | None] = []
        self.refusals: list[KafkaError] = []
        self.holding = False
        self.held: list[Told] = []

    def hand_over(self, outgoing: OutgoingRecord, told: Told) -> None:
        if self.refusals:
            asyncio.get_running_loop().call_soon(told, self.refusals.pop(0))
            return
        self.written.append(outgoing)
        if self.holding:
            self.held.append(told)
        else:
            asyncio.get_running_loop().call_soon(told, self.answers.pop(0) if self.answers else None)


class ByName:
    """Answers with the request's value. While `looking` is an event that is not set nothing is looked up. Where `gates` has
    an event for a value the stage waits; where `after` has one, what comes behind the stage; what is `known` needs no stage.
    """

    def __init__(self) -> None:
        self.gates: dict[bytes, asyncio.Event] = {}
        self.after: dict[bytes, asyncio.Event] = {}
        self.known: set[bytes] = set()
        self.begun: list[bytes] = []
        self.most = self._now = 0
        self.error: Exception | None = None
        self.looking: asyncio.Event | None = None

    async def look_up(self, records: Sequence[IncomingRecord]) -> Sequence[IncomingRecord]:
        if self.looking is not None:
            await self.looking.wait()
        return records

    async def carry_out(self, job: IncomingRecord, slot: Slot) -> OutgoingRecord:
        value = job.value or b""
        if value in self.known:
            return OutgoingRecord("out", job.key, value)
        async with slot:
            self.begun.append(value)
            self._now += 1
            self.most = max(self.most, self._now)
            try:
                if gate := self.gates.get(value):
                    await gate.wait()
                if self.error is not None:
                    raise self.error
            finally:
                self._now -= 1
        if gate := self.after.get(value):
            await gate.wait()
        return OutgoingRecord("out", job.key, value)

    def too_large(self, record: IncomingRecord) -> OutgoingRecord:
        return OutgoingRecord("failed", record.key, b"too large")

    def gate(self, value: bytes) -> asyncio.Event:
        return self.gates.setdefault(value, asyncio.Event())


class Bench:
    """A desk of three with everything around it."""

    def __init__(self) -> None:
        self.pump, self.handler = FakePump(), ByName()
        self.settled: Settled = queue.SimpleQueue()
        self.desk = RequestScheduler(self.handler, self.pump, 3, self.settled)  # type: ignore[arg-type]
        self.ledger = OffsetTracker("in", 0)

    def requests(
        self, *values: bytes, key: bytes | None = None, ledger: OffsetTracker | None = None
    ) -> list[Request]:
        at = ledger or self.ledger
        return [
            Request(IncomingRecord("in", at.partition, offset, key, value), at) for offset, value in enumerate(values)
        ]

    def over(self) -> Iterator[tuple[bytes, bool]]:
        """What came back: value, and whether it was finished."""
        while not self.settled.empty():
            for request in self.settled.get():
                yield request.record.value or b"", request.done


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def a_while(turns: int = 30) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_each_is_written_and_over(bench: Bench) -> None:
    """As many as there are; each comes back once, finished."""
    values = [b"%d" % number for number in range(20)]
    bench.desk.take(bench.requests(*values))
    await a_while(100)
    assert sorted(bench.over()) == sorted((value, True) for value in values)
    assert [each.value for each in bench.pump.written] == values
    assert (bench.desk.in_flight, bench.desk.waiting) == (0, 0)


async def test_so_many_at_once_and_no_more(bench: Bench) -> None:
    """The others wait their turn, first come first served."""
    for value in (b"a", b"b", b"c"):
        bench.handler.gate(value)
    bench.desk.take(bench.requests(b"a", b"b", b"c", b"d", b"e"))
    await a_while()
    assert (bench.desk.in_flight, bench.desk.waiting, bench.handler.begun) == (3, 2, [b"a", b"b", b"c"])
    bench.handler.gate(b"b").set()
    await a_while()
    assert bench.handler.begun == [b"a", b"b", b"c", b"d", b"e"]
    assert sorted(bench.over()) == [(b"b", True), (b"d", True), (b"e", True)]
    assert bench.handler.most == 3
    for gate in bench.handler.gates.values():
        gate.set()
    await a_while()
    assert sorted(bench.over()) == [(b"a", True), (b"c", True)]


async def test_others_begin_while_it_is_written(bench: Bench) -> None:
    """Waiting for the brokers takes no place of the handler's."""
    bench.pump.holding = True
    bench.desk.take(bench.requests(b"a", b"b", b"c", b"d", b"e"))
    await a_while()
    assert bench.handler.begun == [b"a", b"b", b"c", b"d", b"e"]
    assert bench.desk.in_flight == 5
    bench.desk.let_go([bench.ledger], True)
    await a_while()
    assert [done for _, done in bench.over()] == [False] * 5
    for told in bench.pump.held:
        told(None)
    await a_while()
    assert list(bench.over()) == []


async def test_others_begin_while_an_outcome_is_kept(bench: Bench) -> None:
    """A place is for a stage: what comes after it needs none, and is no longer given up with what has not begun."""
    values = [b"a", b"b", b"c", b"d", b"e"]
    bench.handler.after = {value: asyncio.Event() for value in values}
    bench.desk.take(bench.requests(*values))
    await a_while()
    assert bench.handler.begun == values
    assert (bench.desk.in_flight, bench.desk.waiting) == (5, 0)
    bench.desk.let_go([bench.ledger], False)
    await a_while()
    assert list(bench.over()) == []
    for gate in bench.handler.after.values():
        gate.set()
    await a_while()
    assert sorted(bench.over()) == [(value, True) for value in values]


async def test_what_is_known_does_not_overtake_what_is_given_up(bench: Bench) -> None:
    """Whoever takes over does the first of a key again: the second must not have been written before it."""
    for value in (b"a", b"b", b"c"):
        bench.handler.gate(value)
    bench.handler.known = {b"2", b"other"}
    other = [Request(IncomingRecord("in", 0, 9, b"other key", b"other"), bench.ledger)]
    bench.desk.take([*bench.requests(b"a", b"b", b"c"), *bench.requests(b"1", b"2", key=b"k"), *other])
    await a_while()
    assert list(bench.over()) == [(b"other", True)]
    bench.desk.let_go([bench.ledger], False)
    await a_while()
    assert sorted(bench.over()) == [(b"1", False), (b"2", False)]
    assert [each.value for each in bench.pump.written] == [b"other"]


async def test_nothing_is_over_before_it_is_written(bench: Bench) -> None:
    """The report of the brokers is waited for."""
    bench.pump.holding = True
    bench.desk.take(bench.requests(b"a"))
    await a_while()
    assert bench.pump.written
    assert list(bench.over()) == []
    bench.pump.held[0](None)
    await a_while()
    assert list(bench.over()) == [(b"a", True)]


async def test_those_of_one_key_are_written_in_order(bench: Bench) -> None:
    """Although the first takes longest; those of no key do not wait for each other."""
    gate = bench.handler.gate(b"1")
    bench.desk.take(bench.requests(b"1", b"2", b"3", key=b"k"))
    await a_while()
    assert bench.pump.written == []
    gate.set()
    await a_while()
    assert [each.value for each in bench.pump.written] == [b"1", b"2", b"3"]


async def test_without_a_key_nobody_waits(bench: Bench) -> None:
    """There is no order to keep."""
    bench.handler.gate(b"1")
    bench.desk.take(bench.requests(b"1", b"2", b"3"))
    await a_while()
    assert [each.value for each in bench.pump.written] == [b"2", b"3"]


@pytest.mark.parametrize("where", ["answers", "refusals"])
async def test_what_is_too_large_becomes_a_failure(bench: Bench, where: str) -> None:
    """Whether the client says so or a broker: the handler's other outcome is written instead."""
    getattr(bench.pump, where).append(TOO_LARGE)
    bench.desk.take(bench.requests(b"a"))
    await a_while()
    assert bench.pump.written[-1].value == b"too large"
    assert list(bench.over()) == [(b"a", True)]


async def test_what_is_refused_is_offered_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right that is missing: the outcome waits, and that can be seen; once it is granted nothing was lost."""
    monkeypatch.setattr(desk_module, "REFUSED_WAIT_S", 0.1)
    bench.pump.answers = [NOT_ALLOWED, NOT_ALLOWED]
    bench.desk.take(bench.requests(b"a"))
    await a_while()
    assert bench.desk.refusing == "TOPIC_AUTHORIZATION_FAILED"
    assert await becomes(lambda: len(bench.pump.written) == 3, STARTS_WITHIN_S)
    await a_while()
    assert bench.desk.refusing is None
    assert list(bench.over()) == [(b"a", True)]
    assert len(bench.pump.written) == 3


async def test_one_failure_for_what_is_too_large(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even that is refused it waits as any other outcome, until a broker takes it."""
    monkeypatch.setattr(desk_module, "REFUSED_WAIT_S", 0.1)
    bench.pump.answers = [TOO_LARGE, TOO_LARGE, TOO_LARGE]
    bench.desk.take(bench.requests(b"a"))
    await a_while()
    assert bench.desk.refusing == "MSG_SIZE_TOO_LARGE"
    assert await becomes(lambda: len(bench.pump.written) == 4, STARTS_WITHIN_S)
    await a_while()
    assert [each.value for each in bench.pump.written] == [b"a", *[b"too large"] * 3]
    assert list(bench.over()) == [(b"a", True)]


async def test_what_waits_to_be_offered_again_can_be_given_up(bench: Bench) -> None:
    """A partition that goes takes it along: the next worker offers it."""
    bench.pump.answers = [NOT_ALLOWED]
    bench.desk.take(bench.requests(b"a"))
    await a_while()
    assert (bench.desk.in_flight, list(bench.over())) == (1, [])
    bench.desk.let_go([bench.ledger], True)
    await a_while()
    assert list(bench.over()) == [(b"a", False)]


async def test_a_client_beyond_help_ends_it(bench: Bench) -> None:
    """A fatal error is nobody's fault and nobody's outcome: whoever waits for `failure` gets it."""
    bench.pump.answers = [KafkaError(KafkaError._FATAL, fatal=True)]
    bench.desk.take(bench.requests(b"a"))
    await a_while()
    with pytest.raises(KafkaException):
        bench.desk.failure.result()
    assert list(bench.over()) == [(b"a", False)]


async def test_a_broken_handler_ends_it(bench: Bench) -> None:
    """It promises to raise nothing: what it raises is a defect, and its request is not finished."""
    bench.handler.error = RuntimeError("a defect")
    bench.desk.take(bench.requests(b"a", b"b"))
    await a_while()
    with pytest.raises(RuntimeError, match="a defect"):
        bench.desk.failure.result()
    assert sorted(bench.over()) == [(b"a", False), (b"b", False)]


async def test_letting_partitions_go(bench: Bench) -> None:
    """What has not begun there is given up first, what runs when it must; other partitions go on."""
    other = OffsetTracker("in", 1)
    for value in (b"a", b"b", b"x"):
        bench.handler.gate(value)
    bench.desk.take([*bench.requests(b"a", b"b"), *bench.requests(b"x", ledger=other), *bench.requests(b"c", b"d")])
    await a_while()
    bench.desk.let_go([bench.ledger], False)
    await a_while()
    assert sorted(bench.over()) == [(b"c", False), (b"d", False)]
    assert bench.desk.in_flight == 3
    bench.desk.let_go([bench.ledger], True)
    await a_while()
    assert sorted(bench.over()) == [(b"a", False), (b"b", False)]
    bench.handler.gate(b"x").set()
    await a_while()
    assert list(bench.over()) == [(b"x", True)]


async def test_one_that_is_let_go_before_its_first_step(bench: Bench) -> None:
    """Taken and cancelled in the same moment: it still comes back."""
    bench.desk.take(bench.requests(b"a", key=b"k"))
    bench.desk.let_go([bench.ledger], True)
    await a_while()
    assert list(bench.over()) == [(b"a", False)]
    assert bench.desk.in_flight == 0


async def test_letting_go_what_is_looked_up(bench: Bench) -> None:
    """Nothing of it has begun: it comes back at once, and is not carried out when the store answers after all."""
    bench.handler.looking = asyncio.Event()
    other = OffsetTracker("in", 1)
    bench.desk.take([*bench.requests(b"a", b"b", key=b"k"), *bench.requests(b"x", ledger=other)])
    await a_while()
    assert (bench.desk.in_flight, bench.desk.waiting) == (0, 3)
    bench.desk.let_go([bench.ledger], False)
    await a_while()
    assert list(bench.over()) == [(b"a", False), (b"b", False)]
    bench.handler.looking.set()
    await a_while()
    assert bench.handler.begun == [b"x"]
    assert list(bench.over()) == [(b"x", True)]


async def test_the_drain_does_not_wait_for_a_store(bench: Bench) -> None:
    """One that does not answer: what is looked up has not begun."""
    bench.handler.looking = asyncio.Event()
    bench.desk.take(bench.requests(b"a"))
    await bench.desk.drain(5)
    await a_while()
    assert list(bench.over()) == [(b"a", False)]


async def test_the_drain_finishes_what_runs(bench: Bench) -> None:
    """What has begun ends, what has not is given up, what still comes as well."""
    gate = bench.handler.gate(b"a")
    bench.desk.take(bench.requests(b"a", b"b", b"c", b"d"))
    await a_while()
    draining = asyncio.create_task(bench.desk.drain(5))
    await a_while()
    bench.desk.take(bench.requests(b"late"))
    gate.set()
    await draining
    await a_while()
    assert sorted(bench.over()) == [(b"a", True), (b"b", True), (b"c", True), (b"d", True), (b"late", False)]


async def test_the_drain_has_an_end(bench: Bench) -> None:
    """What is not done in time is given up."""
    for value in (b"a", b"b", b"c"):
        bench.handler.gate(value)
    bench.desk.take(bench.requests(b"a", b"b", b"c", b"d"))
    await a_while()
    await bench.desk.drain(0.01)
    await a_while()
    assert sorted(bench.over()) == [(b"a", False), (b"b", False), (b"c", False), (b"d", False)]
