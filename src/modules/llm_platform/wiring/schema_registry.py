"""The schemas of the Kafka messages in a schema registry, with SCHEMA_REGISTRY_URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modules.llm_platform.wiring.resources import Resources
from shared.config import Settings, SettingsError

if TYPE_CHECKING:
    from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas

INCOMPLETE_LOGIN = "SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD need each other: set both, or none"


def build_message_schemas(settings: Settings, resources: Resources) -> MessageSchemas | None:
    """Return the schemas, which are looked up when the worker starts; None without a registry. Raises SettingsError."""
    url, user, password = (
        settings.SCHEMA_REGISTRY_URL, settings.SCHEMA_REGISTRY_USERNAME, settings.SCHEMA_REGISTRY_PASSWORD
    )  # fmt: skip
    if url is None:
        return None
    if (user is None) != (password is None):
        raise SettingsError(INCOMPLETE_LOGIN)
    from modules.llm_platform.infrastructure.adapters.confluent_schema_registry import (
        TIMEOUT_S,
        ConfluentSchemaRegistry,
    )
    from modules.llm_platform.presentation.kafka.contract.requests import Topics
    from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas

    auth = None if user is None or password is None else (user, password.get_secret_value())
    registry = ConfluentSchemaRegistry(url, auth, resources.client(url, TIMEOUT_S))
    return MessageSchemas(registry, Topics(settings.KAFKA_TOPICS), registers=settings.SCHEMA_REGISTRY_REGISTER)
