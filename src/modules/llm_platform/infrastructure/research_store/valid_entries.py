"""The valid entries of a folder: neither expired nor damaged. Damaged files are set aside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from modules.llm_platform.domain.dtos.store_dtos import Imported, StoreStage
from modules.llm_platform.domain.exceptions import TopicNotFoundError
from modules.llm_platform.domain.store_key import is_topic_name
from modules.llm_platform.infrastructure.research_store import entry_files
from modules.llm_platform.infrastructure.research_store.folder import StoredFile, StoreFolder

log = logging.getLogger(__name__)


class UnstorableError(Exception):
    """The name or size of an entry is invalid."""


class ValidEntries:
    """For any number of threads and processes. `ttl_s` in seconds, `clock`: seconds since 1970."""

    def __init__(self, folder: StoreFolder, ttl_s: float, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._ttl_s = ttl_s
        self._clock = clock

    def write(self, place: entry_files.Place, data: bytes) -> None:
        """Write a prepared entry. May raise OSError."""
        self._folder.write(place, data)

    def size(self, place: entry_files.Place) -> int | None:
        """Bytes of the entry's file; None when there is none."""
        try:
            return self._folder.size(place) if place.is_valid else None
        except OSError:
            return None

    def value(self, place: entry_files.Place) -> bytes | None:
        """The value of a valid entry as JSON, else None."""
        entry = self._entry(place)
        return None if entry is None else entry[1]

    def prepared(self, place: entry_files.Place, query: str, value: bytes, *, ends_topic: bool = False) -> bytes:
        """The bytes of a new entry. Raises UnstorableError for an invalid name or size."""
        data = entry_files.sealed(entry_files.EntryHeader(place, query, self._clock(), ends_topic), value)
        if not place.is_valid or len(data) > entry_files.MAX_ENTRY_BYTES or len(data) - len(value) > entry_files.MAX_HEAD_BYTES:
            raise UnstorableError
        return data

    def values(self, topic: str, stage: StoreStage) -> list[bytes]:
        """The values of all valid entries of a stage of a topic, oldest first."""
        if not is_topic_name(topic):
            return []
        files = self._folder.files(topic, stage)
        return [value for each in files if (value := self.value(each.place)) is not None]

    def listed(self, name: str | None = None) -> list[StoredFile]:
        """All files, valid or not. Raises TopicNotFoundError for a topic without files, and OSError."""
        if name is not None and not is_topic_name(name):
            raise TopicNotFoundError
        files = list(self._folder.files(name))
        if name is not None and not files:
            raise TopicNotFoundError
        return files

    def clear(self, name: str | None) -> int:
        """Remove a topic or all; returns the number of entries. Raises TopicNotFoundError and OSError."""
        removed = sum(self._folder.remove(each.place) for each in self.listed(name))
        if name is None:
            self._folder.sweep(self._clock())
        return removed

    def clean(self) -> int:
        """Remove expired entries and drafts; returns the number of entries. May raise OSError."""
        removed = sum(self._folder.remove(each.place) for each in self._folder.files() if self._is_old(each.made_at))
        self._folder.sweep(self._clock() - self._ttl_s)
        return removed

    def export(self, file: Path, name: str | None) -> int:
        """Export the valid entries of a topic or all; returns their number. Raises StoreError, TopicNotFoundError, OSError."""
        from modules.llm_platform.infrastructure.research_store.archive import write_archive

        return write_archive(file, self._valid_entries(self.listed(name)))

    def import_(self, file: Path) -> Imported:
        """Import the entries of an archive that are newer than stored ones, all or none. Raises StoreError and OSError."""
        from modules.llm_platform.infrastructure.research_store.archive import read_archive

        skipped = expired = 0
        with self._folder.staged_writes() as drafts:
            for head, value in read_archive(file):
                own = self._entry(head.place)
                if self._is_old(head.made_at):
                    expired += 1
                elif own is not None and own[0].made_at >= head.made_at:
                    skipped += 1
                else:
                    drafts.append((self._folder.draft(head.place, self._dated(head, value)), head.place))
            added = len(drafts)
        return Imported(added=added, skipped=skipped, expired=expired)

    def _dated(self, head: entry_files.EntryHeader, value: bytes) -> bytes:
        """An imported entry. A time in the future becomes now, or the entry would outlive all others."""
        return entry_files.sealed(replace(head, made_at=min(head.made_at, self._clock())), value)

    def _valid_entries(self, files: Iterable[StoredFile]) -> Iterator[tuple[entry_files.Place, bytes]]:
        for each in files:
            entry = self._entry(each.place)
            if entry is not None:
                yield each.place, entry_files.sealed(*entry)

    def _entry(self, place: entry_files.Place) -> tuple[entry_files.EntryHeader, bytes] | None:
        try:
            head, value = entry_files.unsealed(self._folder.read(place))
            if head.place != place:
                raise entry_files.DamagedEntryError
        except (OSError, entry_files.OtherFormatError):
            return None
        except entry_files.DamagedEntryError:
            self._set_aside(place)
            return None
        return None if self._is_old(head.made_at) else (head, value)

    def _set_aside(self, place: entry_files.Place) -> None:
        log.warning("a damaged entry of the store was set aside", extra={"stage": place.stage})
        try:
            self._folder.set_aside(place)
        except OSError as error:  # it is not read in any case
            log.debug("a damaged entry could not be moved", extra={"error": type(error).__name__})

    def _is_old(self, made_at: float) -> bool:
        return self._clock() - made_at > self._ttl_s
