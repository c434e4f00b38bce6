"""Locks between processes, by a file. The system frees them when a process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import portalocker
from portalocker import AlreadyLocked, LockException, LockFlags

_MODE: Final = 0o600


class FileLock:
    """Held by one alone, or shared by many; never waited for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def acquire(self, *, shared: bool = False) -> bool:
        """Whether it is ours now. Raises OSError where the file cannot be opened, or not be locked at all."""
        if self._file is not None:
            return True
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, _MODE)
        try:
            if _locked(file, shared) and _is_still(self._path, file):
                self._file = file
        finally:
            if self._file is None:  # another one has it, or the file system knows no locks
                os.close(file)
        return self.held

    def release(self) -> None:
        """Free it; the file stays, unless whoever held it alone has removed it: who takes it next makes another."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _is_still(path: Path, file: int) -> bool:
    """Whether the file has not been removed between opening and locking it: two could hold locks on two files of one name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _locked(file: int, shared: bool) -> bool:
    """Lock it at once, or say that somebody else has."""
    if shared and sys.platform == "win32":  # it removes no file that somebody reads: sharing needs no lock there
        return True
    try:
        portalocker.lock(file, (LockFlags.SHARED if shared else LockFlags.EXCLUSIVE) | LockFlags.NON_BLOCKING)
    except AlreadyLocked:
        return False
    except LockException as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise OSError(f"the file could not be locked: {error}") from error
    return True
