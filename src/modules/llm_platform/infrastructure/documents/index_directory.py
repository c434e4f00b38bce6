"""Where the index of a named folder lies: below the data folder, so that the second run finds it, or for this run alone.

    <digest>.lock    held by the process that writes; when it was last touched tells when the index was last used
    <digest>/        the index of one folder

The lock stands beside what it guards, and is removed with it by whoever holds it: a lock on a file that is gone is none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.files.private_files import PRIVATE_FOLDER, make_private_folder

log = logging.getLogger(__name__)

LOCK_MODE: Final = 0o600
DIGEST_CHARS: Final = 24
DAY_S: Final = 86_400
TOUCHED_EVERY_S: Final = 3600.0  # while it is in use
TEMPORARY: Final = "llm-platform-"


def key_of(parts: Iterable[str]) -> str:
    """The name of an index that is made of these: another folder or embedder gets another one."""
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_CHARS]


class IndexDirectory:
    """The place of one index. `base` None, or one that cannot be written to: a temporary folder, removed by `close`.

    All methods block shortly, and are to be called by one thread at a time. `clock`: seconds since 1970.
    """

    def __init__(self, base: Path | None, key: str, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._base = base
        self._key = key
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._path: Path | None = None
        self._lock: FileLock | None = None  # None: nobody else knows the place
        self._temporary: Path | None = None
        self._touched = float("-inf")

    def make(self) -> Path:
        """The place, there and ours alone to look into. Raises OSError when nothing can be written anywhere."""
        if self._path is None or self._was_removed(self._path):
            self._path = self._kept() or self._for_this_run()
        return self._path

    def take(self) -> bool:
        """Take the writer's place; False: another process has it."""
        return self._lock is None or self._lock.acquire()

    def release(self) -> None:
        """Give the writer's place up."""
        if self._lock is not None:
            self._lock.release()

    def used(self) -> None:
        """Note that it is in use: it lives on for STORE_TTL_DAYS from now."""
        now = self._clock()
        if self._base is not None and self._lock is not None and now - self._touched > TOUCHED_EVERY_S:
            os.utime(self._base / f"{self._key}.lock", (now, now))
            self._touched = now

    def close(self) -> None:
        """Remove what was for this run alone; a second call does nothing."""
        self.release()
        temporary, self._temporary, self._path = self._temporary, None, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)

    def _was_removed(self, path: Path) -> bool:
        """Whether somebody cleared the data folder while we run; a lock that is held is kept."""
        return self._lock is not None and not self._lock.held and not path.is_dir()

    def _kept(self) -> Path | None:
        if self._base is None:
            return None
        path, lock = self._base / self._key, self._base / f"{self._key}.lock"
        try:
            make_private_folder(path)
            self._base.chmod(PRIVATE_FOLDER)
            lock.touch(LOCK_MODE)
            if not os.access(path, os.W_OK | os.X_OK):
                return None
            self._lock = FileLock(lock)
            self.used()
            remove_unused(self._base, self._ttl_s, self._clock())
        except OSError as error:
            log.warning("folder index not kept", extra={"error": type(error).__name__})
            self._lock = None
            return None
        return path

    def _for_this_run(self) -> Path:
        self._temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY))
        return self._temporary


def remove_unused(base: Path, ttl_s: float, now: float) -> int:
    """Remove the indexes that nobody used for so long, and none that is being written; how many they were. What the system
    refuses is logged, and stays.
    """
    removed = 0
    for lock in base.glob("*.lock"):
        try:
            removed += _removed(lock, ttl_s, now)
        except OSError as error:
            log.warning("folder index not removed", extra={"error": type(error).__name__})
    return removed


def _removed(lock: Path, ttl_s: float, now: float) -> bool:
    path, held = lock.with_suffix(""), FileLock(lock)
    if now - lock.stat().st_mtime <= ttl_s or not held.acquire():
        return False
    try:
        if now - lock.stat().st_mtime <= ttl_s:  # somebody came meanwhile
            return False
        if there := path.is_dir():
            shutil.rmtree(path)
        lock.unlink()
        return there
    finally:
        held.release()


# All indexes of named folders that lie below the data folder.


ALL: Final = -DAY_S  # older than tomorrow


class StoredFolderIndexes:
    """Removes indexes; what is being written stays, and who reads one goes on. `clock`: seconds since 1970."""

    def __init__(self, base: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._base = base
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock

    async def clean(self) -> int:
        """Remove those that nobody used for STORE_TTL_DAYS; how many they were."""
        return await self._remove(self._ttl_s)

    async def clear(self) -> int:
        """Remove all; how many they were."""
        return await self._remove(ALL)

    async def _remove(self, ttl_s: float) -> int:
        return await asyncio.to_thread(remove_unused, self._base, ttl_s, self._clock())
