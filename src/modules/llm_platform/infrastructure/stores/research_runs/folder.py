"""Read and write the folder of the store: `<stage>/<topic>/<key>.json`, written atomically.

Other programs may have put links, pipes or endless files where entries belong.
"""

# ruff: noqa: PTH102, PTH103, PTH105, PTH120, PTH208  making a Path takes as long as the system call

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
from modules.llm_platform.domain.research.store_key import is_entry_key, is_topic_name
from modules.llm_platform.infrastructure.files.private_files import make_private_folder
from modules.llm_platform.infrastructure.stores.research_runs import entry_files

STAGES: Final[tuple[StoreStage, ...]] = get_args(StoreStage)
SUFFIX: Final = ".json"
DRAFT: Final = ".draft"
DRAFT_TTL_S: Final = 3600  # an older one belongs to a process that was killed
_DAMAGED: Final = "damaged"
_PRIVATE_FOLDER: Final = 0o700
_FOLDER_TRIES: Final = 5  # a folder may be cleaned up between its creation and the write


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file at an entry's path. `head` is None if it is not an entry of this format."""

    location: entry_files.EntryLocation
    size: int
    written_at: float  # seconds since 1970
    head: entry_files.EntryHeader | None

    @property
    def made_at(self) -> float:
        """Seconds since 1970, from the header, else the modification time."""
        return self.head.made_at if self.head else self.written_at


class StoreFolder:
    """The files of the store by their locations. Every method may raise OSError. The first write makes the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root = str(root)
        self._token = secrets.token_hex(8)
        self._drafts = count()

    def measure_size(self, location: entry_files.EntryLocation) -> int:
        return os.lstat(self._get_path(location)).st_size

    def read(self, location: entry_files.EntryLocation) -> bytes:
        """Return the bytes of the entry's file. Raises DamagedEntryError when it is not a regular file or is too large."""
        return entry_files.read_regular_file(self._get_path(location), entry_files.MAX_ENTRY_BYTES)

    def write(self, location: entry_files.EntryLocation, data: bytes) -> None:
        """Write or replace the file atomically."""
        draft = self.write_draft(location, data)
        try:
            self.commit(draft, location)
        except OSError:
            self.discard(draft)
            raise

    def write_draft(self, location: entry_files.EntryLocation, data: bytes) -> str:
        """Write the file in its folder under a temporary name, and return its path."""
        folder = f"{self._root}/{location.stage}/{location.topic}"
        # Containers may share process ids, forks share the token.
        draft = f"{folder}/.{self._token}-{os.getpid()}-{next(self._drafts)}{DRAFT}"
        for _ in range(_FOLDER_TRIES):
            try:
                entry_files.write_new(draft, data)
            except FileNotFoundError:
                self._make(folder)
            else:
                return draft
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def commit(self, draft: str, location: entry_files.EntryLocation) -> None:
        os.replace(draft, self._get_path(location))

    def discard(self, draft: str) -> None:
        """Remove a draft, and its folder if it is empty then."""
        entry_files.unlink(draft)
        entry_files.remove_if_empty(os.path.dirname(draft))

    @contextmanager
    def stage_writes(self) -> Iterator[list[tuple[str, entry_files.EntryLocation]]]:
        """Commit the drafts in the list at the end of the block. After an error, commit none."""
        drafts: list[tuple[str, entry_files.EntryLocation]] = []
        try:
            yield drafts
            for draft, location in drafts:
                self.commit(draft, location)
        finally:
            for draft, _ in drafts:
                self.discard(draft)

    def set_aside(self, location: entry_files.EntryLocation) -> None:
        """Move a damaged file to the folder `count_damaged`."""
        aside = f"{self._root}/{_DAMAGED}"
        os.makedirs(aside, _PRIVATE_FOLDER, exist_ok=True)
        os.replace(self._get_path(location), f"{aside}/{location.stage}-{location.key}-{secrets.token_hex(4)}{SUFFIX}")

    def remove(self, location: entry_files.EntryLocation) -> bool:
        """Remove the entry, and its folder if that is empty, and return whether the entry existed."""
        existed = entry_files.unlink(self._get_path(location))
        entry_files.remove_if_empty(f"{self._root}/{location.stage}/{location.topic}")
        return existed

    def list_files(self, topic: str | None = None, stage: StoreStage | None = None) -> Iterator[StoredFile]:
        """Yield the files of a topic, of a stage or all, in the order of the stages, oldest first."""
        try:
            os.listdir(self._root)
        except FileNotFoundError:  # nothing was stored yet
            return
        for stage_name in STAGES if stage is None else (stage,):
            at = f"{self._root}/{stage_name}"
            for name in entry_files.list_names(at) if topic is None else (topic,):
                if is_topic_name(name) and entry_files.is_folder(f"{at}/{name}"):
                    found = _list_files(f"{at}/{name}", stage_name, name)
                    yield from sorted(found, key=lambda file: (file.made_at, file.location.key))

    def count_damaged(self) -> int:
        return len(entry_files.list_names(f"{self._root}/{_DAMAGED}"))

    def sweep(self, before: float) -> None:
        """Remove drafts of killed processes, and damaged files from before this time (seconds since 1970)."""
        entry_files.remove_older(f"{self._root}/{_DAMAGED}", SUFFIX, before)
        for stage in STAGES:
            at = f"{self._root}/{stage}"
            for folder in [f"{at}/{name}" for name in entry_files.list_names(at) if is_topic_name(name)]:
                if entry_files.is_folder(folder):
                    entry_files.remove_older(folder, DRAFT, time.time() - DRAFT_TTL_S)

    def _get_path(self, location: entry_files.EntryLocation) -> str:
        return f"{self._root}/{location.stage}/{location.topic}/{location.key}{SUFFIX}"

    def _make(self, folder: str) -> None:
        with suppress(FileExistsError):  # another process made it
            try:
                os.mkdir(folder, _PRIVATE_FOLDER)
            except FileNotFoundError:
                self._make_store()
                os.makedirs(folder, _PRIVATE_FOLDER)

    def _make_store(self) -> None:
        """Make the store's folder, with a .gitignore for all of its content."""
        make_private_folder(self.root.parent)
        os.makedirs(self._root, _PRIVATE_FOLDER, exist_ok=True)
        with suppress(FileExistsError):
            entry_files.write_new(f"{self._root}/.gitignore", b"*\n")


def _list_files(folder: str, stage: StoreStage, topic: str) -> Iterator[StoredFile]:
    for name in entry_files.list_names(folder):
        key = name.removesuffix(SUFFIX)
        if key == name or not is_entry_key(key):
            continue
        location = entry_files.EntryLocation(stage, topic, key)
        try:
            about = os.lstat(f"{folder}/{name}")
            if stat.S_ISDIR(about.st_mode):
                continue
            head = entry_files.read_header(entry_files.read_regular_file(f"{folder}/{name}", None))
        except FileNotFoundError:  # removed meanwhile
            continue
        except (entry_files.DamagedEntryError, entry_files.OtherFormatError):
            yield StoredFile(location, about.st_size, about.st_mtime, None)
        else:
            yield StoredFile(location, about.st_size, about.st_mtime, head if head.location == location else None)
