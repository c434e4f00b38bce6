"""The scheduler, on a scripted handler and producer."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.worker import scheduler as scheduler_module
from modules.llm_platform.presentation.kafka.worker.in_flight_request import InFlightRequest, Slot
from modules.llm_platform.presentation.kafka.worker.offsets import OffsetTracker
from modules.llm_platform.presentation.kafka.worker.producer import DeliveryCallback
from modules.llm_platform.presentation.kafka.worker.scheduler import RequestScheduler, SettledQueue
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
NOT_ALLOWED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class FakePump:
    """Writes at once, except for scripted errors: `refusals` by the client, `answers` by the brokers."""

    def __init__(self) -> None:
        self.written: list[OutgoingRecord] = []
        self.answers: list[KafkaError | None] = []
        self.refusals: list[KafkaError] = []
        self.is_holding = False
        self.callbacks: list[DeliveryCallback] = []

    def produce(self, outgoing: OutgoingRecord, on_delivery: DeliveryCallback) -> None:
        if self.refusals:
            asyncio.get_running_loop().call_soon(on_delivery, self.refusals.pop(0))
            return
        self.written.append(outgoing)
        if self.is_holding:
            self.callbacks.append(on_delivery)
        else:
            asyncio.get_running_loop().call_soon(on_delivery, self.answers.pop(0) if self.answers else None)


class ScriptedHandler:
    """Returns the request's value. `lookup_gate` blocks the preparation, `gates` the stage of a value, `after` what follows
    the stage; a `stored` value needs no stage, and one that is `given_up` gets no outcome.
    """

    def __init__(self) -> None:
        self.gates: dict[bytes, asyncio.Event] = {}
        self.after: dict[bytes, asyncio.Event] = {}
        self.stored: set[bytes] = set()
        self.given_up: set[bytes] = set()
        self.started: list[bytes] = []
        self.max_concurrent = self._now = 0
        self.error: Exception | None = None
        self.lookup_gate: asyncio.Event | None = None

    async def prepare(self, records: Sequence[IncomingRecord]) -> Sequence[IncomingRecord]:
        if self.lookup_gate is not None:
            await self.lookup_gate.wait()
        return records

    async def process(self, job: IncomingRecord, slot: Slot) -> OutgoingRecord:
        value = job.value or b""
        if value in self.stored:
            return OutgoingRecord("out", job.key, value)
        async with slot:
            self.started.append(value)
            self._now += 1
            self.max_concurrent = max(self.max_concurrent, self._now)
            try:
                if gate := self.gates.get(value):
                    await gate.wait()
                if self.error is not None:
                    raise self.error
            finally:
                self._now -= 1
        if gate := self.after.get(value):
            await gate.wait()
        if value in self.given_up:
            raise asyncio.CancelledError
        return OutgoingRecord("out", job.key, value)

    def replace_oversized(self, record: IncomingRecord) -> OutgoingRecord:
        return OutgoingRecord("failed", record.key, b"too large")

    def gate(self, value: bytes) -> asyncio.Event:
        return self.gates.setdefault(value, asyncio.Event())


class Rig:
    """A scheduler with three slots."""

    def __init__(self) -> None:
        self.pump, self.handler = FakePump(), ScriptedHandler()
        self.settled: SettledQueue = queue.SimpleQueue()
        self.scheduler = RequestScheduler(self.handler, self.pump, 3, self.settled)  # type: ignore[arg-type]
        self.tracker = OffsetTracker("in", 0)

    def requests(
        self, *values: bytes, key: bytes | None = None, tracker: OffsetTracker | None = None
    ) -> list[InFlightRequest]:
        at = tracker or self.tracker
        return [
            InFlightRequest(IncomingRecord("in", at.partition, offset, key, value), at)
            for offset, value in enumerate(values)
        ]

    def settled_requests(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the settled requests: value, and whether they are written."""
        while not self.settled.empty():
            for request in self.settled.get():
                yield request.record.value or b"", request.is_written


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def run_loop(iterations: int = 30) -> None:
    for _ in range(iterations):
        await asyncio.sleep(0)


async def test_every_request_is_written_and_settled(rig: Rig) -> None:
    """Once."""
    values = [b"%d" % number for number in range(20)]
    rig.scheduler.submit(rig.requests(*values))
    await run_loop(100)
    assert sorted(rig.settled_requests()) == sorted((value, True) for value in values)
    assert [record.value for record in rig.pump.written] == values
    assert (rig.scheduler.in_flight, rig.scheduler.waiting) == (0, 0)


async def test_concurrency_is_limited(rig: Rig) -> None:
    """Waiting requests start in order."""
    for value in (b"a", b"b", b"c"):
        rig.handler.gate(value)
    rig.scheduler.submit(rig.requests(b"a", b"b", b"c", b"d", b"e"))
    await run_loop()
    assert (rig.scheduler.in_flight, rig.scheduler.waiting, rig.handler.started) == (3, 2, [b"a", b"b", b"c"])
    rig.handler.gate(b"b").set()
    await run_loop()
    assert rig.handler.started == [b"a", b"b", b"c", b"d", b"e"]
    assert sorted(rig.settled_requests()) == [(b"b", True), (b"d", True), (b"e", True)]
    assert rig.handler.max_concurrent == 3
    for gate in rig.handler.gates.values():
        gate.set()
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"a", True), (b"c", True)]


async def test_written_request_holds_no_slot(rig: Rig) -> None:
    """Waiting for the brokers blocks no stage."""
    rig.pump.is_holding = True
    rig.scheduler.submit(rig.requests(b"a", b"b", b"c", b"d", b"e"))
    await run_loop()
    assert rig.handler.started == [b"a", b"b", b"c", b"d", b"e"]
    assert rig.scheduler.in_flight == 5
    rig.scheduler.revoke([rig.tracker], True)
    await run_loop()
    assert [done for _, done in rig.settled_requests()] == [False] * 5
    for callback in rig.pump.callbacks:
        callback(None)
    await run_loop()
    assert list(rig.settled_requests()) == []


async def test_stored_request_holds_no_slot(rig: Rig) -> None:
    """A stored request is also not cancelled together with waiting requests."""
    values = [b"a", b"b", b"c", b"d", b"e"]
    rig.handler.after = {value: asyncio.Event() for value in values}
    rig.scheduler.submit(rig.requests(*values))
    await run_loop()
    assert rig.handler.started == values
    assert (rig.scheduler.in_flight, rig.scheduler.waiting) == (5, 0)
    rig.scheduler.revoke([rig.tracker], False)
    await run_loop()
    assert list(rig.settled_requests()) == []
    for gate in rig.handler.after.values():
        gate.set()
    await run_loop()
    assert sorted(rig.settled_requests()) == [(value, True) for value in values]


async def test_stored_outcome_does_not_overtake_a_cancelled_request(rig: Rig) -> None:
    """The next owner writes the first of a key again before the second."""
    for value in (b"a", b"b", b"c"):
        rig.handler.gate(value)
    rig.handler.stored = {b"2", b"other"}
    other = [InFlightRequest(IncomingRecord("in", 0, 9, b"other key", b"other"), rig.tracker)]
    rig.scheduler.submit([*rig.requests(b"a", b"b", b"c"), *rig.requests(b"1", b"2", key=b"k"), *other])
    await run_loop()
    assert list(rig.settled_requests()) == [(b"other", True)]
    rig.scheduler.revoke([rig.tracker], False)
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"1", False), (b"2", False)]
    assert [record.value for record in rig.pump.written] == [b"other"]


async def test_request_is_settled_after_its_delivery_report(rig: Rig) -> None:
    """The report of the brokers is waited for."""
    rig.pump.is_holding = True
    rig.scheduler.submit(rig.requests(b"a"))
    await run_loop()
    assert rig.pump.written
    assert list(rig.settled_requests()) == []
    rig.pump.callbacks[0](None)
    await run_loop()
    assert list(rig.settled_requests()) == [(b"a", True)]


async def test_outcomes_of_one_key_are_written_in_order(rig: Rig) -> None:
    """Although the first takes longest."""
    gate = rig.handler.gate(b"1")
    rig.scheduler.submit(rig.requests(b"1", b"2", b"3", key=b"k"))
    await run_loop()
    assert rig.pump.written == []
    gate.set()
    await run_loop()
    assert [record.value for record in rig.pump.written] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("is_defect", [False, True])
async def test_later_outcomes_of_a_key_do_not_overtake_a_request_that_is_given_up(rig: Rig, is_defect: bool) -> None:
    """A stopping worker gives up requests that wait for a repair, and after a defect the request that caused it.

    The next worker reads them again. Other keys continue, and so does the key when its partition is assigned again.
    """
    repaired = rig.handler.after[b"1"] = asyncio.Event()
    if is_defect:
        rig.handler.error, rig.handler.gates[b"1"] = RuntimeError("a defect"), repaired
        rig.handler.stored = {b"2", b"3", b"x", b"y"}
    else:
        rig.handler.given_up = {b"1"}
    rig.scheduler.submit([*rig.requests(b"1", b"2", b"3", key=b"k"), *rig.requests(b"x", b"y", key=b"other")])
    await run_loop()
    assert [record.value for record in rig.pump.written] == [b"x", b"y"]
    repaired.set()
    later = OffsetTracker("in", 0)
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"1", False), (b"2", False), (b"3", False), (b"x", True), (b"y", True)]
    assert (rig.scheduler.failure.done() and rig.scheduler.failure.exception() is not None) is is_defect
    rig.handler.error, rig.handler.given_up = None, set()
    rig.scheduler.submit(rig.requests(b"1", b"2", b"3", key=b"k", tracker=later))
    await run_loop()
    assert [record.value for record in rig.pump.written] == [b"x", b"y", b"1", b"2", b"3"]


async def test_outcomes_without_key_have_no_order(rig: Rig) -> None:
    """There is no order to keep."""
    rig.handler.gate(b"1")
    rig.scheduler.submit(rig.requests(b"1", b"2", b"3"))
    await run_loop()
    assert [record.value for record in rig.pump.written] == [b"2", b"3"]


@pytest.mark.parametrize("where", ["answers", "refusals"])
async def test_oversized_outcome_is_replaced(rig: Rig, where: str) -> None:
    """Whether the client or a broker refuses it."""
    getattr(rig.pump, where).append(TOO_LARGE)
    rig.scheduler.submit(rig.requests(b"a"))
    await run_loop()
    assert rig.pump.written[-1].value == b"too large"
    assert list(rig.settled_requests()) == [(b"a", True)]


async def test_refused_outcome_is_retried(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to write it waits, and the error is visible."""
    monkeypatch.setattr(scheduler_module, "PRODUCE_RETRY_S", 0.1)
    rig.pump.answers = [NOT_ALLOWED, NOT_ALLOWED]
    rig.scheduler.submit(rig.requests(b"a"))
    await run_loop()
    assert rig.scheduler.produce_error == "TOPIC_AUTHORIZATION_FAILED"
    assert await becomes_true(lambda: len(rig.pump.written) == 3, START_TIMEOUT_S)
    await run_loop()
    assert rig.scheduler.produce_error is None
    assert list(rig.settled_requests()) == [(b"a", True)]
    assert len(rig.pump.written) == 3


@pytest.mark.parametrize("codes", [("INVALID_RECORD", "INVALID_TIMESTAMP"), ("INVALID_TIMESTAMP", "INVALID_RECORD")])
async def test_remedy_is_told_whichever_record_of_a_batch_reports_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, codes: tuple[str, str]
) -> None:
    """The brokers call the other records of a refused batch INVALID_RECORD."""
    monkeypatch.setattr(scheduler_module, "PRODUCE_RETRY_S", 0.0)
    rig.pump.answers = [KafkaError(getattr(KafkaError, code)) for code in codes]
    rig.scheduler.submit(rig.requests(b"a"))
    assert await becomes_true(lambda: len(rig.pump.written) == 3, START_TIMEOUT_S)
    assert any("clock" in record.error for record in caplog.records)


async def test_oversized_replacement_is_retried(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like any other refused outcome."""
    monkeypatch.setattr(scheduler_module, "PRODUCE_RETRY_S", 0.1)
    rig.pump.answers = [TOO_LARGE, TOO_LARGE, TOO_LARGE]
    rig.scheduler.submit(rig.requests(b"a"))
    await run_loop()
    assert rig.scheduler.produce_error == "MSG_SIZE_TOO_LARGE"
    assert await becomes_true(lambda: len(rig.pump.written) == 4, START_TIMEOUT_S)
    await run_loop()
    assert [record.value for record in rig.pump.written] == [b"a", *[b"too large"] * 3]
    assert list(rig.settled_requests()) == [(b"a", True)]


async def test_refused_outcome_can_be_cancelled(rig: Rig) -> None:
    """The next owner of the partition writes it."""
    rig.pump.answers = [NOT_ALLOWED]
    rig.scheduler.submit(rig.requests(b"a"))
    await run_loop()
    assert (rig.scheduler.in_flight, list(rig.settled_requests())) == (1, [])
    rig.scheduler.revoke([rig.tracker], True)
    await run_loop()
    assert list(rig.settled_requests()) == [(b"a", False)]


async def test_fatal_produce_error_ends_the_worker(rig: Rig) -> None:
    """`failure` gets it, and the request has no outcome."""
    rig.pump.answers = [KafkaError(KafkaError._FATAL, fatal=True)]
    rig.scheduler.submit(rig.requests(b"a"))
    await run_loop()
    with pytest.raises(KafkaException):
        rig.scheduler.failure.result()
    assert list(rig.settled_requests()) == [(b"a", False)]


async def test_handler_exception_ends_the_worker(rig: Rig) -> None:
    """It is a defect, and its request is not finished."""
    rig.handler.error = RuntimeError("a defect")
    rig.scheduler.submit(rig.requests(b"a", b"b"))
    await run_loop()
    with pytest.raises(RuntimeError, match="a defect"):
        rig.scheduler.failure.result()
    assert sorted(rig.settled_requests()) == [(b"a", False), (b"b", False)]


async def test_revocation_cancels_waiting_then_running_requests(rig: Rig) -> None:
    """Other partitions continue."""
    other = OffsetTracker("in", 1)
    for value in (b"a", b"b", b"x"):
        rig.handler.gate(value)
    rig.scheduler.submit([*rig.requests(b"a", b"b"), *rig.requests(b"x", tracker=other), *rig.requests(b"c", b"d")])
    await run_loop()
    rig.scheduler.revoke([rig.tracker], False)
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"c", False), (b"d", False)]
    assert rig.scheduler.in_flight == 3
    rig.scheduler.revoke([rig.tracker], True)
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"a", False), (b"b", False)]
    rig.handler.gate(b"x").set()
    await run_loop()
    assert list(rig.settled_requests()) == [(b"x", True)]


async def test_request_cancelled_before_its_first_step_is_settled(rig: Rig) -> None:
    """A request that is taken and cancelled at the same moment is still settled."""
    rig.scheduler.submit(rig.requests(b"a", key=b"k"))
    rig.scheduler.revoke([rig.tracker], True)
    await run_loop()
    assert list(rig.settled_requests()) == [(b"a", False)]
    assert rig.scheduler.in_flight == 0


async def test_revocation_during_preparation(rig: Rig) -> None:
    """The requests are settled at once, and not processed when the store answers later."""
    rig.handler.lookup_gate = asyncio.Event()
    other = OffsetTracker("in", 1)
    rig.scheduler.submit([*rig.requests(b"a", b"b", key=b"k"), *rig.requests(b"x", tracker=other)])
    await run_loop()
    assert (rig.scheduler.in_flight, rig.scheduler.waiting) == (0, 3)
    rig.scheduler.revoke([rig.tracker], False)
    await run_loop()
    assert list(rig.settled_requests()) == [(b"a", False), (b"b", False)]
    rig.handler.lookup_gate.set()
    await run_loop()
    assert rig.handler.started == [b"x"]
    assert list(rig.settled_requests()) == [(b"x", True)]


async def test_drain_does_not_wait_for_preparation(rig: Rig) -> None:
    """Those requests have not started."""
    rig.handler.lookup_gate = asyncio.Event()
    rig.scheduler.submit(rig.requests(b"a"))
    await rig.scheduler.drain(5)
    await run_loop()
    assert list(rig.settled_requests()) == [(b"a", False)]


async def test_drain_finishes_running_requests(rig: Rig) -> None:
    """Waiting and late requests are cancelled."""
    gate = rig.handler.gate(b"a")
    rig.scheduler.submit(rig.requests(b"a", b"b", b"c", b"d"))
    await run_loop()
    draining = asyncio.create_task(rig.scheduler.drain(5))
    await run_loop()
    rig.scheduler.submit(rig.requests(b"late"))
    gate.set()
    await draining
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"a", True), (b"b", True), (b"c", True), (b"d", True), (b"late", False)]


async def test_drain_has_a_timeout(rig: Rig) -> None:
    """What is not done in time is given up."""
    for value in (b"a", b"b", b"c"):
        rig.handler.gate(value)
    rig.scheduler.submit(rig.requests(b"a", b"b", b"c", b"d"))
    await run_loop()
    await rig.scheduler.drain(0.01)
    await run_loop()
    assert sorted(rig.settled_requests()) == [(b"a", False), (b"b", False), (b"c", False), (b"d", False)]
