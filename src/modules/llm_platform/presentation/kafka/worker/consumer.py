"""The thread that owns the consumer: it reads, keeps the ledgers, and commits.

Any call from another thread would wait behind a running poll, so whatever the others want reaches it through a queue. It
polls whatever happens: a request may take minutes without the group believing that this worker is gone.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.request import OffsetTracker, Request, record_of

# What the consumer's client says of itself once a second: brokers and membership.


Partition = tuple[str, int]

_IN_ORDER: Final = "steady"  # librdkafka's word for a member that has what it shall have


@dataclass(frozen=True, slots=True)
class ClientView:
    """`brokers_up`: different brokers that the consumer has a connection to."""

    brokers_up: int = 0
    joined: bool = False


def client_view(statistics: str) -> ClientView:
    """From librdkafka's statistics, a JSON text."""
    told: dict[str, Any] = json.loads(statistics)
    up = {broker.get("nodeid", -1) for broker in told.get("brokers", {}).values() if broker.get("state") == "UP"}
    known = [
        node for node in up if node >= 0
    ]  # -1: an address to begin with, or a second connection to the coordinator
    return ClientView(len(known), told.get("cgrp", {}).get("join_state") == _IN_ORDER)


# Tells the brokers the floors of the ledgers, and what the brokers took.


log = logging.getLogger(__name__)

COMMIT_EVERY_S: Final = 0.2
SAID_AGAIN_AFTER_S: Final = 60.0  # a refusal comes with every try


class Commits:
    """Of the ledgers that are in `ledgers` now. Only the consumer's thread calls it, but for `age`."""

    def __init__(
        self,
        ledgers: Mapping[Partition, OffsetTracker],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledgers = ledgers
        self._clock = clock
        self._next = 0.0
        self._since: float | None = None  # when there began to be something to commit
        self._sent: deque[float] = deque()  # when those commits were sent that are not answered yet
        self._say_after = 0.0
        self.metadata = ""  # what every commit carries, see group_watch.py; any thread may set it

    def age(self) -> float:
        """Seconds for which something finished has not been committed; 0 when all is."""
        since = self._since
        return self._clock() - since if since is not None and self.waiting() else 0.0

    def waiting(self) -> bool:
        """Whether something is finished and not known to be committed."""
        return any(ledger.floor != ledger.committed for ledger in tuple(self._ledgers.values()))

    def now_and_then(self, consumer: Consumer) -> None:
        """Commit what rose since the last time, when it is time; the answer comes to `answered`."""
        now = self._clock()
        if not self.waiting():
            self._since = None
        elif self._since is None:
            self._since = now
        if now >= self._next:
            self._next = now + COMMIT_EVERY_S
            self._commit(consumer, [ledger for ledger in self._ledgers.values() if ledger.due], wait=False)

    def at_last(self, consumer: Consumer, ledgers: Iterable[OffsetTracker]) -> None:
        """Commit these before they are gone, and wait for the answer."""
        self._commit(consumer, [ledger for ledger in ledgers if ledger.floor != ledger.committed], wait=True)

    def answered(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """What the brokers say to a commit; the client calls this within a poll, in the order of the commits."""
        sent = self._sent.popleft() if self._sent else self._clock()
        for partition in partitions:
            ledger = self._ledgers.get((partition.topic, partition.partition))
            if ledger is None:
                continue
            if error is None and partition.error is None:
                ledger.confirmed(partition.offset)
            else:
                ledger.refused()
        if error is not None:
            self._say(error)
            return
        if self._since is not None:
            self._since = max(self._since, sent)  # what is not committed now was finished after that
        self._say_after = 0.0

    def _say(self, error: KafkaError) -> None:
        now = self._clock()
        if now >= self._say_after:
            self._say_after = now + SAID_AGAIN_AFTER_S
            log.warning("offsets were not committed", extra={"error": error.name()})

    def _commit(self, consumer: Consumer, due: Sequence[OffsetTracker], *, wait: bool) -> None:
        if not due:
            return
        floors = [TopicPartition(ledger.topic, ledger.partition, ledger.floor or 0, self.metadata) for ledger in due]
        for ledger in due:
            ledger.offered = ledger.floor
        self._sent.append(self._clock())
        try:
            if wait:
                self.answered(None, consumer.commit(offsets=floors, asynchronous=False) or [])
            else:
                consumer.commit(offsets=floors, asynchronous=True)
        except KafkaException as error:  # whoever is next does again what was not committed
            self.answered(error.args[0], floors)


POLL_S: Final = 0.1
PAUSE_AFTER_S: Final = 1.0  # to pause throws away what was fetched ahead: only where the window stays full
REVOKE_WAIT_S: Final = 5.0  # for what runs in a partition that another worker takes over
LAST_COMMIT_S: Final = 5.0
CLOSE_S: Final = 10.0
CLOSE_AWAY_S: Final = 0.5
MOST_AT_ONCE: Final = 1000  # records of one cycle
WORTH_IT: Final = 4  # a share of the window: what is taken in handfuls costs more for each
GATHER_S: Final = 0.01  # for which that much room is waited for

Settled = queue.SimpleQueue[Sequence[Request]]


class ConsumerThread:
    """Reads `topics`. `window`: requests that may be with the loop. `arrived` gets the new ones, `let_go` the ledgers that
    were revoked: at first those of their requests that did not begin are to be given up, then (True) all. Both are called
    on this thread. Each request comes back once, through `settled`: finished where `done` is set, else given up.
    """

    def __init__(
        self,
        make_consumer: Callable[[Callbacks], Consumer],
        topics: Sequence[str],
        window: int,
        settled: Settled,
        arrived: Callable[[list[Request]], object],
        let_go: Callable[[Sequence[OffsetTracker], bool], object],
        troubled: Callable[[KafkaError], None],
    ) -> None:
        self._ledgers: dict[Partition, OffsetTracker] = {}
        self.commits = Commits(self._ledgers)
        self._consumer = make_consumer({"on_commit": self.commits.answered, "stats_cb": self._client_said})
        self._topics = list(topics)
        self._window = window
        self._worth_it = window // WORTH_IT
        self._settled = settled
        self._arrived, self._let_go, self._troubled = arrived, let_go, troubled
        self.view = ClientView()
        self._outside = 0  # requests with the loop
        self._paused: set[Partition] = set()  # of those that are assigned
        self.full_at = float("-inf")  # when the window was full last, by the monotonic clock
        self._full_since: float | None = None
        self._draining = self._leaving = False
        self.suspended = False  # nothing is taken until `resume_taking`

    # --- what the other threads may call -------------------------------------------------------------------------------

    def assigned(self) -> dict[Partition, OffsetTracker]:
        """The partitions that this worker has now."""
        return self._ledgers.copy()

    def drain(self) -> None:
        """Take nothing more."""
        self._draining = True
        self._settled.put(())

    def suspend(self) -> None:
        """Take nothing until `resume_taking`, as while the window is full; what was read stays with the loop."""
        self.suspended = True
        self._settled.put(())

    def resume_taking(self) -> None:
        """Take requests again."""
        self.suspended = False
        self._settled.put(())

    def leave(self) -> None:
        """Commit, leave the group, and let `run` return."""
        self._draining = self._leaving = True
        self._settled.put(())

    # --- the thread ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until `leave`. Raises KafkaException where the client is beyond help."""
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        reachable = False
        try:
            while not self._leaving:
                self._cycle()
            reachable = self._last_words()
        finally:
            self._close(CLOSE_S if reachable else CLOSE_AWAY_S)

    def _cycle(self) -> None:
        self._settle(0)
        if 0 < self._room < self._worth_it:
            self._gather()
        if self._room > 0 and not self._draining and not self.suspended:
            self._take(self._room)
        else:
            self._hold()
        self.commits.now_and_then(self._consumer)

    @property
    def _room(self) -> int:
        return self._window - self._outside

    def _gather(self) -> None:
        """The window is almost full: in a moment there will be room for more at once."""
        until = time.monotonic() + GATHER_S
        while self._room < self._worth_it and (left := until - time.monotonic()) > 0 and not self._draining:
            self._settle(left)

    def _take(self, room: int) -> None:
        self._full_since = None
        self._resume(tuple(self._paused))
        first = self._consumer.poll(POLL_S)
        if first is None:
            return
        mine = self._ledgers.get(_place(first))
        more = self._consumer.consume(min(room, MOST_AT_ONCE) - 1, timeout=0) if room > 1 else []
        # The second call may have handed over the partition of the first: its new owner does that request. (Within one
        # call the client itself drops what belongs to an assignment that is over.)
        kept = _trouble_of(first) is not None or mine is self._ledgers.get(_place(first))
        self._deliver([first, *more] if kept else more)

    def _hold(self) -> None:
        """Nothing more fits. For a second that is waited for; then it is better to pause, and to poll on."""
        now = self.full_at = time.monotonic()
        self._full_since = self._full_since or now
        if not self._draining and now - self._full_since < PAUSE_AFTER_S:
            self._settle(COMMIT_EVERY_S)
            return
        self._pause_all()
        came = self._consumer.poll(0)  # only what was fetched before the pause, and the group's affairs
        if came is not None and not self._draining:
            self._deliver([came])
        self._settle(POLL_S)

    def _pause_all(self) -> None:
        """Also the partitions that were assigned while the others were paused."""
        unpaused = [place for place in self._ledgers if place not in self._paused]
        if unpaused:
            self._consumer.pause([TopicPartition(*place) for place in unpaused])
            self._paused.update(unpaused)

    def _resume(self, places: Iterable[Partition]) -> None:
        """Resume those that are paused. librdkafka keeps the pause of a partition over its revocation: one that is not
        resumed before it is handed over would come back paused, and never be read again.
        """
        paused = [place for place in places if place in self._paused]
        if paused:
            self._consumer.resume([TopicPartition(*place) for place in paused])
            self._paused.difference_update(paused)

    def _deliver(self, messages: Sequence[Message]) -> None:
        requests = []
        for message in messages:
            trouble = _trouble_of(message)
            if trouble is not None:
                self._trouble(trouble)
                continue
            ledger = self._ledger_for(message)
            if ledger is None:
                continue
            if message.error() is not None:
                ledger.reach(message.offset() or 0)
                continue
            record = record_of(message)
            ledger.start(record.offset)
            requests.append(Request(record, ledger))
        if requests:
            self._outside += len(requests)
            self._arrived(requests)

    def _ledger_for(self, message: Message) -> OffsetTracker | None:
        """The ledger of its partition, a fresh one when the position was set back, or the log was cut. None where the
        partition is another worker's by now: a floor of ours there would hide what that one has not finished.
        """
        place = _place(message)
        ledger = self._ledgers.get(place)
        if ledger is not None and message.error() is None and not ledger.follows(message.offset() or 0):
            ledger = self._ledgers[place] = OffsetTracker(*place)
        return ledger

    def _settle(self, wait_s: float) -> None:
        """Write down what is over; where nothing is, wait so long for the first."""
        try:
            requests = self._settled.get(timeout=wait_s) if wait_s else self._settled.get_nowait()
            while True:
                for request in requests:
                    self._outside -= 1
                    if request.done:
                        request.ledger.finish(request.record.offset)
                    else:
                        request.ledger.abandon()
                requests = self._settled.get_nowait()
        except queue.Empty:
            return

    # --- the end -------------------------------------------------------------------------------------------------------

    def _last_words(self) -> bool:
        """Commit what is finished, with an end to the waiting: a synchronous commit has none while the brokers are away.
        Whether they answered.
        """
        self._settle(0)
        until = time.monotonic() + LAST_COMMIT_S
        while (waiting := self.commits.waiting()) and time.monotonic() < until:
            self.commits.now_and_then(self._consumer)
            self._consumer.poll(POLL_S)
        self._ledgers.clear()  # leaving revokes the partitions: there is nothing more to commit
        return not waiting

    def _close(self, within_s: float) -> None:
        """Leave the group. A commit that no broker answers holds the client up for most of a minute, and it cannot be told
        to stop: then it is left behind, on a thread that does not keep the process.
        """
        closing = threading.Thread(target=self._consumer.close, name="kafka-close", daemon=True)
        closing.start()
        closing.join(within_s)
        if closing.is_alive():
            log.warning("the group was not told that this worker leaves: no broker answers")

    # --- the group -----------------------------------------------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._ledgers[each.topic, each.partition] = OffsetTracker(each.topic, each.partition)
        log.info("partitions assigned", extra={"partitions": _names(partitions)})

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Finish what runs there, within a limit, commit, and hand over the rest."""
        leaving = self._ledgers_of(partitions)
        self._let_go(leaving, False)
        until = time.monotonic() + REVOKE_WAIT_S
        while any(ledger.running for ledger in leaving) and time.monotonic() < until:
            self._settle(POLL_S)
        self.commits.at_last(consumer, leaving)
        self._forget(partitions, leaving)
        log.info("partitions handed over", extra={"partitions": _names(partitions)})

    def _on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """They are another worker's already: nothing may be committed any more."""
        self._forget(partitions, self._ledgers_of(partitions))
        log.warning("partitions lost", extra={"partitions": _names(partitions)})

    def _ledgers_of(self, partitions: Sequence[TopicPartition]) -> list[OffsetTracker]:
        found = (self._ledgers.get((each.topic, each.partition)) for each in partitions)
        return [ledger for ledger in found if ledger is not None]

    def _forget(self, partitions: Sequence[TopicPartition], ledgers: Sequence[OffsetTracker]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        self._resume(places)  # the client itself fetches nothing more of them now
        for place in places:
            self._ledgers.pop(place, None)
        self._let_go(ledgers, True)

    # --- what the client says ------------------------------------------------------------------------------------------

    def _client_said(self, statistics: str) -> None:
        self.view = client_view(statistics)

    def _trouble(self, error: KafkaError) -> None:
        if error.fatal():
            raise KafkaException(error)
        self._troubled(error)


def _trouble_of(message: Message) -> KafkaError | None:
    """None for a record, and for the end of a partition, which the client reports like an error."""
    error = message.error()
    return None if error is None or error.code() == KafkaError._PARTITION_EOF else error


def _place(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{each.topic}/{each.partition}" for each in partitions]
