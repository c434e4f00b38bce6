"""The entries of one folder that are valid: not too old, not damaged. A damaged one is set aside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from modules.llm_platform.domain.dtos.store_dtos import Imported, StoreStage
from modules.llm_platform.domain.exceptions import TopicNotFoundError
from modules.llm_platform.domain.store_key import is_entry_key, is_topic_name
from modules.llm_platform.infrastructure.research_store.entry_files import (
    MAX_ENTRY_BYTES,
    MAX_HEAD_BYTES,
    DamagedEntryError,
    Head,
    OtherFormatError,
    Place,
    sealed,
    unsealed,
)
from modules.llm_platform.infrastructure.research_store.folder import Found, StoreFolder

# The entries of one folder, as long as they are good: not too old, not damaged. What is damaged is set aside.


log = logging.getLogger(__name__)


class UnstorableError(Exception):
    """The entry has a name or a size that the store has no room for."""


class ValidEntries:
    """To be used by any number of threads and processes at once. `clock` and `ttl_s`: seconds, the former since 1970."""

    def __init__(self, folder: StoreFolder, ttl_s: float, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._ttl_s = ttl_s
        self._clock = clock

    def write(self, place: Place, data: bytes) -> None:
        """Keep what was prepared. May raise OSError."""
        self._folder.write(place, data)

    def size(self, place: Place) -> int | None:
        """Bytes of the entry's file; None when there is none."""
        try:
            return self._folder.size(place) if _named_well(place) else None
        except OSError:
            return None

    def value(self, place: Place) -> bytes | None:
        """The value of a good entry, as JSON. What cannot be read is not there."""
        entry = self._entry(place)
        return None if entry is None else entry[1]

    def prepared(self, place: Place, query: str, value: bytes, *, ends_topic: bool = False) -> bytes:
        """The bytes of an entry of now. UnkeepableError when it could not be read again."""
        data = sealed(Head(place, query, self._clock(), ends_topic), value)
        if not _named_well(place) or len(data) > MAX_ENTRY_BYTES or len(data) - len(value) > MAX_HEAD_BYTES:
            raise UnstorableError
        return data

    def values(self, topic: str, stage: StoreStage) -> list[bytes]:
        """The values of all good entries of one stage of one topic, oldest first."""
        if not is_topic_name(topic):
            return []
        found = self._folder.found(topic, stage)
        return [value for each in found if (value := self.value(each.place)) is not None]

    def listed(self, name: str | None = None) -> list[Found]:
        """What is there, good or not. TopicNotFoundError when nothing is of that topic; may raise OSError."""
        if name is not None and not is_topic_name(name):
            raise TopicNotFoundError
        found = list(self._folder.found(name))
        if name is not None and not found:
            raise TopicNotFoundError
        return found

    def clear(self, name: str | None) -> int:
        """Remove a topic or all; how many entries. TopicNotFoundError; may raise OSError."""
        removed = sum(self._folder.remove(each.place) for each in self.listed(name))
        if name is None:
            self._folder.sweep(self._clock())
        return removed

    def clean(self) -> int:
        """Remove what is too old, and what was left behind; how many entries. May raise OSError."""
        removed = sum(self._folder.remove(each.place) for each in self._folder.found() if self._is_old(each.made_at))
        self._folder.sweep(self._clock() - self._ttl_s)
        return removed

    def export(self, file: Path, name: str | None) -> int:
        """Write the good entries of a topic or of all into an archive; how many. StoreError, TopicNotFoundError; may raise
        OSError.
        """
        from modules.llm_platform.infrastructure.research_store.archive import write_archive

        return write_archive(file, self._whole(self.listed(name)))

    def import_(self, file: Path) -> Imported:
        """Take the entries of an archive that are newer than what is there. StoreError, and nothing is taken; may raise
        OSError.
        """
        from modules.llm_platform.infrastructure.research_store.archive import archived

        kept = expired = 0
        with self._folder.all_or_nothing() as drafts:
            for head, value in archived(file):
                own = self._entry(head.place)
                if self._is_old(head.made_at):
                    expired += 1
                elif own is not None and own[0].made_at >= head.made_at:
                    kept += 1
                else:
                    drafts.append((self._folder.draft(head.place, self._dated(head, value)), head.place))
            taken = len(drafts)
        return Imported(taken=taken, kept=kept, expired=expired)

    def _dated(self, head: Head, value: bytes) -> bytes:
        """An entry from elsewhere; one from a clock that goes ahead is of now, or it would outlive all others."""
        return sealed(replace(head, made_at=min(head.made_at, self._clock())), value)

    def _whole(self, found: Iterable[Found]) -> Iterator[tuple[Place, bytes]]:
        for each in found:
            entry = self._entry(each.place)
            if entry is not None:
                yield each.place, sealed(*entry)

    def _entry(self, place: Place) -> tuple[Head, bytes] | None:
        try:
            head, value = unsealed(self._folder.read(place))
            if head.place != place:
                raise DamagedEntryError
        except (OSError, OtherFormatError):
            return None
        except DamagedEntryError:
            self._set_aside(place)
            return None
        return None if self._is_old(head.made_at) else (head, value)

    def _set_aside(self, place: Place) -> None:
        log.warning("an entry of the store was damaged and is set aside", extra={"stage": place.stage})
        try:
            self._folder.set_aside(place)
        except OSError as error:  # it is not read either way
            log.debug("it could not be moved", extra={"error": type(error).__name__})

    def _is_old(self, made_at: float) -> bool:
        return self._clock() - made_at > self._ttl_s


def _named_well(place: Place) -> bool:
    return is_topic_name(place.topic) and is_entry_key(place.key)
