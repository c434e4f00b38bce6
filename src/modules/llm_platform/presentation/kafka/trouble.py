"""What the clients complain about: said once, not with every try."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError

log = logging.getLogger(__name__)

AGAIN_AFTER_S: Final = 60.0


class Trouble:
    """`broken` is called for what the clients cannot get over: everything else they try on by themselves."""

    def __init__(self, broken: Callable[[KafkaError], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._broken = broken
        self._clock = clock
        self._said: dict[int, float] = {}  # by code, when

    def note(self, error: KafkaError) -> None:
        """A broker that is away, a topic that is not there; on whichever thread polls."""
        now = self._clock()
        if now >= self._said.get(error.code(), now):
            self._said[error.code()] = now + AGAIN_AFTER_S
            log.warning("the brokers give trouble", extra={"error": error.name(), "said": error.str()})
        if error.fatal():
            self._broken(error)
