"""What the consumer's client says of itself once a second: brokers and membership."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

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
    known = [node for node in up if node >= 0]  # -1: an address to begin with, or a second connection to the coordinator
    return ClientView(len(known), told.get("cgrp", {}).get("join_state") == _IN_ORDER)
