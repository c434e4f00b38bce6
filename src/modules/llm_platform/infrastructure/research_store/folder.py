"""The folder of the store: `<stage>/<topic>/<key>.json`, written in one step, read with care.

Whoever can write into the folder may have put a link, a pipe or an endless file where an entry belongs.
"""

# ruff: noqa: PTH102, PTH103, PTH105, PTH120, PTH208  to make a Path takes as long as to ask the file system
from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final, get_args

from modules.llm_platform.domain.dtos.store_dtos import Imported, StoreStage
from modules.llm_platform.domain.exceptions import TopicNotFoundError
from modules.llm_platform.domain.store_key import is_entry_key, is_topic_name
from modules.llm_platform.infrastructure.files.private_files import make_private_folder
from modules.llm_platform.infrastructure.research_store.entry_files import (
    MAX_ENTRY_BYTES,
    MAX_HEAD_BYTES,
    DamagedEntryError,
    Head,
    OtherFormatError,
    Place,
    head_of,
    is_folder,
    names_in,
    read_plain,
    remove_if_empty,
    remove_older,
    sealed,
    unlink,
    unsealed,
    write_new,
)

STAGES: Final[tuple[StoreStage, ...]] = get_args(StoreStage)
SUFFIX: Final = ".json"
DRAFT: Final = ".draft"
DRAFT_LIVES_S: Final = 3600  # an older one belongs to a process that was killed
_DAMAGED: Final = "damaged"
_PRIVATE_FOLDER: Final = 0o700  # what somebody looks into is nobody else's business
_FOLDER_TRIES: Final = 5  # how often a folder may be cleaned away between making it and writing into it


@dataclass(frozen=True, slots=True)
class Found:
    """A file that stands where entries stand. `head` is None where it cannot be read as one of this format's."""

    place: Place
    size: int
    written_at: float  # seconds since 1970
    head: Head | None

    @property
    def made_at(self) -> float:
        """Seconds since 1970; of a file that does not say it, when it was written."""
        return self.head.made_at if self.head else self.written_at


class StoreFolder:
    """Files by place. Every method may raise OSError; nothing is made before the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root = str(root)
        self._token = secrets.token_hex(8)
        self._drafts = count()

    def size(self, place: Place) -> int:
        """Bytes of the entry's file."""
        return os.lstat(self._path(place)).st_size

    def read(self, place: Place) -> bytes:
        """The bytes of the entry's file. DamagedEntryError when it is no plain file or larger than entries are."""
        return read_plain(self._path(place), MAX_ENTRY_BYTES)

    def write(self, place: Place, data: bytes) -> None:
        """Put the file there whole, instead of the one that is there: who reads it meanwhile sees either of them."""
        draft = self.draft(place, data)
        try:
            self.settle(draft, place)
        except OSError:
            self.discard(draft)
            raise

    def draft(self, place: Place, data: bytes) -> str:
        """Write the file beside its place, under a name that no reader looks at; its path."""
        folder = f"{self._root}/{place.stage}/{place.topic}"
        # Containers that share the folder may share the number of their process, its forks the token.
        draft = f"{folder}/.{self._token}-{os.getpid()}-{next(self._drafts)}{DRAFT}"
        for _ in range(_FOLDER_TRIES):
            try:
                write_new(draft, data)
            except FileNotFoundError:
                self._make(folder)
            else:
                return draft
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def settle(self, draft: str, place: Place) -> None:
        """Give a draft its place."""
        os.replace(draft, self._path(place))

    def discard(self, draft: str) -> None:
        """Remove a draft that was not wanted in the end, and its folder when nothing else is in it."""
        unlink(draft)
        remove_if_empty(os.path.dirname(draft))

    @contextmanager
    def all_or_nothing(self) -> Iterator[list[tuple[str, Place]]]:
        """The drafts that are put into the list are settled at the end; after an error none is."""
        drafts: list[tuple[str, Place]] = []
        try:
            yield drafts
            for draft, place in drafts:
                self.settle(draft, place)
        finally:
            for draft, _ in drafts:
                self.discard(draft)

    def set_aside(self, place: Place) -> None:
        """Move the file out of the way, where a person can look at it."""
        aside = f"{self._root}/{_DAMAGED}"
        os.makedirs(aside, _PRIVATE_FOLDER, exist_ok=True)
        os.replace(self._path(place), f"{aside}/{place.stage}-{place.key}-{secrets.token_hex(4)}{SUFFIX}")

    def remove(self, place: Place) -> bool:
        """Remove the entry, and its folder when it was the last one; whether it was there."""
        there = unlink(self._path(place))
        remove_if_empty(f"{self._root}/{place.stage}/{place.topic}")
        return there

    def found(self, topic: str | None = None, stage: StoreStage | None = None) -> Iterator[Found]:
        """What is there of a topic, of a stage or at all, in the order of the stages, oldest first."""
        try:
            os.listdir(self._root)
        except FileNotFoundError:  # nothing was kept yet; any other error is one
            return
        for each in STAGES if stage is None else (stage,):
            at = f"{self._root}/{each}"
            for name in names_in(at) if topic is None else (topic,):
                if is_topic_name(name) and is_folder(f"{at}/{name}"):
                    yield from sorted(_found(f"{at}/{name}", each, name), key=_age)

    def damaged(self) -> int:
        """How many files were set aside."""
        return len(names_in(f"{self._root}/{_DAMAGED}"))

    def sweep(self, before: float) -> None:
        """Remove what processes that were killed left behind, and what was set aside before that time (seconds since
        1970).
        """
        remove_older(f"{self._root}/{_DAMAGED}", SUFFIX, before)
        for stage in STAGES:
            at = f"{self._root}/{stage}"
            for folder in [f"{at}/{name}" for name in names_in(at) if is_topic_name(name)]:
                if is_folder(folder):
                    remove_older(folder, DRAFT, time.time() - DRAFT_LIVES_S)

    def _path(self, place: Place) -> str:
        return f"{self._root}/{place.stage}/{place.topic}/{place.key}{SUFFIX}"

    def _make(self, folder: str) -> None:
        with suppress(FileExistsError):  # another process was quicker
            try:
                os.mkdir(folder, _PRIVATE_FOLDER)
            except FileNotFoundError:
                self._make_store()
                os.makedirs(folder, _PRIVATE_FOLDER)

    def _make_store(self) -> None:
        """The store's folder, with a mark that git shall ignore all that is in it."""
        make_private_folder(self.root.parent)
        os.makedirs(self._root, _PRIVATE_FOLDER, exist_ok=True)
        with suppress(FileExistsError):
            write_new(f"{self._root}/.gitignore", b"*\n")


def _found(folder: str, stage: StoreStage, topic: str) -> Iterator[Found]:
    for name in names_in(folder):
        key = name.removesuffix(SUFFIX)
        if key == name or not is_entry_key(key):
            continue
        place = Place(stage, topic, key)
        try:
            about = os.lstat(f"{folder}/{name}")
            if stat.S_ISDIR(about.st_mode):
                continue
            head = head_of(read_plain(f"{folder}/{name}", None))
        except FileNotFoundError:  # removed meanwhile
            continue
        except (DamagedEntryError, OtherFormatError):
            yield Found(place, about.st_size, about.st_mtime, None)
        else:
            yield Found(place, about.st_size, about.st_mtime, head if head.place == place else None)


def _age(found: Found) -> tuple[float, str]:
    return (found.made_at, found.place.key)


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
