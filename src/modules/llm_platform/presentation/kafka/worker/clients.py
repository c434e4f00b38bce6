"""Makes Kafka's clients."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from modules.llm_platform.presentation.kafka.contract.outcomes import OUTCOME_BYTES
from shared.config import SettingsError

# The settings of librdkafka's clients: the operator's, on top of ours, below those that the delivery promise needs.


Value = str | int | float | bool
Config = dict[str, Value]

# Each of these, changed, loses a request, tells two outcomes in the wrong order, or forgets one that was computed.
PROMISED_CONSUMER: Final[Mapping[str, Value]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",  # with latest, what was sent before the group first met is never answered
    "enable.partition.eof": True,  # tells the lag what is read: the end may lie behind markers, which are no requests
    "isolation.level": "read_committed",  # what a transaction took back was never asked
}
PROMISED_PRODUCER: Final[Mapping[str, Value]] = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 0,  # broker away: an outcome waits for as long as it takes
    "delivery.report.only.error": False,  # nobody would say that an outcome is written
}
OURS_CONSUMER: Final[Mapping[str, Value]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "queued.max.messages.kbytes": 16_384,  # fetched ahead; the window decides how much is worked on
    "statistics.interval.ms": 1000,  # lag and state for the metrics
}
# Under KIP-848 the brokers assign. Their own choice, "uniform", evens out the partitions of all topics together: with two
# topics one of three workers gets only answers. "range" deals out topic by topic.
OURS_NEW_PROTOCOL: Final[Mapping[str, Value]] = {"group.remote.assignor": "range"}
OURS_PRODUCER: Final[Mapping[str, Value]] = {
    "linger.ms": 0,  # a single outcome does not wait; those of one turn of the loop go together all the same
    "topic.metadata.refresh.interval.ms": 60_000,  # a topic that is made later is found
}
OURS_BOTH: Final[Mapping[str, Value]] = {
    "client.id": "llm-platform-worker",
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
}
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "auto.commit.enable": "enable.auto.commit",
    "metadata.broker.list": "bootstrap.servers",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
_FROM_SETTINGS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "KAFKA_BOOTSTRAP_SERVERS",
    "group.id": "KAFKA_GROUP_ID",
}
_UNUSABLE: Final = frozenset(
    {"transactional.id", "test.mock.num.brokers", "on_commit", "on_delivery", "logger", "enable.gapless.guarantee"}
)
_CALLBACK: Final = "_cb"  # how the names of functions end, which no JSON can hold
_CONSUMER_ONLY: Final = (
    "fetch.", "group.", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "queued.",
    "isolation.level", "partition.assignment.strategy", "check.crcs", "coordinator.query.interval.ms",
    "max.partition.fetch.bytes", "allow.auto.create.topics", "auto.offset.reset", "enable.auto.", "auto.commit.",
    "offset.store.", "enable.partition.eof", "client.rack", "statistics.interval.ms",
)  # fmt: skip
_PRODUCER_ONLY: Final = (
    "acks", "request.required.acks", "request.timeout.ms", "message.timeout.ms", "delivery.timeout.ms", "linger.ms",
    "queue.buffering.", "batch.", "compression.", "retries", "message.send.max.retries", "retry.backoff.",
    "enable.idempotence", "partitioner", "sticky.partitioning.linger.ms", "dr_msg_cb", "delivery.report.only.error",
)  # fmt: skip
_NEW_PROTOCOL_DECIDES: Final = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


def check_given(given: Mapping[str, Value]) -> None:
    """SettingsError when KAFKA_CONFIG changes what the promise needs, or what another variable says."""
    promised = {**PROMISED_CONSUMER, **PROMISED_PRODUCER}
    for name, value in given.items():
        canonical = _OTHER_NAMES.get(name, name)
        if canonical in _FROM_SETTINGS:
            raise _wrong(f"sets {name}, which {_FROM_SETTINGS[canonical]} says: leave it out")
        if canonical in _UNUSABLE or canonical.endswith(_CALLBACK):
            raise _wrong(f"sets {name}, which the worker cannot use: leave it out")
        if canonical in promised and _plain(value) not in _same_as(canonical, promised[canonical]):
            raise _wrong(
                f"sets {name}, but the delivery promise needs {canonical}={_plain(promised[canonical])}: leave it out"
            )
        if canonical == "message.max.bytes" and _number(value) < OUTCOME_BYTES:
            raise _wrong(f"sets {name} below the {OUTCOME_BYTES} bytes that an outcome may have: leave it out")


def consumer_config(brokers: Iterable[str], group_id: str, given: Mapping[str, Value]) -> Config:
    """What the consumer is made with. Raises SettingsError."""
    check_given(given)
    told = {name: value for name, value in given.items() if not name.startswith(_PRODUCER_ONLY)}
    config: Config = {**OURS_BOTH, **OURS_CONSUMER, **told, **PROMISED_CONSUMER}
    if config.get("group.protocol") == "consumer":  # then the brokers decide these, and librdkafka refuses them
        kept = {name: value for name, value in config.items() if name in given or name not in _NEW_PROTOCOL_DECIDES}
        config = {**OURS_NEW_PROTOCOL, **kept}
    return _named_once(config) | {"bootstrap.servers": ",".join(brokers), "group.id": group_id}


def producer_config(brokers: Iterable[str], given: Mapping[str, Value]) -> Config:
    """What the producer is made with. Raises SettingsError."""
    check_given(given)
    told = {name: value for name, value in given.items() if not name.startswith(_CONSUMER_ONLY)}
    return _named_once({**OURS_BOTH, **OURS_PRODUCER, **told, **PROMISED_PRODUCER}) | {
        "bootstrap.servers": ",".join(brokers)
    }


def admin_config(brokers: Iterable[str], given: Mapping[str, Value]) -> Config:
    """What a client is made with that only asks: how to connect, and nothing of reading or writing."""
    check_given(given)
    either = _CONSUMER_ONLY + _PRODUCER_ONLY
    told = {name: value for name, value in given.items() if not name.startswith(either)}
    return {**OURS_BOTH, **told, "bootstrap.servers": ",".join(brokers)}


def _wrong(what: str) -> SettingsError:
    return SettingsError(f"KAFKA_CONFIG {what}")


def _plain(value: Value) -> str:
    return str(value).lower()


def _number(value: Value) -> float:
    """What it says as a number; of what says none librdkafka will tell."""
    try:
        return float(value)
    except ValueError:
        return float("inf")


def _same_as(name: str, value: Value) -> tuple[str, ...]:
    return ("all", "-1") if name == "acks" else (_plain(value), "smallest" if value == "earliest" else _plain(value))


def _named_once(config: Config) -> Config:
    """Without second names for what is there by its first."""
    return {
        name: value for name, value in config.items() if name not in _OTHER_NAMES or _OTHER_NAMES[name] not in config
    }


log = logging.getLogger(__name__)

_QUOTED_VALUE: Final = re.compile(r'(?<=alue) ".*?"(?= for)', re.DOTALL)  # it may be a secret; its name is said as well

Callbacks = dict[str, Callable[..., Any]]
Client = TypeVar("Client")


def make_consumer(config: Config, callbacks: Callbacks) -> Consumer:
    """SettingsError when the settings are wrong; nothing is connected yet."""
    return _made(Consumer, config, callbacks)


def make_producer(config: Config, callbacks: Callbacks) -> Producer:
    """As `make_consumer`."""
    return _made(Producer, config, callbacks)


def make_admin(config: Config, callbacks: Callbacks | None = None) -> AdminClient:
    """As `make_consumer`."""
    return _made(AdminClient, config, callbacks or {})


class _ClientLog:
    """librdkafka says twenty times a second that a broker is away. What matters comes through `error_cb` as well."""

    def log(self, level: int, template: str, *parts: object) -> None:
        """Its calling convention is that of a logger."""
        log.debug(template, *parts, extra={"client_level": logging.getLevelName(level)})


def _made(kind: Callable[..., Client], config: Config, callbacks: Callbacks) -> Client:
    try:
        return kind({**config, **callbacks}, logger=_ClientLog())
    except KafkaException as error:
        said = _QUOTED_VALUE.sub("", error.args[0].str())
        raise SettingsError(f"KAFKA_CONFIG cannot be used: {said}") from None
    except (
        TypeError,
        ValueError,
    ):  # the library's words for a value of another kind than it wants, and they may hold it
        raise SettingsError("KAFKA_CONFIG cannot be used: one of its values is of the wrong kind") from None


# What the brokers say when they are asked, or that they do not.


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class NoAdminReply:
    """`code` is that of a KafkaError, None where there was no answer at all; `why` its name."""

    code: int | None
    why: str

    @property
    def words(self) -> str:
        return f"could not be found out: the brokers do not say ({self.why})"


NOT_KEPT: Final = NoAdminReply(None, "they keep no rights")


def admin_reply(answer: Future[Result], within_s: float) -> Result | NoAdminReply:
    """The answer, or why there is none."""
    try:
        return answer.result(within_s)
    except KafkaException as error:
        return NoAdminReply(error.args[0].code(), error.args[0].name())
    except TimeoutError:
        return NoAdminReply(None, "no answer")
