"""The settings of librdkafka's clients: the operator's, on top of ours, below those that the delivery promise needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from modules.llm_platform.presentation.kafka.outcomes import OUTCOME_BYTES
from shared.config import SettingsError

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
