"""Manages stored research runs: list, export, import and remove."""

import logging
from pathlib import Path
from typing import Protocol

from modules.llm_platform.application.research.report.stored_report import (
    OwnedReport,
    StoredReport,
    make_owner_entry_key,
)
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.store_dtos import Imported, StoredEntry, StoredTopic, StoreStats, Topic
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.research.store_key import make_topic

MAX_SEARCHED = 1000  # topics; each costs a read

log = logging.getLogger(__name__)


class FolderIndexes(Protocol):
    """The folder indexes, which expire like research runs. Both methods return the number of removed indexes."""

    async def clean(self) -> int: ...

    async def clear(self) -> int: ...


class StoreService:
    """Lists, exports and removes stored research runs, and removes the folder indexes with them.

    A topic is selected by its name, a prefix of its name, or its question.
    """

    def __init__(self, store: IResearchStore, folder_indexes: FolderIndexes | None = None) -> None:
        self._store = store
        self._folder_indexes = folder_indexes

    async def topics(self) -> tuple[StoredTopic, ...]:
        """Return the stored topics, newest first."""
        return await self._store.topics()

    async def show(self, selector: str) -> tuple[StoredTopic, tuple[StoredEntry, ...]]:
        """Return a topic and its entries. Raises TopicNotFoundError."""
        topic = await self._find_topic(selector)
        return topic, await self._store.entries(topic.name)

    async def load_latest_report(self, selector: str) -> ResearchResponse:
        """Return the latest stored report of a topic. Raises TopicNotFoundError, also if no report of it is stored."""
        topic = await self._find_topic(selector)
        stored = await self._store.values(Topic(name=topic.name, query=topic.query), "answers", StoredReport)
        for stored_report in sorted(stored, key=lambda report: report.finished_at, reverse=True):
            if (response := stored_report.sanitize_response()) is not None:
                return response
        raise TopicNotFoundError("No report of this topic is stored: `llm-platform topics list` names those that are")

    async def list_owned_reports(self, owner: str, limit: int) -> tuple[StoredTopic, ...]:
        """Return up to `limit` topics with a stored report that this owner asked for, newest first.

        Only the newest MAX_SEARCHED topics are looked at.
        """
        found: list[StoredTopic] = []
        for topic in (await self._store.topics())[:MAX_SEARCHED]:
            if len(found) < limit and topic.finished and await self._find_owned(owner, topic.name):
                found.append(topic)
        return tuple(found)

    async def load_owned_report(self, owner: str, name: str) -> ResearchResponse:
        """Return the last report of a topic that this owner asked for. `name` is the full name of the topic.

        Raises TopicNotFoundError.
        """
        owned = await self._find_owned(owner, name)
        stored = owned and await self._store.get(_make_topic(name), "answers", owned.report, StoredReport)
        response = stored.sanitize_response() if stored else None
        if response is None:
            raise TopicNotFoundError
        return response

    async def _find_owned(self, owner: str, name: str) -> OwnedReport | None:
        return await self._store.get(_make_topic(name), "answers", make_owner_entry_key(owner), OwnedReport)

    async def clear(self, selector: str | None = None) -> int:
        """Remove a topic, or all topics and folder indexes; return the number of entries removed. Raises TopicNotFoundError."""
        if selector is not None:
            return _log_entries("store cleared", await self._store.clear((await self._find_topic(selector)).name))
        removed = await self._folder_indexes.clear() if self._folder_indexes else 0
        return _log_entries("store cleared", await self._store.clear() + removed)

    async def clean(self) -> int:
        """Remove the expired entries; return their number."""
        removed = await self._folder_indexes.clean() if self._folder_indexes else 0
        return _log_entries("store cleaned", await self._store.clean() + removed)

    async def clean_quietly(self) -> None:
        """Clean the store. An error is logged and not raised, because the store can still be read."""
        try:
            await self.clean()
        except StoreError as error:
            log.warning("store not cleaned", extra={"error": error.code, "reason": error.message})

    async def stats(self) -> StoreStats:
        """Return the entries, bytes, age and hits of each stage."""
        return await self._store.stats()

    async def export(self, file: Path, selector: str | None = None) -> int:
        """Write a topic or all into a zip file; return the number of entries. Raises TopicNotFoundError or StoreError."""
        name = None if selector is None else (await self._find_topic(selector)).name
        return _log_entries("store exported", await self._store.export(file, name))

    async def import_(self, file: Path) -> Imported:
        """Add the entries of an exported file. Raises StoreError, and adds nothing, if the file is invalid."""
        imported = await self._store.import_(file)
        _log_entries("store imported", imported.added)
        return imported

    async def _find_topic(self, selector: str) -> StoredTopic:
        topics = await self._store.topics()
        names = {selector, make_topic(selector).name}
        matches = [topic for topic in topics if topic.name in names]
        matches = matches or [topic for topic in topics if selector and topic.name.startswith(selector)]
        if len(matches) > 1:
            raise TopicNotFoundError(f"{len(matches)} topics begin like that: give more of the name")
        if not matches:
            raise TopicNotFoundError
        return matches[0]


def _make_topic(name: str) -> Topic:
    return Topic(name=name, query="")


def _log_entries(event: str, entries: int) -> int:
    log.log(logging.INFO if entries else logging.DEBUG, event, extra={"entries": entries})
    return entries
