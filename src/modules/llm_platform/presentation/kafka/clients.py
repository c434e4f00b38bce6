"""Makes Kafka's clients."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from modules.llm_platform.presentation.kafka.client_config import Config
from shared.config import SettingsError

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
    except (TypeError, ValueError):  # the library's words for a value of another kind than it wants, and they may hold it
        raise SettingsError("KAFKA_CONFIG cannot be used: one of its values is of the wrong kind") from None
