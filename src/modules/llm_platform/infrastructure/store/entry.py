"""One entry as it lies in a file: what it is, the value, and a seal over both.

    {"format":1,"stage":…,"key":…,"topic":…,"query":…,"made_at":…,"ends_topic":…,"value":{…},"sha256":"…"}

It is JSON that any tool can read. The seal is the SHA-256 of all bytes before `,"sha256":`, so a flipped bit is seen
wherever it is; it says nothing about who wrote the entry.
"""

from __future__ import annotations

import hashlib
import json
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
