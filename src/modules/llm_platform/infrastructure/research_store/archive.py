"""Entries in a zip file, to be carried elsewhere: the same names and the same bytes as in the folder.

An archive comes from strangers: its directory is judged before anything is unpacked, and each entry must be what its
name says. Encrypted members, links, ways out of the folder, names that stand twice and bombs are refused.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Final

from pydantic import BaseModel, ValidationError

from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.store_key import is_entry_key, is_topic_name, topic_of
from modules.llm_platform.infrastructure.research_store.entry_files import (
    MAX_ENTRY_BYTES,
    DamagedEntryError,
    Head,
    OtherFormatError,
    Place,
    unsealed,
)
from modules.llm_platform.infrastructure.research_store.folder import STAGES, SUFFIX

MAX_ENTRIES: Final = 50_000
MAX_MEMBERS: Final = 2 * MAX_ENTRIES  # with the folders that other programs add
MAX_FILE_BYTES: Final = 1 << 30
MAX_UNPACKED_BYTES: Final = 4 << 30
MAX_RATIO: Final = 200  # text shrinks to a tenth; what shrinks more is stored as it is when we write
SMALL_BYTES: Final = 64 * 1024  # whose ratio does no harm
_DIRECTORY_BYTES_EACH: Final = 1024  # of a member's line: its name has 250 bytes at most
_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_LARGE: Final = b"PK\x06\x07"  # stands before the end where the counts are elsewhere (zip64)
_LARGE_BYTES: Final = 20
_ENCRYPTED: Final = 0x1
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)

_TOO_MUCH = "that is more than one archive holds: export the topics one by one"
_NONE = "that file is no archive of researches, or it is broken"
_BOMB = "that archive would unpack to far too much: it is refused"
_TRICK = "that archive holds something else than researches: it is refused"


class _JsonObject(BaseModel):
    """Any object of JSON."""


def write_archive(file: Path, entries: Iterable[tuple[Place, bytes]]) -> int:
    """Put the entries into the file, in one step; how many they were. StoreError when there are too many of them, or when the
    file cannot be written.
    """
    target = file.resolve()
    draft = target.with_name(f".{token_hex(8)}.draft")
    try:
        return _written(draft, target, entries)
    except OSError as error:
        raise StoreError(f"the archive cannot be written ({_said(error)}): name another file") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def _written(draft: Path, target: Path, entries: Iterable[tuple[Place, bytes]]) -> int:
    with zipfile.ZipFile(draft, "x", zipfile.ZIP_DEFLATED) as archive:
        number = _fill(archive, entries)
    if draft.stat().st_size > MAX_FILE_BYTES:
        raise StoreError(_TOO_MUCH)
    draft.replace(target)
    return number


def _fill(archive: zipfile.ZipFile, entries: Iterable[tuple[Place, bytes]]) -> int:
    number = total = 0
    for place, data in entries:
        number, total = number + 1, total + len(data)
        if number > MAX_ENTRIES or total > MAX_UNPACKED_BYTES:
            raise StoreError(_TOO_MUCH)
        archive.writestr(f"{place.stage}/{place.topic}/{place.key}{SUFFIX}", data, _method(data))
    return number


def _method(data: bytes) -> int:
    """Stored as it is, when it would look like a bomb to whoever imports it."""
    swells = len(data) > SMALL_BYTES and len(data) > len(zlib.compress(data)) * MAX_RATIO // 2
    return zipfile.ZIP_STORED if swells else zipfile.ZIP_DEFLATED


def archived(file: Path) -> Iterator[tuple[Head, bytes]]:
    """The entries of an archive, one by one, each proven. StoreError at the first that is not right: what came before it is
    not to be taken then.
    """
    try:
        with _opened(file) as archive:
            for info, place in _judged(archive):
                yield _proven(place, _unpacked(archive, info))
    except OSError as error:
        raise StoreError(f"that file cannot be read ({_said(error)})") from error
    except _BROKEN as error:
        raise StoreError(_NONE) from error


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The member's bytes, no more of them than it says that it has: without a number the library unpacks to the end first."""
    with archive.open(info) as member:
        return member.read(info.file_size + 1)


@contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    if not file.is_file():
        raise StoreError("there is no such file")
    with file.open("rb") as raw:
        _judge_size(raw)
        with zipfile.ZipFile(raw) as archive:
            yield archive


def _judge_size(raw: IO[bytes]) -> None:
    """The directory's size, before it is read: a million names would be a million objects."""
    size = raw.seek(0, 2)
    if size > MAX_FILE_BYTES:
        raise StoreError(_BOMB)
    raw.seek(max(0, size - _END_BYTES - _LARGE_BYTES))
    tail = raw.read()
    before, end = tail[:-_END_BYTES], tail[-_END_BYTES:]
    if not end.startswith(_END) or before.startswith(_LARGE):
        raise StoreError(_NONE)
    number, directory = int.from_bytes(end[10:12], "little"), int.from_bytes(end[12:16], "little")
    if number > MAX_MEMBERS or directory > number * _DIRECTORY_BYTES_EACH:
        raise StoreError(_BOMB)


def _judged(archive: zipfile.ZipFile) -> list[tuple[zipfile.ZipInfo, Place]]:
    """The members that are entries. StoreError when there is anything else, or too much of it."""
    infos = archive.infolist()
    members = [info for info in infos if not _is_folder(info)]
    if any(not _plain(info) for info in members):
        raise StoreError(_TRICK)
    places = [_place(info.filename) for info in members]
    if len(set(places)) != len(places):
        raise StoreError(_TRICK)
    packed, unpacked = sum(info.compress_size for info in infos), sum(info.file_size for info in infos)
    overlapping = archive.fp is not None and packed > archive.fp.seek(0, 2)
    if len(members) > MAX_ENTRIES or unpacked > MAX_UNPACKED_BYTES or overlapping or any(map(_swells, infos)):
        raise StoreError(_BOMB)
    return list(zip(members, places, strict=True))


def _is_folder(info: zipfile.ZipInfo) -> bool:
    """Whether it is one of the folders that other programs add, with nothing in it."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if not info.is_dir() or info.file_size or kind not in (0, stat.S_IFDIR):
        return False
    stage, *topics = info.filename.removesuffix("/").split("/")
    return stage in STAGES and len(topics) <= 1 and all(map(is_topic_name, topics))


def _plain(info: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(info.external_attr >> 16)
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return kind in (0, stat.S_IFREG) and not info.flag_bits & _ENCRYPTED and info.compress_type in methods


def _swells(info: zipfile.ZipInfo) -> bool:
    too_much = info.file_size > SMALL_BYTES and info.file_size > info.compress_size * MAX_RATIO
    return too_much or info.file_size > MAX_ENTRY_BYTES


def _place(name: str) -> Place:
    folder, *rest = name.split("/")
    stage = next((each for each in STAGES if each == folder), None)
    topic, key = rest if len(rest) == 2 else ("", "")
    if stage is None or not is_topic_name(topic) or not key.endswith(SUFFIX):
        raise StoreError(_TRICK)
    if not is_entry_key(key.removesuffix(SUFFIX)):
        raise StoreError(_TRICK)
    return Place(stage, topic, key.removesuffix(SUFFIX))


def _proven(place: Place, data: bytes) -> tuple[Head, bytes]:
    """What the entry says of itself and its value, when it is whole, is what its name says and belongs to its question's
    topic.
    """
    try:
        head, value = unsealed(data)
        _JsonObject.model_validate_json(value)
    except OtherFormatError as error:
        raise StoreError("that archive was written by another version of this program") from error
    except (DamagedEntryError, ValidationError) as error:
        raise StoreError(_NONE) from error
    if head.place != place or topic_of(head.query).name != place.topic:
        raise StoreError(_TRICK)
    return head, value


def _said(error: OSError) -> str:
    return error.strerror or type(error).__name__
