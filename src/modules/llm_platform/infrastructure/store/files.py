"""What the store asks of the file system, with what strangers may have put there in mind. Paths are texts."""

# ruff: noqa: PTH106, PTH108, PTH208  to make a Path takes as long as to ask the file system

from __future__ import annotations

import os
import stat
from typing import Final

from modules.llm_platform.infrastructure.store.entry import MAX_HEAD_BYTES, DamagedEntryError

_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows alone has it
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _BINARY
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
_PRIVATE: Final = 0o600  # what somebody looks into is nobody else's business


def write_new(path: str, data: bytes) -> None:
    """Make a file. FileExistsError when there is one; where it cannot be written to the end, there is none afterwards."""
    file = os.open(path, _WRITE, _PRIVATE)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        unlink(path)
        raise
    finally:
        os.close(file)


def read_plain(path: str, limit: int | None) -> bytes:
    """The bytes of a plain file of at most `limit`; None: only those that hold the head."""
    try:
        file = os.open(path, _READ)
    except FileNotFoundError:
        raise
    except OSError as error:
        if stat.S_ISREG(os.lstat(path).st_mode):
            raise
        raise DamagedEntryError from error  # a link
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or (limit is not None and about.st_size > limit):
            raise DamagedEntryError
        wanted = MAX_HEAD_BYTES if limit is None else about.st_size
        data = os.read(file, wanted)
        while len(data) < wanted and (more := os.read(file, wanted - len(data))):
            data += more
        return data
    finally:
        os.close(file)


def names_in(folder: str) -> list[str]:
    """What is in the folder; nothing, when it is none."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_folder(path: str) -> bool:
    """Whether it is one itself: a link would lead to what is none of ours."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def unlink(path: str) -> bool:
    """Remove the file; whether it was there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_older(folder: str, suffix: str, before: float) -> None:
    """Remove the files with that ending that were written before, and the folder when nothing else is in it."""
    for path in [f"{folder}/{name}" for name in names_in(folder) if name.endswith(suffix)]:
        try:
            if os.lstat(path).st_mtime < before:
                os.unlink(path)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            continue  # gone already, or a folder that somebody put there
    remove_if_empty(folder)


def remove_if_empty(folder: str) -> None:
    """Remove the folder, unless something is in it."""
    try:
        os.rmdir(folder)
    except OSError:  # others are in it, or it is gone
        return
