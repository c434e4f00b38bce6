"""May this user produce idempotently? The brokers are asked for a producer id, as each worker does; nothing is written.

Since Kafka 2.8 the right to write to any topic is enough; before, it took IdempotentWrite on the cluster. Whoever asks need
not know which it is.
"""

from __future__ import annotations

import json
import time
from typing import Final

from confluent_kafka import KafkaException

from modules.llm_platform.presentation.kafka.client_config import Config
from modules.llm_platform.presentation.kafka.clients import make_producer
from modules.llm_platform.presentation.kafka.told import NotTold

POLL_S: Final = 0.1
_ASSIGNED: Final = "Assigned"
_NO_ANSWER: Final = NotTold(None, "no answer")


def producer_id_refused(config: Config, within_s: float) -> NotTold | None:
    """None when there is an id to be had; else what the brokers said instead. Raises SettingsError."""
    states: list[str] = []

    def note(statistics: str) -> None:
        states.append(json.loads(statistics).get("eos", {}).get("idemp_state", ""))

    producer = make_producer({**config, "statistics.interval.ms": int(POLL_S * 1000)}, {"stats_cb": note})
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            producer.poll(POLL_S)
        except KafkaException as refused:
            return NotTold(refused.args[0].code(), refused.args[0].name())
        if _ASSIGNED in states:
            return None
    return _NO_ANSWER
