"""The port of the research store, which stores the stages of each research run by topic."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from modules.llm_platform.domain.dtos import store_dtos as dtos

Value = TypeVar("Value", bound=BaseModel)


class IResearchStore(ABC):
    """A durable store. An entry that cannot be read counts as absent, so that no research run fails because of it."""

    @abstractmethod
    async def get(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, kind: type[Value]) -> Value | None:
        """Return the value of the key (`domain.research.store_key`), or None: never stored, expired, or damaged."""

    @abstractmethod
    async def put(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, value: BaseModel) -> None:
        """Store the value durably and atomically: a crash leaves either the complete value or none.

        A value that `EndsTopic` finishes the topic. A value that cannot be stored is logged. Raises StoreError if nothing can
        be written.
        """

    @abstractmethod
    async def values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        """Return all values of one stage of one topic, oldest first. Each counts as a hit, an empty result as a miss."""

    @abstractmethod
    async def topics(self) -> tuple[dtos.StoredTopic, ...]:
        """Return the stored topics, newest first."""

    @abstractmethod
    async def entries(self, name: str) -> tuple[dtos.StoredEntry, ...]:
        """Return the entries of the topic, in the order of the stages. Raises TopicNotFoundError."""

    @abstractmethod
    async def clear(self, name: str | None = None) -> int:
        """Remove one topic (or raise TopicNotFoundError) or all; return the number of entries removed."""

    @abstractmethod
    async def clean(self) -> int:
        """Remove the expired entries; return their number."""

    @abstractmethod
    async def stats(self) -> dtos.StoreStats:
        """Return the entries, bytes, age and hits of each stage."""

    @abstractmethod
    async def export(self, file: Path, name: str | None = None) -> int:
        """Write one topic or all into a zip file, atomically; return the number of entries. Raises StoreError."""

    @abstractmethod
    async def import_(self, file: Path) -> dtos.Imported:
        """Add the entries of an exported file. Raises StoreError, and adds nothing, if the file is invalid or malicious."""
