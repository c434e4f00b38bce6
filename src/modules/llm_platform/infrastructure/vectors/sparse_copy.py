"""Copy a folder of files that are mostly holes: a shard reserves far more than it uses."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.private_files import PRIVATE_FOLDER, private_opener

CHUNK_BYTES: Final = 1 << 20
_HAS_HOLES: Final = hasattr(os, "SEEK_DATA")


def copy_folder(source: Path, target: Path) -> None:
    """`target` must not exist; holes stay holes where the system can tell them. What vanishes meanwhile is left out: a process
    that opens a shard writes files of a moment beside the others. FileNotFoundError where `source` itself is not there.
    """
    with os.scandir(source) as entries:
        target.mkdir(PRIVATE_FOLDER)
        for entry in entries:
            with suppress(FileNotFoundError):
                _copy_entry(entry, target / entry.name)


def _copy_entry(entry: os.DirEntry[str], target: Path) -> None:
    if entry.is_dir(follow_symlinks=False):
        copy_folder(Path(entry.path), target)
    elif entry.is_file(follow_symlinks=False):
        _copy_file(Path(entry.path), target)


def _copy_file(source: Path, target: Path) -> None:
    if not _HAS_HOLES:
        shutil.copyfile(source, target)
        return
    with source.open("rb", buffering=0) as read, open(target, "wb", buffering=0, opener=private_opener) as write:
        size = os.fstat(read.fileno()).st_size
        write.truncate(size)
        place = 0
        while (start := _data_from(read.fileno(), place)) is not None:
            place = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            read.seek(start)
            write.seek(start)
            while start < place and (piece := read.read(min(CHUNK_BYTES, place - start))):
                start += write.write(piece)


def _data_from(file: int, place: int) -> int | None:
    try:
        return os.lseek(file, place, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole until the end
            return None
        raise
