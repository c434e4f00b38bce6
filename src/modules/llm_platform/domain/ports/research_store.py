"""The port of the store that keeps every stage of every research by topic (requirement MS8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.store_dtos import (
    Imported,
    StoredEntry,
    StoredTopic,
    StoreStage,
    StoreStats,
    Topic,
)

Value = TypeVar("Value", bound=BaseModel)


class IResearchStore(ABC):
    """A store whose entries outlive the process. What it cannot read it does not have: it never fails a research."""

    @abstractmethod
    async def get(self, topic: Topic, stage: StoreStage, key: str, kind: type[Value]) -> Value | None:
        """The value kept under the key (`domain.store_key`), or None: never kept, too old, or damaged."""

    @abstractmethod
    async def put(self, topic: Topic, stage: StoreStage, key: str, value: BaseModel) -> None:
        """Keep the value: from now on it is there whole, whatever happens to this process; before, it is not there.

        With a value that `EndsTopic` the topic is finished. A store that cannot be written to logs it and keeps nothing.
        """

    @abstractmethod
    async def values(self, topic: Topic, stage: StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        """All values of one stage of one topic, oldest first. Each counts as a hit; none at all is a miss."""

    @abstractmethod
    async def topics(self) -> tuple[StoredTopic, ...]:
        """What is kept, newest first."""

    @abstractmethod
    async def entries(self, name: str) -> tuple[StoredEntry, ...]:
        """The entries of the topic of that name, in the order of the stages. TopicNotFoundError when there is none."""

    @abstractmethod
    async def clear(self, name: str | None = None) -> int:
        """Remove one topic (TopicNotFoundError when it is not there) or all; how many entries that were."""

    @abstractmethod
    async def clean(self) -> int:
        """Remove what is older than the store keeps things; how many entries that were."""

    @abstractmethod
    async def stats(self) -> StoreStats:
        """Entries, bytes, age and hits by stage."""

    @abstractmethod
    async def export(self, file: Path, name: str | None = None) -> int:
        """Write one topic or all into a zip file, in one step; how many entries that were. StoreError when it cannot."""

    @abstractmethod
    async def import_(self, file: Path) -> Imported:
        """Take the entries of an exported file. StoreError, and nothing taken, where the file is none or holds tricks."""
