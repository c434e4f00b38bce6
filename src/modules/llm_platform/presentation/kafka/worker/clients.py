"""Configure and create Kafka clients, and explain their errors and admin replies."""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from modules.llm_platform.presentation.kafka.contract.outcomes import DEFAULT_RECORD_BYTES
from shared.config import Settings, SettingsError
from shared.setting_types import REGISTERS_SCHEMAS, TOPIC_OPTION

log = logging.getLogger(__name__)

Value = str | int | float | bool
Config = dict[str, Value]
Callbacks = dict[str, Callable[..., Any]]
Client = TypeVar("Client")
Result = TypeVar("Result")

# --- configuration ---------------------------------------------------------------------------------------------------------
# KAFKA_CONFIG overrides the defaults, and must not change the options that the delivery guarantee requires. All clients get all
# of it, because librdkafka ignores the options of the other kind of client.

# With another value of any of these options, a request, an outcome or the order of outcomes is lost.
REQUIRED_CONSUMER: Final[Mapping[str, Value]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",  # "latest" skips requests that were sent before the group first connected.
    "enable.partition.eof": True,  # The lag needs the position, because the end may be behind transaction markers.
    "isolation.level": "read_committed",  # Requests of an aborted transaction are not answered.
}
REQUIRED_PRODUCER: Final[Mapping[str, Value]] = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 0,  # An outcome waits for unreachable brokers without a limit.
    "delivery.report.only.error": False,  # An offset is committed after the delivery report.
    # A restarting broker may refuse a request and then accept the next one, which is already on its way: as it has no sequence
    # number of this producer, it takes any as the first. librdkafka then reports the refused request as written.
    "max.in.flight.requests.per.connection": 1,
}
DEFAULT_CONSUMER: Final[Mapping[str, Value]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "queued.max.messages.kbytes": 16_384,  # This limits prefetched messages. The in-flight window limits running requests.
}
# With KIP-848 the brokers assign partitions. Their default, "uniform", balances the partitions of all topics together, so with
# two topics one of three workers gets only one of them. "range" balances each topic.
DEFAULT_KIP_848: Final[Mapping[str, Value]] = {"group.remote.assignor": "range"}
DEFAULT_PRODUCER: Final[Mapping[str, Value]] = {
    "linger.ms": 0,  # A single outcome is sent at once. Those of one loop iteration still form a batch.
    "topic.metadata.refresh.interval.ms": 60_000,  # Topics that are created later are found.
}
DEFAULT_CLIENT: Final[Mapping[str, Value]] = {
    "client.id": "llm-platform-worker",
    "statistics.interval.ms": 1000,  # Readiness, metrics and known_brokers.py need the statistics.
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
}
_ALIASES: Final[Mapping[str, str]] = {
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "auto.commit.enable": "enable.auto.commit",
    "metadata.broker.list": "bootstrap.servers",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
_EQUIVALENT_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "acks": ("all", "-1"),
    "auto.offset.reset": ("earliest", "smallest"),
}
_SETTINGS: Final[Mapping[str, str]] = {"bootstrap.servers": "KAFKA_BOOTSTRAP_SERVERS", "group.id": "KAFKA_GROUP_ID"}
_UNSUPPORTED: Final = frozenset(
    {"transactional.id", "test.mock.num.brokers", "on_commit", "on_delivery", "logger", "enable.gapless.guarantee"}
)
_CLASSIC_ONLY: Final = ("partition.assignment.strategy",)  # The new protocol has no use for these defaults.


def check_config(config: Mapping[str, Value]) -> None:
    """Raise SettingsError if KAFKA_CONFIG has an option that the delivery guarantee or another variable determines."""
    required = {**REQUIRED_CONSUMER, **REQUIRED_PRODUCER}
    for name, value in config.items():
        canonical = _ALIASES.get(name, name)
        if canonical in _SETTINGS:
            problem = f", which {_SETTINGS[canonical]} determines"
        elif canonical in _UNSUPPORTED or canonical.endswith("_cb"):
            problem = ", which the worker does not support"
        elif canonical in required and not _is_equal(canonical, value, required[canonical]):
            problem = f", but the delivery guarantee requires {canonical}={_normalize(required[canonical])}"
        elif canonical == "message.max.bytes" and _number(value) < DEFAULT_RECORD_BYTES:
            problem = f" below the {DEFAULT_RECORD_BYTES} bytes that an outcome may have"
        else:
            continue
        raise SettingsError(f"KAFKA_CONFIG sets {name}{problem}: leave it out")


def make_consumer_config(brokers: Iterable[str], group_id: str, config: Mapping[str, Value]) -> Config:
    """Return the configuration of the consumer. Raises SettingsError."""
    check_config(config)
    defaults = {**DEFAULT_CLIENT, **DEFAULT_CONSUMER}
    if config.get("group.protocol") == "consumer":
        defaults = {**DEFAULT_KIP_848, **{name: defaults[name] for name in defaults if name not in _CLASSIC_ONLY}}
    merged = {**defaults, **config, **REQUIRED_CONSUMER}
    return _without_aliases(merged) | {"bootstrap.servers": ",".join(brokers), "group.id": group_id}


def make_producer_config(brokers: Iterable[str], config: Mapping[str, Value]) -> Config:
    """Return the configuration of the producer. Raises SettingsError."""
    check_config(config)
    merged = {**DEFAULT_CLIENT, **DEFAULT_PRODUCER, **config, **REQUIRED_PRODUCER}
    return _without_aliases(merged) | {"bootstrap.servers": ",".join(brokers)}


def make_admin_config(brokers: Iterable[str], config: Mapping[str, Value]) -> Config:
    """Return the configuration of an admin client. Raises SettingsError."""
    check_config(config)
    return {**DEFAULT_CLIENT, "statistics.interval.ms": 0, **config, "bootstrap.servers": ",".join(brokers)}


def _without_aliases(config: Config) -> Config:
    """Return the configuration without aliases whose canonical names it has, too."""
    return {name: value for name, value in config.items() if name not in _ALIASES or _ALIASES[name] not in config}


def _is_equal(name: str, value: Value, required: Value) -> bool:
    return _normalize(value) in _EQUIVALENT_VALUES.get(name, (_normalize(required),))


def _normalize(value: Value) -> str:
    return str(value).lower()


def _number(value: Value) -> float:
    """Return the number, or infinity for any other text, which librdkafka refuses with a message."""
    try:
        return float(value)
    except ValueError:
        return float("inf")


_OWN_OPTIONS: Final = (TOPIC_OPTION, "schema.registry.", REGISTERS_SCHEMAS)  # librdkafka does not get these options.

# --- security --------------------------------------------------------------------------------------------------------------

_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")


def make_client_settings(settings: Settings) -> Config:
    """Return librdkafka's options of KAFKA_CONFIG, with their secrets in plain text.

    Raises SettingsError for an option that the protocol does not use, since a password without effect would go unnoticed.
    """
    config = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in settings.KAFKA_CONFIG.items()
        if not name.startswith(_OWN_OPTIONS)
    }
    protocol = str(config.get("security.protocol", "PLAINTEXT")).upper()
    for name in config:
        kind = name.partition(".")[0].upper()
        if kind in ("SSL", "SASL") and kind not in protocol.split("_"):
            remedy = "SASL_SSL" if kind == "SASL" else "SSL or SASL_SSL"
            raise SettingsError(
                f"KAFKA_CONFIG: {name} has no effect with {protocol}: set security.protocol to {remedy}"
            )
    if "sasl.username" in config and not config.keys() & set(_MECHANISMS):
        raise SettingsError("KAFKA_CONFIG: sasl.username needs sasl.mechanism, for example SCRAM-SHA-512")
    return config


# --- creation --------------------------------------------------------------------------------------------------------------

_QUOTED_VALUE: Final = re.compile(r'(?<=alue) ".*?"(?= for)', re.DOTALL)  # The value may be a secret.


def make_consumer(config: Config, callbacks: Callbacks) -> Consumer:
    """Create a consumer, which connects later. Raises SettingsError for an invalid configuration."""
    return _create(Consumer, config, callbacks)


def make_group_reader(
    brokers: Iterable[str], group_id: str, config: Mapping[str, Value], callbacks: Callbacks | None = None
) -> Consumer:
    """Create a consumer that reads the group's offsets. It never subscribes, so it is not a member of the group.

    An AdminClient could query all offsets at once. But librdkafka 2.16 aborts the process if the group's coordinator moves or
    is away during the query (assertion in rd_kafka_enq_once_del_source_return).
    """
    return make_consumer(make_consumer_config(brokers, group_id, config), callbacks or {})


def make_producer(config: Config, callbacks: Callbacks) -> Producer:
    """Create a producer, as `make_consumer` does a consumer."""
    return _create(Producer, config, callbacks)


def make_admin(config: Config, callbacks: Callbacks | None = None) -> AdminClient:
    """Create an admin client, as `make_consumer` does a consumer."""
    return _create(AdminClient, config, callbacks or {})


class _ClientLog:
    """The logger of a client. It logs with DEBUG, because librdkafka repeats errors many times a second.

    `error_cb` gets the errors, too.
    """

    def log(self, level: int, template: str, *parts: object) -> None:
        """Log a message, with the parameters of logging.Logger.log."""
        log.debug(template, *parts, extra={"client_level": logging.getLevelName(level)})


def _create(client_type: Callable[..., Client], config: Config, callbacks: Callbacks) -> Client:
    try:
        return client_type({**config, **callbacks}, logger=_ClientLog())
    except KafkaException as error:
        text = _QUOTED_VALUE.sub("", error.args[0].str())
        raise SettingsError(f"the settings of the Kafka client cannot be used: {text}") from None
    except (TypeError, ValueError):
        # The message of the library may quote the value.
        raise SettingsError(
            "the settings of the Kafka client cannot be used: one of its values is of the wrong type"
        ) from None


# --- errors ----------------------------------------------------------------------------------------------------------------

ERROR_LOG_INTERVAL_S: Final = 60.0

_REFUSED_CERTIFICATE: Final = r"alert (?:[\w ]*certificate|unknown ca)"  # TLS 1.2 and 1.3 have different texts.
_CERTIFICATE_REMEDY: Final = (
    "the brokers refuse the worker's certificate: set ssl.certificate.location and ssl.key.location of "
    "KAFKA_CONFIG to one of a CA that they know"
)

# A row has an error code, a pattern of librdkafka's text, and the remedy, which the group of the pattern fills. The most
# specific rows come first.
REMEDIES: Final[tuple[tuple[int, str, str], ...]] = (
    (
        KafkaError._AUTHENTICATION,
        r"handshake failed.*supported mechanisms: *([\w, -]*)",
        "the brokers do not support this SASL mechanism (supported: {}): check sasl.mechanism and "
        "security.protocol of KAFKA_CONFIG",
    ),
    (
        KafkaError._AUTHENTICATION,
        "",
        "wrong user name or password: check sasl.username and sasl.password of KAFKA_CONFIG",
    ),
    (
        KafkaError._SSL,
        "certificate verify failed",
        "unknown CA, or a certificate for another name: set ssl.ca.location of KAFKA_CONFIG to the CA that signed "
        "the brokers' certificate, and use the names of the certificate in KAFKA_BOOTSTRAP_SERVERS",
    ),
    (KafkaError._SSL, _REFUSED_CERTIFICATE, _CERTIFICATE_REMEDY),
    (KafkaError._TRANSPORT, _REFUSED_CERTIFICATE, _CERTIFICATE_REMEDY),
    (KafkaError._SSL, "", "TLS fails: check security.protocol and the ssl.… options of KAFKA_CONFIG"),
    (
        KafkaError._RESOLVE,
        r"Failed to resolve '([^']*)'",
        "unknown host: {} has no address; check KAFKA_BOOTSTRAP_SERVERS",
    ),
    (
        KafkaError._TRANSPORT,
        "PLAINTEXT broker listener|SSL connection closed",
        "the port does not use TLS: check security.protocol of KAFKA_CONFIG, or the port in KAFKA_BOOTSTRAP_SERVERS",
    ),
    (KafkaError._TRANSPORT, "Connection refused", "nothing listens on the port: check KAFKA_BOOTSTRAP_SERVERS"),
    (
        KafkaError.INVALID_TIMESTAMP,
        "",
        "this machine's clock and the brokers' differ: set it right, or the topic's message.timestamp.type to LogAppendTime",
    ),
    (KafkaError._ALL_BROKERS_DOWN, "", "check KAFKA_BOOTSTRAP_SERVERS and security.protocol of KAFKA_CONFIG"),
)


def find_remedy(errors: Iterable[KafkaError]) -> str | None:
    texts = [(error.code(), error.str()) for error in errors]
    for code, pattern, remedy in REMEDIES:
        for error_code, text in texts:
            if code == error_code and (match := re.search(pattern, text)):
                return remedy.format(*(group.strip() or "none" for group in match.groups()))
    return None


class ClientErrorLog:
    """Logs the errors of clients, each code once in ERROR_LOG_INTERVAL_S. `on_fatal` gets errors that end a client."""

    def __init__(self, on_fatal: Callable[[KafkaError], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._on_fatal = on_fatal
        self._clock = clock
        self._next_log: dict[int, float] = {}  # The keys are error codes.
        self._last: dict[int, tuple[float, KafkaError]] = {}  # The values are the errors by code, with their times.

    def handle(self, error: KafkaError) -> None:
        """Log an error. The thread that polls calls this."""
        now = self._clock()
        self._last[error.code()] = now, error
        if now >= self._next_log.get(error.code(), now):
            self._next_log[error.code()] = now + ERROR_LOG_INTERVAL_S
            about = {"error": error.name(), "text": error.str(), "remedy": find_remedy([error])}
            log.warning(
                "a Kafka client reports an error", extra={name: value for name, value in about.items() if value}
            )
        if error.fatal():
            self._on_fatal(error)

    def remedy(self) -> str | None:
        """Return the cause and the remedy of the last ERROR_LOG_INTERVAL_S, or None if they are unknown."""
        since = self._clock() - ERROR_LOG_INTERVAL_S
        return find_remedy(error for at, error in tuple(self._last.values()) if at > since)


# --- admin replies ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdminFailure:
    """A failed admin request. `code` and `reason` are the code and name of a KafkaError. Without a reply, the code is None."""

    code: int | None
    reason: str

    @property
    def text(self) -> str:
        return f"could not be checked ({self.reason})"


NO_AUTHORIZER: Final = AdminFailure(None, "the brokers have no authorizer")
NO_REPLY: Final = AdminFailure(None, "no reply")


def await_admin_reply(future: Future[Result], timeout_s: float) -> Result | AdminFailure:
    """Return the reply, or an AdminFailure that says why there is none."""
    try:
        return future.result(timeout_s)
    except KafkaException as error:
        return AdminFailure(error.args[0].code(), error.args[0].name())
    except TimeoutError:
        return NO_REPLY
