"""Locks between processes by files. The system releases them when a process ends."""

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int, shared: bool) -> bool:
        """Lock without waiting. Return False if another process has the lock."""
        try:
            if not shared:  # Windows removes no open file, so a shared lock is not needed.
                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: int, shared: bool) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FileLock:
    """An exclusive or shared lock on a file. It never waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def acquire(self, *, shared: bool = False) -> bool:
        """Acquire the lock and return True, or return False if another process has it. Raises OSError if locking fails."""
        if self._file is not None:
            return True
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _try_lock(file, shared):
                with suppress(FileNotFoundError):
                    # Another process may have removed the file between opening and locking.
                    self._file = file if os.path.samestat(self._path.stat(), os.fstat(file)) else None
        finally:
            if self._file is None:  # Another process has the lock or removed the file, or the file system has no locks.
                os.close(file)
        return self.is_held

    def release(self) -> None:
        """Release the lock. The file stays. The exclusive owner may remove it before."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
