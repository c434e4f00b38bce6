"""Folders and files that only their owner can read, whatever the umask."""

import errno
import os
import shutil
from pathlib import Path
from typing import Final

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def make_private_folder(path: Path) -> None:
    """Create the folder and missing parents. Existing folders do not change. Raises OSError."""
    try:
        path.mkdir(PRIVATE_FOLDER)
    except FileNotFoundError:
        make_private_folder(path.parent)
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise


def open_privately(path: str, flags: int) -> int:
    """Open a file for its owner only. Pass this to `open(…, opener=…)`."""
    return os.open(path, flags, PRIVATE_FILE)


def is_absent(file: Path) -> bool:
    """Return whether there is no such file. A file that cannot be looked up, or whose folder is a file, does not count as
    absent: opening it tells why."""
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def restrict_to_owner(folder: Path) -> None:
    """Restrict an existing folder and its content."""
    folder.chmod(PRIVATE_FOLDER)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)


# Memory-mapped files need free space: on a full disk, writing to one ends the process by SIGBUS.


MIN_FREE_BYTES: Final = 2 * 1024 * 1024  # room for SQLite's files and the largest outcome
KB: Final = 1024


def require_free_space(folder: Path, needed: int = 0) -> None:
    """Raises OSError with a message for the operator when the disk is almost full: when less than MIN_FREE_BYTES would be free
    after `needed` bytes are written.
    """
    free, least = shutil.disk_usage(folder).free, needed + MIN_FREE_BYTES
    if free < least:
        raise OSError(errno.ENOSPC, f"its disk is full: {free // KB} of {least // KB} kB are free, make room")
