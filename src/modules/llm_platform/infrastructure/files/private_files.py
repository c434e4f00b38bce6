"""Folders and files for their owner alone, whatever the umask lets others do: they hold what somebody reads and asks."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def make_private_folder(path: Path) -> None:
    """Make it, and those above it that are missing; what is there stays as it is. OSError where that cannot be."""
    try:
        path.mkdir(PRIVATE_FOLDER)
    except FileNotFoundError:
        make_private_folder(path.parent)
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise


def private_opener(path: str, flags: int) -> int:
    """For `open(…, opener=…)`: a file that is made by it is its owner's."""
    return os.open(path, flags, PRIVATE_FILE)


def close_to_others(folder: Path) -> None:
    """The same for a folder that somebody else filled, with everything in it."""
    folder.chmod(PRIVATE_FOLDER)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)


# Room for files that are mapped into memory: on a full disk touching one ends the process by SIGBUS.


LEAST_FREE_BYTES: Final = 2 * 1024 * 1024  # SQLite's own files, and an outcome of the longest kind
KB: Final = 1024


def require_free_space(folder: Path) -> None:
    """OSError, with words for the operator, when the disk of this folder is full or as good as that."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise OSError(
            errno.ENOSPC, f"its disk is full: {free // KB} of {LEAST_FREE_BYTES // KB} kB are free, make room"
        )
