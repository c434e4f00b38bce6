"""The store of researches for other modules and for the doors."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from modules.llm_platform.domain.dtos.store_dtos import Imported, StoredEntry, StoredTopic, StoreStats
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.store_key import topic_of

log = logging.getLogger(__name__)


class FolderIndexes(Protocol):
    """What is kept as long as researches are: the indexes of named folders. Each tells how many it removed."""

    async def clean(self) -> int: ...

    async def clear(self) -> int: ...


class StoreService:
    """Looks after what researches left behind. A topic may be asked for by its name, by the beginning of its name, or by
    its question. What is kept `beside` them is cleaned and cleared with them.
    """

    def __init__(self, store: IResearchStore, beside: FolderIndexes | None = None) -> None:
        self._store = store
        self._beside = beside

    async def topics(self) -> tuple[StoredTopic, ...]:
        """What is kept, newest first."""
        return await self._store.topics()

    async def show(self, asked: str) -> tuple[StoredTopic, tuple[StoredEntry, ...]]:
        """A topic and its entries. TopicNotFoundError."""
        topic = await self._topic(asked)
        return topic, await self._store.entries(topic.name)

    async def clear(self, asked: str | None = None) -> int:
        """Remove a topic (TopicNotFoundError) or all; how many entries that were."""
        if asked is not None:
            return _logged("store cleared", await self._store.clear((await self._topic(asked)).name))
        beside = await self._beside.clear() if self._beside else 0
        return _logged("store cleared", await self._store.clear() + beside)

    async def clean(self) -> int:
        """Remove what is older than the store keeps things; how many entries that were."""
        beside = await self._beside.clean() if self._beside else 0
        return _logged("store cleaned", await self._store.clean() + beside)

    async def clean_quietly(self) -> None:
        """The same beside other work: a store that cannot be cleaned can still be read."""
        try:
            await self.clean()
        except StoreError as error:
            log.warning("store not cleaned", extra={"error": error.code})

    async def stats(self) -> StoreStats:
        """Entries, bytes, age and hits by stage."""
        return await self._store.stats()

    async def export(self, file: Path, asked: str | None = None) -> int:
        """Write a topic (TopicNotFoundError) or all into a zip file; how many entries. StoreError when it cannot."""
        name = None if asked is None else (await self._topic(asked)).name
        return _logged("store exported", await self._store.export(file, name))

    async def import_(self, file: Path) -> Imported:
        """Take the entries of an exported file. StoreError, and nothing is taken, where something is wrong with it."""
        imported = await self._store.import_(file)
        _logged("store imported", imported.taken)
        return imported

    async def _topic(self, asked: str) -> StoredTopic:
        topics = await self._store.topics()
        meant = {asked, topic_of(asked).name}
        exact = [topic for topic in topics if topic.name in meant]
        alike = exact or [topic for topic in topics if asked and topic.name.startswith(asked)]
        if len(alike) > 1:
            raise TopicNotFoundError(f"{len(alike)} topics begin like that: give more of the name")
        if not alike:
            raise TopicNotFoundError
        return alike[0]


def _logged(event: str, entries: int) -> int:
    log.info(event, extra={"entries": entries})
    return entries
