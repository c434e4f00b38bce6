"""The contract of schema registries: in memory, and Confluent's API on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.fakes.schema_registry import MemorySchemaRegistry, SchemaRegistryContract
from tests.integration.test_schema_registry import LOGIN, FakeRegistry

from modules.llm_platform.domain.ports.schema_registry import ISchemaRegistry
from modules.llm_platform.infrastructure.confluent_schema_registry import ConfluentSchemaRegistry


class TestMemorySchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registry(self) -> MemorySchemaRegistry:
        return MemorySchemaRegistry()

    @pytest.fixture
    def refuse(self, registry: MemorySchemaRegistry) -> Callable[[str], None]:
        return registry.incompatible.add

    @pytest.fixture
    def fail(self, registry: MemorySchemaRegistry) -> Callable[[], None]:
        def fail() -> None:
            registry.is_broken = True

        return fail


class TestConfluentSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def server(self) -> Iterator[FakeRegistry]:
        with FakeRegistry() as fake:
            yield fake

    @pytest.fixture
    def registry(self, server: FakeRegistry) -> ISchemaRegistry:
        return ConfluentSchemaRegistry(server.url, LOGIN)

    @pytest.fixture
    def refuse(self, server: FakeRegistry) -> Callable[[str], None]:
        return server.incompatible.add

    @pytest.fixture
    def fail(self, server: FakeRegistry) -> Callable[[], None]:
        def fail() -> None:
            server.broken = True

        return fail
