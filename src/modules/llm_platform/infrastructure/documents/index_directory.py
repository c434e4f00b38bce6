"""Directories for the indexes of folders, below the data folder, or in a temporary folder for this process.

    <digest>.lock    The process that writes locks it. Its modification time is the last use of the index.
    <digest>/        The index of one folder.

The process that removes an index holds its lock, and removes the lock, too.
"""

import asyncio
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.files.file_lock import FileLock
from modules.llm_platform.infrastructure.files.private_files import PRIVATE_FOLDER, make_private_folder

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
TOUCHED_EVERY_S: Final = 3600.0  # pause between two updates of the last use


class IndexDirectory:
    """The directory of one index. Without a `base` that is writable, it is a temporary folder, which `close` removes.

    All methods block briefly, and one thread at a time may call them. `clock` returns seconds since 1970.
    """

    def __init__(self, base: Path | None, key: str, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._base = base
        self._key = key
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._path: Path | None = None
        self._lock: FileLock | None = None  # It is None if the folder is temporary.
        self._temporary: Path | None = None
        self._touched = float("-inf")

    def make(self) -> Path:
        """Create the directory, open to its owner only, and return it. Raises OSError if no folder can be written."""
        # The directory is created again if the data folder was cleared while this process runs.
        if self._path is None or (self._lock is not None and not self._lock.is_held and not self._path.is_dir()):
            self._path = self._find_stored()
            if self._path is None:
                self._path = self._temporary = Path(tempfile.mkdtemp(prefix="llm-platform-"))
        return self._path

    def acquire(self) -> bool:
        """Lock the index for writing. Return False if another process writes."""
        return self._lock is None or self._lock.acquire()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def touch(self) -> None:
        """Record that the index is used. It expires STORE_TTL_DAYS from now."""
        now = self._clock()
        if self._base is not None and self._lock is not None and now - self._touched > TOUCHED_EVERY_S:
            os.utime(self._base / f"{self._key}.lock", (now, now))
            self._touched = now

    def close(self) -> None:
        """Unlock, and remove a temporary folder. A second call does nothing."""
        self.release()
        temporary, self._temporary, self._path = self._temporary, None, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)

    def _find_stored(self) -> Path | None:
        if self._base is None:
            return None
        path, lock = self._base / self._key, self._base / f"{self._key}.lock"
        try:
            make_private_folder(path)
            self._base.chmod(PRIVATE_FOLDER)
            lock.touch(0o600)
            if not os.access(path, os.W_OK | os.X_OK):
                return None
            self._lock = FileLock(lock)
            self.touch()
            remove_unused(self._base, self._ttl_s, self._clock())
        except OSError as error:
            log.warning("folder index not stored", extra={"error": type(error).__name__})
            self._lock = None
            return None
        return path


def remove_unused(base: Path, ttl_s: float, now: float) -> int:
    """Remove indexes whose last use is longer ago than `ttl_s`, except those being written. Return their number.

    Failures are logged.
    """
    removed = 0
    for lock in base.glob("*.lock"):
        try:
            removed += _remove_expired(lock, ttl_s, now)
        except OSError as error:
            log.warning("folder index not removed", extra={"error": type(error).__name__})
    return removed


def _remove_expired(lock: Path, ttl_s: float, now: float) -> bool:
    path, writer = lock.with_suffix(""), FileLock(lock)
    if now - lock.stat().st_mtime <= ttl_s or not writer.acquire():
        return False
    try:
        if now - lock.stat().st_mtime <= ttl_s:  # used meanwhile
            return False
        if existed := path.is_dir():
            shutil.rmtree(path)
        lock.unlink()
        return existed
    finally:
        writer.release()


ALL: Final = -DAY_S  # a TTL that removes all, clocks that are a day ahead included


class StoredFolderIndexes:
    """Removes folders' own indexes, except those being written. `clock` returns seconds since 1970."""

    def __init__(self, base: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._base = base
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock

    async def clean(self) -> int:
        """Remove the indexes that were not used for STORE_TTL_DAYS, and return their number."""
        return await self._remove(self._ttl_s)

    async def clear(self) -> int:
        """Remove all indexes, and return their number."""
        return await self._remove(ALL)

    async def _remove(self, ttl_s: float) -> int:
        return await asyncio.to_thread(remove_unused, self._base, ttl_s, self._clock())
