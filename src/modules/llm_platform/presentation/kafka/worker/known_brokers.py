"""Recognises a client of librdkafka that knows no broker any more, and so never connects again.

A broker that shuts down can answer a metadata request with topics and no brokers. librdkafka (2.12 to 2.16 at least) then
removes all brokers that it knows, the ones of bootstrap.servers too, and nothing adds them again: only a new client connects.
https://github.com/confluentinc/librdkafka/issues/5301
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer

from modules.llm_platform.presentation.kafka.worker.clients import Callbacks

log = logging.getLogger(__name__)

LOST_AFTER_S: Final = 3.0  # a client that bootstraps anew may know no broker for a moment
REPLACED: Final = "a Kafka client has forgotten all brokers and is replaced: librdkafka's issue 5301"
_KNOWN: Final = frozenset({"configured", "learned"})  # the other sources are librdkafka's own: internal, logical


class KnownBrokers:
    """Reads the statistics of one client. Brokers that are known and cannot be reached are not lost."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._none_since: float | None = None

    def update(self, statistics: str) -> dict[str, Any]:
        """Record whether the client knows a broker, and return the parsed statistics."""
        parsed: dict[str, Any] = json.loads(statistics)
        if any(broker.get("source") in _KNOWN for broker in parsed.get("brokers", {}).values()):
            self._none_since = None
        elif self._none_since is None:
            self._none_since = self._clock()
        return parsed

    @property
    def are_lost(self) -> bool:
        """True if the client has known no broker for LOST_AFTER_S: it has to be replaced."""
        return self._none_since is not None and self._clock() - self._none_since >= LOST_AFTER_S


class GroupReader:
    """The client of `make_group_reader`, replaced when it has lost its brokers."""

    def __init__(self, make_client: Callable[[Callbacks], Consumer]) -> None:
        self._make_client = make_client
        self._open()

    def _open(self) -> None:
        self._brokers = KnownBrokers()
        self._client = self._make_client({"stats_cb": self._brokers.update})

    def client(self) -> Consumer:
        """Return a client that can be queried, after its log and statistics were handled."""
        self._client.poll(0)
        if self._brokers.are_lost:
            log.warning(REPLACED, extra={"client": "group reader"})
            self._client.close()
            self._open()
        return self._client

    def close(self) -> None:
        self._client.close()
