"""Kills workers under load, then lets workers join and leave under a backlog, and runs the checker.

A fixed number of workers runs in one group; each has a planned end, and the next one joins after it. Requests are sent at the
rate of the kills, so that there is load at each of them. In the moves that follow, staying workers are joined by one that
leaves again; nobody is killed, and they must answer all requests.
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
AHEAD = 3  # shares of requests that are sent before their kill
POINT_TIMEOUT_S = 12.0  # time for a point to be passed; then it is a kill at any time
BEFORE_IT_STOPS_S = 0.7  # it has joined and works
POLL_S = 0.05
FLUSH_S = 180.0  # a broker may have to start meanwhile
SETTLE_S = 120.0
KILLED = -signal.SIGKILL
STAYING = 2  # workers, in the moves
SLOW_S, SLOW = 2.5, 24  # requests of each topic that keep windows full for longer than it takes until a worker pauses
SLOW_AT_ONCE = 4  # slow requests of a worker in the moves
MAX_VISIT_S = 4.0  # time of a worker that leaves under the backlog
AFTER_A_MOVE = 120  # requests
ANSWER_TIMEOUT_S = 90.0  # the workers that are up answer within it, also on a busy machine; a second is usual


@dataclass(frozen=True, slots=True)
class Plan:
    """`restarts`: moments at which the broker is taken away and comes back, spread over the run. `moves`: workers that
    join under a backlog and leave, after the kills; each sends requests of its own, on top of `requests`.
    """

    requests: int
    kills: int
    restarts: int = 0
    moves: int = 2
    seed: int = 1
    concurrency: int = 16


@dataclass(frozen=True, slots=True)
class Run:
    """The result. `kills`: number by kind; `ends`: unexpected ends, with the log's tail; `evidence`: lines that explain the
    problems of the verdict.
    """

    kills: Mapping[str, int]
    left: int
    ends: Sequence[str]
    sent: int
    seconds: float
    verdict: Verdict
    evidence: Sequence[str] = ()


class CrashRun:
    """One run on a broker that has the topics. `restart` takes the broker away and brings it back, or another server that the
    workers need. `database_url`: the workers share PostgreSQL, else a file in `folder`.
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
        self._snapshots: list[list[Record]] = []  # what the topics held when everything was to be answered

    def run(self) -> Run:
        """AssertionError where the workers never finish, or the load could not be sent."""
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
        """So many requests for each kill, some ahead; the broker goes away where its turn is.

        A client of librdkafka can forget all brokers while one shuts down (its issue 5301). The workers replace such a
        client, and must; this producer only brings the load, so it is a new one after each restart.
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
                "max.in.flight.requests.per.connection": 1,  # what is reported as delivered is in its topic
            }
        )

    def _restart_broker(self) -> None:
        self._broker.down()
        time.sleep(1)
        self._broker.up()

    async def _committed_too_early(self) -> list[str]:
        """Return what has no outcome although its offset is committed, while the workers go on."""
        committed = await self._committed()
        return list(committed_too_early(await read_topics(self._broker.bootstrap), committed))

    async def _committed(self) -> dict[tuple[str, int], int]:
        return await ReferenceClient(self._broker.bootstrap, GROUP).committed()

    # --- the workers ---------------------------------------------------------------------------------------------------

    def _slot(self) -> None:
        """Run workers one after the other until no planned end is left."""
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
                if end.is_kill:  # it was faster: another is killed in its place
                    self._ends_to_run.append(PlannedEnd(ANY_TIME, after_s=end.after_s))
            else:
                self._killed += end.is_kill  # the load goes on
                self._ends.append(f"{worker.config.name} ({end.how}): exit code {code}\n{worker.log_tail()}")

    def _run_moves(self) -> None:
        """Workers that stay, and one after the other that joins and leaves. Nobody starts anew before the last look; it ends
        early where something was not answered.
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
        """One joins while every window is full, and leaves when all is done, or before. Then comes what those that stay
        are to answer. Whether all was answered.
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
        """Return whether the workers that are up answer all that was asked; the checker gets what the topics hold then."""
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
        """New workers, of which nobody is killed, until every request is committed."""
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
    """Run the worker to its planned end; return its exit code, or None where it had to be killed instead."""
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
