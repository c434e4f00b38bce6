"""Kills workers under load, then lets workers join and leave under a backlog, and runs the checker.

A fixed number of workers runs in one group. Each worker has a planned end, and the next worker joins after it. Requests are
sent at the rate of the kills, so every kill happens under load. Then come the moves: one worker after another joins the staying
workers and leaves. The moves kill no worker, and the workers must answer all requests.
"""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from tests.crash.checker import Record, Verdict, committed_too_early, judge, read_topics
from tests.crash.evidence import evidence
from tests.crash.planned_ends import ANY_TIME, LEAVES, POINTS, WHILE_IT_STOPS, PlannedEnd, plan_ends
from tests.crash.workload import LoadRequest, generate_requests, slow_requests
from tests.kafka.broker import Broker
from tests.kafka.reference_client import ReferenceClient
from tests.kafka.worker_handle import WorkerConfig, WorkerHandle

GROUP = "crash"
WORKERS = 3
AHEAD = 3  # the load sends the requests of this many kills ahead
POINT_TIMEOUT_S = 12.0  # limit for passing the crash point; then the worker is killed wherever it is
BEFORE_IT_STOPS_S = 0.7  # by then the worker has joined and works
POLL_S = 0.05
FLUSH_S = 180.0  # a broker may have to start in this time
SETTLE_S = 120.0
KILLED = -signal.SIGKILL
STAYING = 2  # workers that stay during the moves
SLOW_S, SLOW = 2.5, 24  # duration and number per topic: they keep the windows full until a worker pauses
SLOW_AT_ONCE = 4  # concurrency of a worker in the moves
MAX_VISIT_S = 4.0  # longest stay of a worker that leaves under the backlog
AFTER_A_MOVE = 120  # requests
ANSWER_TIMEOUT_S = 90.0  # limit for the running workers on a busy machine; a second is usual


@dataclass(frozen=True, slots=True)
class Plan:
    """`restarts`: how often the broker stops and starts again, spread over the run. `moves`: how many workers join under a
    backlog and leave, after the kills. Each move sends more requests on top of `requests`.
    """

    requests: int
    kills: int
    restarts: int = 0
    moves: int = 2
    seed: int = 1
    concurrency: int = 16


@dataclass(frozen=True, slots=True)
class Run:
    """The result. `kills`: count by kind. `ends`: unexpected ends, with the tail of the log. `evidence`: lines that explain
    the problems of the verdict.
    """

    kills: Mapping[str, int]
    left: int
    ends: Sequence[str]
    sent: int
    seconds: float
    verdict: Verdict
    evidence: Sequence[str] = ()


class CrashRun:
    """One run on a broker that has the topics. `restart` stops and starts the broker or another server that the workers need.
    `database_url`: the workers share this PostgreSQL database. Without it they share a file in `folder`.
    """

    def __init__(
        self,
        broker: Broker,
        plan: Plan,
        folder: Path,
        restart: Callable[[], None] | None = None,
        database_url: str | None = None,
    ) -> None:
        self._database_url = database_url
        self._plan, self._folder, self._broker = plan, folder, broker
        self._restart = restart or self._restart_broker
        self._rng = rng = random.Random(plan.seed)
        self._ends_to_run = deque(plan_ends(plan.kills, rng))
        self._requests = generate_requests(random.Random(plan.seed))
        self._lock = threading.Lock()
        self._kills: Counter[str] = Counter()
        self._killed = self._left = self._sent = self._written = self._number = 0
        self._ends: list[str] = []
        self._refused: list[str] = []
        self._early: list[str] = []
        self._snapshots: list[list[Record]] = []  # the topics when every request should be answered

    def run(self) -> Run:
        """Raises AssertionError if the workers never finish or the load cannot be sent."""
        began = time.monotonic()
        with ThreadPoolExecutor(WORKERS, "slot") as slots:
            running = [slots.submit(self._slot) for _ in range(WORKERS)]
            self._load(lambda: all(slot.done() for slot in running))
            for slot in running:
                slot.result()
        if self._plan.moves:
            self._run_moves()
        self._finish()
        records = asyncio.run(read_topics(self._broker.bootstrap))
        verdict = judge(records, self._snapshots)
        assert verdict.requests == self._written, (
            f"{verdict.requests} requests in the topics, {self._written} were written"
        )
        verdict = replace(verdict, problems=(*self._early, *verdict.problems))
        seconds = time.monotonic() - began
        explained = evidence(verdict.problems, records, asyncio.run(self._committed()), self._folder)
        return Run(self._kills, self._left, self._ends, self._sent, seconds, verdict, explained)

    # --- the load ------------------------------------------------------------------------------------------------------

    def _load(self, over: Callable[[], bool]) -> None:
        """Send an equal share of the requests for each kill, some shares ahead, and restart the broker when a restart is due.

        A librdkafka client can forget all brokers while one shuts down (librdkafka issue 5301). The workers must replace such
        a client themselves. This producer only sends the load, so each restart gets a new producer.
        """
        plan, producer = self._plan, self._producer()
        restarts = deque(plan.kills * (number + 1) // (plan.restarts + 1) for number in range(plan.restarts))
        while not over():
            kills = self._killed
            due = min(plan.requests, plan.requests * (kills + AHEAD) // plan.kills)
            self._send(producer, due - self._sent)
            if restarts and kills >= restarts[0]:
                restarts.popleft()
                self._flush(producer)
                self._restart()
                producer = self._producer()
                self._early += asyncio.run(self._committed_too_early())
            producer.poll(POLL_S)
        self._send(producer, plan.requests - self._sent)
        self._flush(producer)

    def _send(self, producer: Producer, count: int) -> None:
        for request in islice(self._requests, max(count, 0)):
            self._produce(producer, request)

    def _flush(self, producer: Producer) -> None:
        assert producer.flush(FLUSH_S) == 0, "the broker does not take the requests"
        assert not self._refused, self._refused[:3]

    def _produce(self, producer: Producer, request: LoadRequest) -> None:
        self._sent += 1
        headers = list(request.headers) or None
        producer.produce(request.topic, request.value, request.key, headers=headers, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._written += 1
        else:
            self._refused.append(error.name())

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "reconnect.backoff.max.ms": 500,
                "max.in.flight.requests.per.connection": 1,  # a record that is reported as delivered is in its topic
            }
        )

    def _restart_broker(self) -> None:
        self._broker.down()
        time.sleep(1)
        self._broker.up()

    async def _committed_too_early(self) -> list[str]:
        """Return the committed requests without an outcome. The workers keep running meanwhile."""
        committed = await self._committed()
        return list(committed_too_early(await read_topics(self._broker.bootstrap), committed))

    async def _committed(self) -> dict[tuple[str, int], int]:
        return await ReferenceClient(self._broker.bootstrap, GROUP).committed()

    # --- the workers ---------------------------------------------------------------------------------------------------

    def _slot(self) -> None:
        """Run workers one after another until no planned end is left."""
        for end in self._next_ends():
            config = self._worker_config()
            if end.how in POINTS:
                config = replace(config, crash_at=end.how, crash_after=end.passes)
            with WorkerHandle(config) as worker:
                worker.ready()
                code = _run_to_end(worker, end)
                self._note(end, worker, code)

    def _next_ends(self) -> Iterator[PlannedEnd]:
        while True:
            try:
                yield self._ends_to_run.popleft()
            except IndexError:
                return

    def _note(self, end: PlannedEnd, worker: WorkerHandle, code: int | None) -> None:
        with self._lock:
            if code is None or (end.is_kill and code == KILLED):
                self._kills[ANY_TIME if code is None else end.how] += 1
                self._killed += 1
            elif code == 0 and end.how in (LEAVES, WHILE_IT_STOPS):
                self._left += 1
                if end.is_kill:  # it ended before the kill, so another worker is killed instead
                    self._ends_to_run.append(PlannedEnd(ANY_TIME, after_s=end.after_s))
            else:
                self._killed += end.is_kill  # otherwise the load would stop
                self._ends.append(f"{worker.config.name} ({end.how}): exit code {code}\n{worker.log_tail()}")

    def _run_moves(self) -> None:
        """Some workers stay, and one worker after another joins and leaves. No worker restarts before the last check. The
        moves end early if a request is not answered.
        """
        producer = self._producer()
        with ExitStack() as stack:
            config = [
                replace(self._worker_config(), concurrency=SLOW_AT_ONCE) for _ in range(STAYING + self._plan.moves)
            ]
            staying = [stack.enter_context(WorkerHandle(worker)).ready() for worker in config[:STAYING]]
            if self._all_answered(SETTLE_S):
                for number, worker in enumerate(config[STAYING:]):
                    if not self._move(producer, worker, under_backlog=number % 2 == 1):
                        break
            self._stop(staying)

    def _move(self, producer: Producer, config: WorkerConfig, *, under_backlog: bool) -> bool:
        """A worker joins while every window is full, and leaves when all requests are answered, or under the backlog. Then
        the staying workers must answer new requests. Return whether every request was answered.
        """
        for request in slow_requests(self._rng, SLOW, SLOW_S):
            self._produce(producer, request)
        self._flush(producer)
        with WorkerHandle(config) as worker:
            worker.ready()
            if under_backlog:
                time.sleep(self._rng.uniform(0, MAX_VISIT_S))
            elif not self._all_answered(SETTLE_S):
                return False
            self._stop([worker])
        self._send(producer, AFTER_A_MOVE)
        self._flush(producer)
        return self._all_answered(ANSWER_TIMEOUT_S)

    def _all_answered(self, within_s: float) -> bool:
        """Return whether the running workers answer every request. A snapshot of the topics is kept for the checker."""
        try:
            asyncio.run(self._settled(within_s))
        except AssertionError:
            answered = False
        else:
            answered = True
        self._snapshots.append(asyncio.run(read_topics(self._broker.bootstrap)))
        return answered

    def _stop(self, workers: Sequence[WorkerHandle]) -> None:
        for worker in workers:
            if code := worker.stop():
                self._ends.append(f"{worker.config.name}: exit code {code}\n{worker.log_tail()}")

    def _finish(self) -> None:
        """Run new workers without kills until every request is committed."""
        with ExitStack() as stack:
            workers = [stack.enter_context(WorkerHandle(self._worker_config())).ready() for _ in range(WORKERS)]
            asyncio.run(self._settled(SETTLE_S))
            self._stop(workers)

    async def _settled(self, within_s: float) -> None:
        await ReferenceClient(self._broker.bootstrap, GROUP).settled(timeout_s=within_s)

    def _worker_config(self) -> WorkerConfig:
        with self._lock:
            self._number += 1
            return WorkerConfig(
                self._broker.bootstrap,
                str(self._folder),
                self._broker.client,
                group=GROUP,
                name=f"worker-{self._number}",
                concurrency=self._plan.concurrency,
                database_url=self._database_url,
            )


def _run_to_end(worker: WorkerHandle, end: PlannedEnd) -> int | None:
    """Run the worker to its planned end. Return its exit code, or None if it never reached its crash point and was killed."""
    if end.how in (ANY_TIME, LEAVES, "in_shutdown"):
        time.sleep(end.after_s)
        return _killed(worker) if end.how == ANY_TIME else worker.stop()
    if end.how == WHILE_IT_STOPS:
        time.sleep(BEFORE_IT_STOPS_S)
        worker.ask_to_stop()
        time.sleep(end.after_s)
        return _killed(worker)
    try:
        return worker.wait_for_end(POINT_TIMEOUT_S)
    except AssertionError:
        _killed(worker)
        return None


def _killed(worker: WorkerHandle) -> int:
    worker.kill()
    return worker.wait_for_end()
