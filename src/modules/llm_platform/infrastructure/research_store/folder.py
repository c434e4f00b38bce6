"""The folder of the store: `<stage>/<topic>/<key>.json`, written in one step, read with care.

Whoever can write into the folder may have put a link, a pipe or an endless file where an entry belongs.
"""

# ruff: noqa: PTH102, PTH103, PTH105, PTH120, PTH208  to make a Path takes as long as to ask the file system

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, get_args

from modules.llm_platform.domain.dtos.store_dtos import StoreStage
from modules.llm_platform.domain.store_key import is_entry_key, is_topic_name
from modules.llm_platform.infrastructure.files.private_files import make_private_folder
from modules.llm_platform.infrastructure.research_store.entry_files import (
    MAX_ENTRY_BYTES,
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
    unlink,
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
