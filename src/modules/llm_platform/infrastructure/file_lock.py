"""Locks between processes, by a file. The system frees them when a process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

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


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _locked(file: int, shared: bool) -> bool:
        if shared:  # Windows has none for a byte, and removes no file that somebody reads: sharing needs none there
            return True
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _locked(file: int, shared: bool) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
