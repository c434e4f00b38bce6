"""Kills workers under load, lets others come and go under a backlog, and then asks the checker.

Always so many workers live in one group; each has its fate, and when it has met it the next one joins. Requests come at the
pace of the kills, so that there is work at each of them. After the kills come the moves: workers that stay are joined by
one that leaves again, nobody is killed or started anew, and they are to answer all that is asked.
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
from tests.crash.checker import Record, Verdict, judge, read_topics
from tests.crash.fates import ANY_TIME, LEAVES, POINTS, WHILE_IT_STOPS, Fate, fates
from tests.crash.workload import Ask, asks, slow_asks
from tests.kafka.broker import Broker
from tests.kafka.foreign import ForeignClient
from tests.kafka.worker_handle import WorkerHandle, WorkerTold

GROUP = "crash"
WORKERS = 3
AHEAD = 3  # shares of requests that are sent before their kill
PATIENCE_S = 12.0  # for a point to be passed; then it is a kill at any time
BEFORE_IT_STOPS_S = 0.7  # it has joined and works
LOOK_S = 0.05
FLUSH_S = 60.0
SETTLE_S = 120.0
KILLED = -signal.SIGKILL
STAYING = 2  # workers, in the moves
SLOW_S, SLOW = 2.5, 24  # requests of each topic that keep windows full for longer than it takes until a worker pauses
SLOW_AT_ONCE = 4  # of a worker in the moves
LONGEST_VISIT_S = 4.0  # of a worker that leaves under the backlog
AFTER_A_MOVE = 120  # requests
QUIET_S = 30.0  # in which the workers that are up answer them; alone they take a second


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
    """What happened. `kills`: how to how many; `ends`: workers that ended as they were not told to, with their last words."""

    kills: Mapping[str, int]
    left: int
    ends: Sequence[str]
    sent: int
    seconds: float
    verdict: Verdict


class Conductor:
    """One run on a broker that has the topics. `restart` takes the broker away and brings it back."""

    def __init__(self, broker: Broker, plan: Plan, folder: Path, restart: Callable[[], None] | None = None) -> None:
        self._plan, self._folder, self._broker = plan, folder, broker
        self._restart = restart or self._away_and_back
        self._dice = dice = random.Random(plan.seed)
        self._fates = deque(fates(plan.kills, dice))
        self._asks = asks(random.Random(plan.seed))
        self._lock = threading.Lock()
        self._kills: Counter[str] = Counter()
        self._killed = self._left = self._sent = self._written = self._number = 0
        self._ends: list[str] = []
        self._refused: list[str] = []
        self._quiet: list[list[Record]] = []  # what the topics held when everything was to be answered

    def run(self) -> Run:
        """AssertionError where the workers never finish, or the load could not be sent."""
        began = time.monotonic()
        with ThreadPoolExecutor(WORKERS, "slot") as slots:
            running = [slots.submit(self._slot) for _ in range(WORKERS)]
            self._load(lambda: all(slot.done() for slot in running))
            for slot in running:
                slot.result()
        if self._plan.moves:
            self._come_and_go()
        self._finish()
        records = asyncio.run(read_topics(self._broker.bootstrap))
        verdict = judge(records, self._quiet)
        assert verdict.requests == self._written, f"{verdict.requests} requests in the topics, {self._written} were written"
        return Run(self._kills, self._left, self._ends, self._sent, time.monotonic() - began, verdict)

    # --- the load ------------------------------------------------------------------------------------------------------

    def _load(self, over: Callable[[], bool]) -> None:
        """So many requests for each kill, some ahead; the broker goes away where its turn is."""
        plan, producer = self._plan, self._producer()
        restarts = deque(plan.kills * (number + 1) // (plan.restarts + 1) for number in range(plan.restarts))
        while not over():
            kills = self._killed
            due = min(plan.requests, plan.requests * (kills + AHEAD) // plan.kills)
            self._send(producer, due - self._sent)
            if restarts and kills >= restarts[0]:
                restarts.popleft()
                self._restart()
            producer.poll(LOOK_S)
        self._send(producer, plan.requests - self._sent)
        self._flush(producer)

    def _send(self, producer: Producer, count: int) -> None:
        for ask in islice(self._asks, max(count, 0)):
            self._produce(producer, ask)

    def _flush(self, producer: Producer) -> None:
        assert producer.flush(FLUSH_S) == 0, "the broker does not take the requests"
        assert not self._refused, self._refused[:3]

    def _produce(self, producer: Producer, ask: Ask) -> None:
        self._sent += 1
        headers = list(ask.headers) or None
        producer.produce(ask.topic, ask.value, ask.key, headers=headers, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._written += 1
        else:
            self._refused.append(error.name())

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._broker.bootstrap, "enable.idempotence": True, "log_level": 0,
                "reconnect.backoff.max.ms": 500,
            }
        )  # fmt: skip

    def _away_and_back(self) -> None:
        self._broker.down()
        time.sleep(1)
        self._broker.up()

    # --- the workers ---------------------------------------------------------------------------------------------------

    def _slot(self) -> None:
        """One worker after the other, until there is no fate left."""
        for fate in self._next_fates():
            told = self._told()
            if fate.how in POINTS:
                told = replace(told, crash_at=fate.how, crash_after=fate.passes)
            with WorkerHandle(told) as worker:
                worker.ready()
                code = _meet(worker, fate)
                self._note(fate, worker, code)

    def _next_fates(self) -> Iterator[Fate]:
        while True:
            try:
                yield self._fates.popleft()
            except IndexError:
                return

    def _note(self, fate: Fate, worker: WorkerHandle, code: int | None) -> None:
        with self._lock:
            if code is None or (fate.is_kill and code == KILLED):
                self._kills[ANY_TIME if code is None else fate.how] += 1
                self._killed += 1
            elif code == 0 and fate.how in (LEAVES, WHILE_IT_STOPS):
                self._left += 1
                if fate.is_kill:  # it was faster: another is killed in its place
                    self._fates.append(Fate(ANY_TIME, after_s=fate.after_s))
            else:
                self._killed += fate.is_kill  # the load goes on
                self._ends.append(f"{worker.told.name} ({fate.how}): exit code {code}\n{worker.last_words()}")

    def _come_and_go(self) -> None:
        """Workers that stay, and one after the other that joins and leaves. Nobody starts anew before the last look; it ends
        early where something was not answered.
        """
        producer = self._producer()
        with ExitStack() as stack:
            told = [replace(self._told(), concurrency=SLOW_AT_ONCE) for _ in range(STAYING + self._plan.moves)]
            staying = [stack.enter_context(WorkerHandle(each)).ready() for each in told[:STAYING]]
            if self._all_answered(SETTLE_S):
                for number, each in enumerate(told[STAYING:]):
                    if not self._move(producer, each, under_backlog=number % 2 == 1):
                        break
            self._stop(staying)

    def _move(self, producer: Producer, told: WorkerTold, *, under_backlog: bool) -> bool:
        """One joins while every window is full, and leaves when all is done, or before. Then comes what those that stay
        are to answer. Whether all was answered.
        """
        for ask in slow_asks(self._dice, SLOW, SLOW_S):
            self._produce(producer, ask)
        self._flush(producer)
        with WorkerHandle(told) as worker:
            worker.ready()
            if under_backlog:
                time.sleep(self._dice.uniform(0, LONGEST_VISIT_S))
            elif not self._all_answered(SETTLE_S):
                return False
            self._stop([worker])
        self._send(producer, AFTER_A_MOVE)
        self._flush(producer)
        return self._all_answered(QUIET_S)

    def _all_answered(self, within_s: float) -> bool:
        """Whether the workers that are up answer all that was asked; the checker gets what the topics hold then."""
        try:
            asyncio.run(self._settled(within_s))
        except AssertionError:
            answered = False
        else:
            answered = True
        self._quiet.append(asyncio.run(read_topics(self._broker.bootstrap)))
        return answered

    def _stop(self, workers: Sequence[WorkerHandle]) -> None:
        for worker in workers:
            if code := worker.stop():
                self._ends.append(f"{worker.told.name}: exit code {code}\n{worker.last_words()}")

    def _finish(self) -> None:
        """New workers, of which nobody is killed, until every request is committed."""
        with ExitStack() as stack:
            workers = [stack.enter_context(WorkerHandle(self._told())).ready() for _ in range(WORKERS)]
            asyncio.run(self._settled(SETTLE_S))
            self._stop(workers)

    async def _settled(self, within_s: float) -> None:
        await ForeignClient(self._broker.bootstrap, GROUP).settled(timeout_s=within_s)

    def _told(self) -> WorkerTold:
        with self._lock:
            self._number += 1
            return WorkerTold(
                self._broker.bootstrap, str(self._folder), self._broker.client, group=GROUP,
                name=f"worker-{self._number}", concurrency=self._plan.concurrency,
            )  # fmt: skip


def _meet(worker: WorkerHandle, fate: Fate) -> int | None:
    """The exit code of a worker that met its fate; None where it had to be killed instead."""
    if fate.how in (ANY_TIME, LEAVES, "in_shutdown"):
        time.sleep(fate.after_s)
        return _killed(worker) if fate.how == ANY_TIME else worker.stop()
    if fate.how == WHILE_IT_STOPS:
        time.sleep(BEFORE_IT_STOPS_S)
        worker.ask_to_stop()
        time.sleep(fate.after_s)
        return _killed(worker)
    try:
        return worker.wait_for_end(PATIENCE_S)
    except AssertionError:
        _killed(worker)
        return None


def _killed(worker: WorkerHandle) -> int:
    worker.kill()
    return worker.wait_for_end()
