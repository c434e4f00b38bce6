"""Tells the brokers the floors of the ledgers, and what the brokers took."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.client_view import Partition
from modules.llm_platform.presentation.kafka.offsets import PartitionLedger

log = logging.getLogger(__name__)

COMMIT_EVERY_S: Final = 0.2
SAID_AGAIN_AFTER_S: Final = 60.0  # a refusal comes with every try


class Commits:
    """Of the ledgers that are in `ledgers` now. Only the consumer's thread calls it, but for `age`."""

    def __init__(
        self,
        ledgers: Mapping[Partition, PartitionLedger],
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

    def at_last(self, consumer: Consumer, ledgers: Iterable[PartitionLedger]) -> None:
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

    def _commit(self, consumer: Consumer, due: Sequence[PartitionLedger], *, wait: bool) -> None:
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
