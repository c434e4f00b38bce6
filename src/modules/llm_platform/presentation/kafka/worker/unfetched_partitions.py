"""Detects a librdkafka consumer that never fetches some of its assigned partitions.

When the coordinator of a group has moved, the whole request for committed offsets of newly assigned partitions can fail with
NOT_COORDINATOR. librdkafka (2.13 to 2.16 at least) does not repeat that request, so these partitions are never fetched.
Partitions that the member should give up may never pass to another member either. Only a new member continues.
https://github.com/confluentinc/librdkafka/issues/5586
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from modules.llm_platform.presentation.kafka.worker.offsets import Partition

STUCK_AFTER_S: Final = 10.0  # the committed offsets are known within a second of the assignment
_NOT_FETCHED: Final = "none"  # librdkafka's fetch_state of a partition whose fetching was never started
_UP, _STEADY = "up", "steady"  # states of a group's coordinator, and of a member whose assignment is complete


class UnfetchedPartitions:
    """Reads the statistics of one consumer. A partition without a leader is not stuck: its fetching has begun."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Partition, float] = {}  # times at which partitions were first seen as not fetched

    def update(self, statistics: Mapping[str, Any], assigned: Iterable[Partition]) -> None:
        """Note which of the assigned partitions are not fetched."""
        group = statistics.get("cgrp", {})
        if group.get("state") != _UP or group.get("join_state") != _STEADY:
            self._since.clear()  # offsets cannot be asked for, or the assignment is under way
            return
        now, topics = self._clock(), statistics.get("topics", {})
        self._since = {
            (topic, number): self._since.get((topic, number), now)
            for topic, number in assigned
            if topics.get(topic, {}).get("partitions", {}).get(str(number), {}).get("fetch_state") == _NOT_FETCHED
        }

    @property
    def are_stuck(self) -> bool:
        """True if a partition has not been fetched for STUCK_AFTER_S: the consumer has to be replaced."""
        return bool(self._since) and self._clock() - min(self._since.values()) >= STUCK_AFTER_S
