"""Exports and imports entries as a zip file, with the same names and bytes as in the folder.

An archive is untrusted: its directory is checked before anything is unpacked, and each entry must match its name. Encrypted
members, links, path traversal, duplicate names and zip bombs are refused.
"""

import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Final

from pydantic import BaseModel, ValidationError

from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.research.store_key import is_entry_key, is_topic_name, make_topic
from modules.llm_platform.infrastructure.files import zip_bounds
from modules.llm_platform.infrastructure.stores.research_runs import entry_files
from modules.llm_platform.infrastructure.stores.research_runs.folder import STAGES, SUFFIX

MAX_ENTRIES: Final = 50_000
MAX_MEMBERS: Final = 2 * MAX_ENTRIES  # includes folder entries, which other programs add
ARCHIVE_FILE_BYTES: Final = 1 << 30
ARCHIVE_UNPACKED_BYTES: Final = 4 << 30

_TOO_LARGE = "that is too much for one archive: export the topics one by one"
_INVALID = "that file is not an archive of research runs, or it is broken"
_BOMB = "that archive would unpack to too many bytes: it is refused"
_UNEXPECTED = "that archive contains members other than research runs: it is refused"


class _JsonObject(BaseModel):
    """A JSON object with any fields."""


def write_archive(file: Path, entries: Iterable[tuple[entry_files.EntryLocation, bytes]]) -> int:
    """Write the entries to a file atomically, and return their number.

    Raises StoreError for too many entries and for a file that cannot be written.
    """
    target = file.resolve()
    draft = target.with_name(f".{token_hex(8)}.draft")
    try:
        return _write_draft(draft, target, entries)
    except OSError as error:
        raise StoreError(f"the archive cannot be written ({_explain(error)}): name another file") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def _write_draft(draft: Path, target: Path, entries: Iterable[tuple[entry_files.EntryLocation, bytes]]) -> int:
    with zipfile.ZipFile(draft, "x", zipfile.ZIP_DEFLATED) as archive:
        number = _fill(archive, entries)
    if draft.stat().st_size > ARCHIVE_FILE_BYTES:
        raise StoreError(_TOO_LARGE)
    draft.replace(target)
    return number


def _fill(archive: zipfile.ZipFile, entries: Iterable[tuple[entry_files.EntryLocation, bytes]]) -> int:
    number = total = 0
    for location, data in entries:
        number, total = number + 1, total + len(data)
        if number > MAX_ENTRIES or total > ARCHIVE_UNPACKED_BYTES:
            raise StoreError(_TOO_LARGE)
        archive.writestr(
            f"{location.stage}/{location.topic}/{location.key}{SUFFIX}", data, zip_bounds.choose_method(data)
        )
    return number


def read_archive(file: Path) -> Iterator[tuple[entry_files.EntryHeader, bytes]]:
    """Yield the verified entries of an archive.

    Raises StoreError at the first invalid entry. The caller then discards the entries before it.
    """
    try:
        with _open(file) as archive:
            for info, location in _check_members(archive):
                yield _verify_entry(location, zip_bounds.read_member(archive, info))
    except OSError as error:
        raise StoreError(f"that file cannot be read ({_explain(error)})") from error
    except zip_bounds.BROKEN as error:
        raise StoreError(_INVALID) from error


@contextmanager
def _open(file: Path) -> Iterator[zipfile.ZipFile]:
    if not file.is_file():
        raise StoreError(f"there is no file {file}")
    with file.open("rb") as raw:
        _check_size(raw)
        with zipfile.ZipFile(raw) as archive:
            yield archive


def _check_size(raw: IO[bytes]) -> None:
    """Check the size of the directory before it is read: each name becomes an object."""
    if raw.seek(0, 2) > ARCHIVE_FILE_BYTES:
        raise StoreError(_BOMB)
    if zip_bounds.count_members(raw) > MAX_MEMBERS:
        raise StoreError(_BOMB)


def _check_members(archive: zipfile.ZipFile) -> list[tuple[zipfile.ZipInfo, entry_files.EntryLocation]]:
    infos = archive.infolist()
    members = [info for info in infos if not _is_folder(info)]
    if any(not zip_bounds.is_regular(info) for info in members):
        raise StoreError(_UNEXPECTED)
    locations = [_read_location(info.filename) for info in members]
    if len(set(locations)) != len(locations):
        raise StoreError(_UNEXPECTED)
    if (
        len(members) > MAX_ENTRIES
        or sum(info.file_size for info in infos) > ARCHIVE_UNPACKED_BYTES
        or zip_bounds.is_overlapping(archive)
        or any(map(_exceeds_limits, infos))
    ):
        raise StoreError(_BOMB)
    return list(zip(members, locations, strict=True))


def _is_folder(info: zipfile.ZipInfo) -> bool:
    """Return whether it is an empty folder entry of a stage or topic, which other programs add."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if not info.is_dir() or info.file_size or kind not in (0, stat.S_IFDIR):
        return False
    stage, *topics = info.filename.removesuffix("/").split("/")
    return stage in STAGES and len(topics) <= 1 and all(map(is_topic_name, topics))


def _exceeds_limits(info: zipfile.ZipInfo) -> bool:
    return zip_bounds.is_bomb(info) or info.file_size > entry_files.MAX_ENTRY_BYTES


def _read_location(name: str) -> entry_files.EntryLocation:
    folder, *rest = name.split("/")
    stage = next((stage for stage in STAGES if stage == folder), None)
    topic, key = rest if len(rest) == 2 else ("", "")
    if stage is None or not is_topic_name(topic) or not key.endswith(SUFFIX):
        raise StoreError(_UNEXPECTED)
    if not is_entry_key(key.removesuffix(SUFFIX)):
        raise StoreError(_UNEXPECTED)
    return entry_files.EntryLocation(stage, topic, key.removesuffix(SUFFIX))


def _verify_entry(location: entry_files.EntryLocation, data: bytes) -> tuple[entry_files.EntryHeader, bytes]:
    """Return the header and value of an entry. Raises StoreError if its seal, name or topic does not match."""
    try:
        header, value = entry_files.unseal(data)
        _JsonObject.model_validate_json(value)
    except entry_files.OtherFormatError as error:
        raise StoreError("that archive was written by another version of this program") from error
    except (entry_files.DamagedEntryError, ValidationError) as error:
        raise StoreError(_INVALID) from error
    if header.location != location or make_topic(header.query).name != location.topic:
        raise StoreError(_UNEXPECTED)
    return header, value


def _explain(error: OSError) -> str:
    return error.strerror or type(error).__name__
