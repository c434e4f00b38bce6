"""librdkafka's mock cluster through its public C functions. The broker is part of the wheel: it needs no Java and no download.

Only the C functions can choose the partitions of a topic, shorten the first join of a group and take the broker down.
They are called on the library that confluent_kafka has loaded. The API is experimental, so `load` looks up every function
once and reports a missing one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

PRODUCER = 0  # rd_kafka_type_t
CONF_OK = 0
ALL_BROKERS = -1
PRODUCE = 0  # ApiKey of the protocol
JOIN_DELAY_MS = 50  # librdkafka's default is 3 s
SESSION_MS = 3000  # a killed member loses its partitions after this time; librdkafka's default is 30 s
HEARTBEAT_MS = 100  # of the consumer protocol; decides how soon a member learns of a new assignment
ERROR_BYTES = 512
CALL_S = 60.0

_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_FUNCTIONS: Mapping[str, tuple[type | None, tuple[type, ...]]] = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set": (_INT, (_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_err2name": (_TEXT, (_INT,)),
    "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_POINTER,)),
    "rd_kafka_mock_topic_create": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_set_group_consumer_heartbeat_interval_ms": (None, (_POINTER, _INT)),
    "rd_kafka_mock_set_group_consumer_session_timeout_ms": (None, (_POINTER, _INT)),
    "rd_kafka_mock_broker_set_down": (_INT, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_broker_set_up": (_INT, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_broker_set_rtt": (_INT, (_POINTER, ctypes.c_int32, _INT)),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        (_POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(_INT)),
    ),
}


class MockUnavailable(Exception):  # noqa: N818  the name states a fact
    """This build of confluent-kafka does not offer the functions of the mock cluster."""


def library() -> Path:
    """Return the librdkafka file of the installed wheel. Raises MockUnavailable."""
    for file in metadata.files("confluent-kafka") or ():
        if file.name.startswith("librdkafka") and (".so" in file.name or file.suffix in (".dylib", ".dll")):
            return Path(str(file.locate()))
    raise MockUnavailable("the wheel of confluent-kafka holds no librdkafka: is it the system's?")


def load() -> ctypes.CDLL:
    """Return the library with typed functions. Raises MockUnavailable."""
    import confluent_kafka  # noqa: F401  loads the libraries that librdkafka needs

    try:
        loaded = ctypes.CDLL(str(library()))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise MockUnavailable(f"librdkafka cannot be called: {error}") from error
    return loaded


class CMockCluster:
    """One mock cluster in this process. `close` destroys it."""

    def __init__(self, brokers: int = 1) -> None:
        self._c = load()
        self._handle = self._new_handle()
        self._cluster = self._c.rd_kafka_mock_cluster_new(self._handle, brokers)
        if not self._cluster:
            raise MockUnavailable("librdkafka made no mock cluster")
        self._c.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, JOIN_DELAY_MS)
        self._c.rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(self._cluster, HEARTBEAT_MS)
        self._c.rd_kafka_mock_set_group_consumer_session_timeout_ms(self._cluster, SESSION_MS)
        self.bootstrap = str(self._c.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())

    def _new_handle(self) -> int:
        """Return the client that owns the cluster. It has no address, so it connects to no broker."""
        conf, error = self._c.rd_kafka_conf_new(), ctypes.create_string_buffer(ERROR_BYTES)
        if self._c.rd_kafka_conf_set(conf, b"log_level", b"0", error, ERROR_BYTES) != CONF_OK:
            raise MockUnavailable(error.value.decode())
        handle = self._c.rd_kafka_new(PRODUCER, conf, error, ERROR_BYTES)
        if not handle:
            raise MockUnavailable(error.value.decode())
        return int(handle)

    def create_topic(self, name: str, partitions: int) -> None:
        if partitions < 1:  # librdkafka would abort the process
            raise RuntimeError(f"a topic has at least one partition, not {partitions}")
        self._check(self._c.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1))

    def down(self) -> None:
        self._check(self._c.rd_kafka_mock_broker_set_down(self._cluster, ALL_BROKERS))

    def up(self) -> None:
        self._check(self._c.rd_kafka_mock_broker_set_up(self._cluster, ALL_BROKERS))

    def delay_replies(self, delay_ms: int) -> None:
        self._check(self._c.rd_kafka_mock_broker_set_rtt(self._cluster, ALL_BROKERS, delay_ms))

    def refuse_next_produce(self, code: int) -> None:
        """Answer the next produce request of any client with this protocol error, and write nothing."""
        self._c.rd_kafka_mock_push_request_errors_array(self._cluster, PRODUCE, 1, (_INT * 1)(code))

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(f"the mock cluster refused: {self._c.rd_kafka_err2name(code).decode()}")

    def close(self) -> None:
        self._c.rd_kafka_mock_cluster_destroy(self._cluster)
        self._c.rd_kafka_destroy(self._handle)


class PlainMockCluster:
    """The fallback, enabled by a producer setting. Topics have four partitions, a first join takes 3 s, and it is always up."""

    partitions = 4

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1, "log_level": 0})
        brokers = self._producer.list_topics(timeout=CALL_S).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def create_topic(self, name: str, partitions: int) -> None:
        if partitions != self.partitions:
            raise RuntimeError(f"the plain mock cluster makes {self.partitions} partitions a topic, not {partitions}")
        self._producer.list_topics(name, timeout=CALL_S)  # the metadata request creates the topic

    def down(self) -> None:
        raise RuntimeError("the plain mock cluster cannot be taken down")

    def up(self) -> None:
        raise RuntimeError("the plain mock cluster was never down")

    def delay_replies(self, delay_ms: int) -> None:
        raise RuntimeError("the plain mock cluster cannot delay replies")

    def refuse_next_produce(self, code: int) -> None:
        raise RuntimeError("the plain mock cluster refuses nothing")

    def close(self) -> None:
        self._producer.flush(0)
