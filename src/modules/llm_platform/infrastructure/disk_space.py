"""Room for files that are mapped into memory: on a full disk touching one ends the process by SIGBUS."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Final

LEAST_FREE_BYTES: Final = 2 * 1024 * 1024  # SQLite's own files, and an outcome of the longest kind
KB: Final = 1024


def require_free_space(folder: Path) -> None:
    """OSError, with words for the operator, when the disk of this folder is full or as good as that."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, f"its disk is full: {free // KB} of {LEAST_FREE_BYTES // KB} kB are free, make room")
