"""One entry as it lies in a file: what it is, the value, and a seal over both.

    {"format":1,"stage":…,"key":…,"topic":…,"query":…,"made_at":…,"ends_topic":…,"value":{…},"sha256":"…"}

It is JSON that any tool can read. The seal is the SHA-256 of all bytes before `,"sha256":`, so a flipped bit is seen
wherever it is; it says nothing about who wrote the entry.
"""

# ruff: noqa: PTH106, PTH108, PTH208  to make a Path takes as long as to ask the file system
from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from modules.llm_platform.domain.dtos.store_dtos import StoreStage

MAX_ENTRY_BYTES: Final = 32 * 1024 * 1024  # a report keeps the pages that it cites; a page has 5 MB at most
MAX_HEAD_BYTES: Final = 8 * 1024  # a question has 500 characters of twelve bytes at most

_FORMAT: Final = 1
_BEGINNING: Final = b'{"format":%d,' % _FORMAT
_ANY_FORMAT: Final = b'{"format":'
_VALUE: Final = b',"value":'  # no text can hold it: there the quotes are escaped
_SEAL: Final = b',"sha256":"'
_END: Final = b'"}\n'
_HASH_CHARS: Final = 64
_YEARS: Final = range(1970, 9999)
_TAIL_BYTES: Final = len(_SEAL) + _HASH_CHARS + len(_END)


class DamagedEntryError(Exception):
    """The bytes are no entry, or not as they were written."""


class OtherFormatError(Exception):
    """Another version of this program wrote the entry: it is not ours to judge."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry stands; `topic` is the topic's name."""

    stage: StoreStage
    topic: str
    key: str


@dataclass(frozen=True, slots=True)
class Head:
    """What an entry says of itself. `made_at` is in seconds since 1970; `ends_topic`: it is a finished report."""

    place: Place
    query: str
    made_at: float
    ends_topic: bool = False

    @property
    def made(self) -> datetime:
        return datetime.fromtimestamp(self.made_at, UTC)


def sealed(head: Head, value: bytes) -> bytes:
    """The bytes of an entry. `value` is JSON."""
    said = {
        "format": _FORMAT,
        "stage": head.place.stage,
        "key": head.place.key,
        "topic": head.place.topic,
        "query": head.query,
        "made_at": head.made.isoformat(),
        **({"ends_topic": True} if head.ends_topic else {}),
    }
    body = json.dumps(said, separators=(",", ":"))[:-1].encode() + _VALUE + value
    return b"".join((body, _SEAL, hashlib.sha256(body).hexdigest().encode(), _END))


def unsealed(data: bytes) -> tuple[Head, bytes]:
    """What an entry says of itself, and its value. DamagedEntryError, OtherFormatError."""
    if not data.startswith(_BEGINNING):
        raise _not_ours(data)
    body, tail = data[:-_TAIL_BYTES], data[-_TAIL_BYTES:]
    if tail != b"".join((_SEAL, hashlib.sha256(body).hexdigest().encode(), _END)):
        raise DamagedEntryError
    head, _, value = body.partition(_VALUE)
    return _head(head), value


def head_of(beginning: bytes) -> Head:
    """What an entry says of itself, from its first MAX_HEAD_BYTES and unproven. DamagedEntryError, OtherFormatError."""
    if not beginning.startswith(_BEGINNING):
        raise _not_ours(beginning)
    return _head(beginning.partition(_VALUE)[0])


def _head(text: bytes) -> Head:
    try:
        said: dict[str, Any] = json.loads(text + b"}")
        made = datetime.fromisoformat(said["made_at"])
        if made.tzinfo is None or made.year not in _YEARS:
            raise DamagedEntryError
        place = Place(said["stage"], said["topic"], said["key"])
        return Head(place, str(said["query"]), made.timestamp(), said.get("ends_topic") is True)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedEntryError from error


def _not_ours(data: bytes) -> DamagedEntryError | OtherFormatError:
    if data.startswith(_ANY_FORMAT) and data[len(_ANY_FORMAT) :].split(b",", 1)[0].isdigit():
        return OtherFormatError()
    return DamagedEntryError()


# What the store asks of the file system, with what strangers may have put there in mind. Paths are texts.


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
