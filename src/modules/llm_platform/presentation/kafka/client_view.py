"""What the consumer's client says of itself once a second: brokers, membership, lag."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Partition = tuple[str, int]

_IN_ORDER: Final = "steady"  # librdkafka's word for a member that has what it shall have
_NOT_READ_HERE: Final = "none"


@dataclass(frozen=True, slots=True)
class ClientView:
    """`lag`: requests of a partition that are not committed; of the partitions that this worker has."""

    brokers_up: int = 0
    joined: bool = False
    lag: Mapping[Partition, int] = field(default_factory=dict)


def client_view(statistics: str, ends: Mapping[Partition, int]) -> ClientView:
    """From librdkafka's statistics, a JSON text. `ends`: what is known better, since a paused partition is not fetched."""
    told: dict[str, Any] = json.loads(statistics)
    up = [broker for broker in told.get("brokers", {}).values() if broker.get("state") == "UP"]
    lag = {
        (topic, int(number)): behind
        for topic, about in told.get("topics", {}).items()
        for number, partition in about.get("partitions", {}).items()
        if partition.get("fetch_state", _NOT_READ_HERE) != _NOT_READ_HERE
        and (behind := _lag(partition, ends.get((topic, int(number)), -1))) is not None
    }
    return ClientView(len(up), told.get("cgrp", {}).get("join_state") == _IN_ORDER, lag)


def _lag(partition: Mapping[str, int], end: int) -> int | None:
    """None while nothing is known of the partition yet. What was never committed begins with the oldest."""
    end = max(partition.get("hi_offset", -1), end)
    committed = partition.get("committed_offset", -1)
    start = committed if committed >= 0 else max(partition.get("lo_offset", 0), 0)
    return None if end < 0 else max(end - start, 0)
