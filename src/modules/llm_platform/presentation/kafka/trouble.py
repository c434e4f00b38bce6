"""What the clients complain about: said once, not with every try; and what is meant by it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Final

from confluent_kafka import KafkaError

log = logging.getLogger(__name__)

AGAIN_AFTER_S: Final = 60.0

# By the error's code and words of librdkafka's own, most telling first; a group of the pattern goes into the text.
CAUSES: Final[tuple[tuple[int, str, str], ...]] = (
    (
        KafkaError._AUTHENTICATION, r"handshake failed.*supported mechanisms: *([\w, -]*)",
        "the brokers do not take this way to log in (they offer: {}): check sasl.mechanism and security.protocol in "
        "KAFKA_CONFIG",
    ),
    (
        KafkaError._AUTHENTICATION, "",
        "wrong user name or password: check sasl.username and sasl.password in KAFKA_CONFIG",
    ),
    (
        KafkaError._SSL, "certificate verify failed",
        "unknown CA, or a certificate for another name: set ssl.ca.location in KAFKA_CONFIG to the CA that signed the brokers' "
        "certificate, and name them in KAFKA_BOOTSTRAP_SERVERS as it does",
    ),
    (KafkaError._SSL, "", "TLS fails: check security.protocol and the ssl.… settings in KAFKA_CONFIG"),
    (
        KafkaError._RESOLVE, r"Failed to resolve '([^']*)'",
        "unknown host: {} has no address; check KAFKA_BOOTSTRAP_SERVERS",
    ),
    (
        KafkaError._TRANSPORT, "PLAINTEXT broker listener|SSL connection closed",
        "no TLS is spoken there: check security.protocol in KAFKA_CONFIG, or the port in KAFKA_BOOTSTRAP_SERVERS",
    ),
    (KafkaError._TRANSPORT, "Connection refused", "nothing listens there: check KAFKA_BOOTSTRAP_SERVERS"),
)  # fmt: skip


def cause_of(errors: Iterable[KafkaError]) -> str | None:
    """Why no broker could be reached, by what the client complained about meanwhile; None where that does not tell."""
    said = [(error.code(), error.str()) for error in errors]
    for code, pattern, words in CAUSES:
        for its_code, text in said:
            if code == its_code and (found := re.search(pattern, text)):
                return words.format(*(group.strip() or "none" for group in found.groups()))
    return None


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
