"""The port of a schema registry."""

from abc import ABC, abstractmethod


class ISchemaRegistry(ABC):
    """Stores the versions of JSON Schemas by subject. All methods raise SchemaRegistryError."""

    @abstractmethod
    async def find(self, subject: str, schema: str) -> int | None:
        """Return the id of this schema under the subject; None: it is not registered there."""

    @abstractmethod
    async def register(self, subject: str, schema: str) -> int:
        """Register the schema as the latest version, unless it is registered already; return its id."""

    @abstractmethod
    async def is_compatible(self, subject: str, schema: str) -> bool:
        """Return whether the registry would accept the schema as the next version of the subject; true without a version."""
