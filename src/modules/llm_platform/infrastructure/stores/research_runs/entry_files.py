"""The file of one entry: a header, the value, and a seal over both.

    {"format":1,"stage":…,"key":…,"topic":…,"query":…,"made_at":…,"ends_topic":…,"value":{…},"sha256":"…"}

The file is JSON. The seal is the SHA-256 of all bytes before `,"sha256":`. It detects damage and does not authenticate the
writer.
"""

# ruff: noqa: PTH106, PTH108, PTH208  making a Path takes as long as the system call
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from modules.llm_platform.domain.dtos.store_dtos import StoreStage
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.ports.research_store import Value
from modules.llm_platform.domain.research.store_key import is_entry_key, is_topic_name

MAX_ENTRY_BYTES: Final = 32 * 1024 * 1024  # a report stores the pages that it cites, of at most 5 MB each
QUERY_CHAR_BYTES: Final = 12  # a character of a query, as JSON writes it: the two escapes of a rare one
ENTRY_HEAD_BYTES: Final = QUERY_CHAR_BYTES * MAX_QUERY_CHARS + 3 * 1024  # with the other fields

_FORMAT: Final = 1
_BEGINNING: Final = b'{"format":%d,' % _FORMAT
_ANY_FORMAT: Final = b'{"format":'
_VALUE: Final = b',"value":'  # cannot occur in a string, where quotes are escaped
_SEAL: Final = b',"sha256":"'
_END: Final = b'"}\n'
_HASH_CHARS: Final = 64
_YEARS: Final = range(1970, 9999)
_TAIL_BYTES: Final = len(_SEAL) + _HASH_CHARS + len(_END)


class DamagedEntryError(Exception):
    """The bytes are not an intact entry."""


class UnstorableError(Exception):
    """The name, the size or the content of an entry is invalid."""


class OtherFormatError(Exception):
    """Another version of this program wrote the entry."""


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """The location of an entry. `topic` is the topic's name."""

    stage: StoreStage
    topic: str
    key: str

    @property
    def is_valid(self) -> bool:
        """True if the path of the entry is inside the store."""
        return is_topic_name(self.topic) and is_entry_key(self.key)


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """The header of an entry. `made_at` is in seconds since 1970. `ends_topic` is True for a finished report."""

    location: EntryLocation
    query: str
    made_at: float
    ends_topic: bool = False

    @property
    def made(self) -> datetime:
        return datetime.fromtimestamp(self.made_at, UTC)


def seal(entry: EntryHeader, value: bytes) -> bytes:
    """Return the bytes of an entry. `value` is JSON."""
    header = {
        "format": _FORMAT,
        "stage": entry.location.stage,
        "key": entry.location.key,
        "topic": entry.location.topic,
        "query": entry.query,
        "made_at": entry.made.isoformat(),
        **({"ends_topic": True} if entry.ends_topic else {}),
    }
    body = json.dumps(header, separators=(",", ":"))[:-1].encode() + _VALUE + value
    return b"".join((body, _SEAL, hashlib.sha256(body).hexdigest().encode(), _END))


def seal_value(entry: EntryHeader, value: BaseModel) -> bytes:
    """Return the bytes of a new entry. Raises UnstorableError."""
    try:
        written = value.__pydantic_serializer__.to_json(value)
    except PydanticSerializationError as error:
        raise UnstorableError(type(error).__name__) from error
    data = seal(entry, written)
    if not entry.location.is_valid or len(data) > MAX_ENTRY_BYTES or len(data) - len(written) > ENTRY_HEAD_BYTES:
        raise UnstorableError("its name or size is invalid")
    return data


def unseal(data: bytes) -> tuple[EntryHeader, bytes]:
    """Return the header and the value of an entry. Raises DamagedEntryError and OtherFormatError."""
    if not data.startswith(_BEGINNING):
        raise _format_error(data)
    body, tail = data[:-_TAIL_BYTES], data[-_TAIL_BYTES:]
    if tail != b"".join((_SEAL, hashlib.sha256(body).hexdigest().encode(), _END)):
        raise DamagedEntryError
    head, _, value = body.partition(_VALUE)
    return _read_head(head), value


def read_header(beginning: bytes) -> EntryHeader:
    """Return the unverified header, from the first ENTRY_HEAD_BYTES. Raises DamagedEntryError and OtherFormatError."""
    if not beginning.startswith(_BEGINNING):
        raise _format_error(beginning)
    return _read_head(beginning.partition(_VALUE)[0])


def _read_head(text: bytes) -> EntryHeader:
    try:
        fields: dict[str, Any] = json.loads(text + b"}")
        made = datetime.fromisoformat(fields["made_at"])
        if made.tzinfo is None or made.year not in _YEARS:
            raise DamagedEntryError
        location = EntryLocation(fields["stage"], fields["topic"], fields["key"])
        return EntryHeader(location, str(fields["query"]), made.timestamp(), fields.get("ends_topic") is True)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedEntryError from error


def _format_error(data: bytes) -> DamagedEntryError | OtherFormatError:
    number, comma, _ = data.removeprefix(_ANY_FORMAT).partition(b",")
    if data.startswith(_ANY_FORMAT) and comma and number.isdigit():  # without the comma the file is cut off
        return OtherFormatError()
    return DamagedEntryError()


# File system calls that expect links, pipes and foreign files in the folder. Paths are strings.

_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows alone has it
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _BINARY
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY


def write_new(path: str, data: bytes) -> None:
    """Create a file. Raises FileExistsError if it exists. A failed write leaves no file."""
    file = os.open(path, _WRITE, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        unlink(path)
        raise
    finally:
        os.close(file)


def read_regular_file(path: str, limit: int | None) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes, or with None, its first ENTRY_HEAD_BYTES.

    Raises DamagedEntryError for any other file.
    """
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
        size = ENTRY_HEAD_BYTES if limit is None else about.st_size
        data = os.read(file, size)
        while len(data) < size and (more := os.read(file, size - len(data))):
            data += more
        return data
    finally:
        os.close(file)


def list_names(folder: str) -> list[str]:
    """Return the names in the folder. There are none if it is missing or not a folder."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_folder(path: str) -> bool:
    """Return whether it is a folder and not a link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def unlink(path: str) -> bool:
    """Remove the file, and return whether it existed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_older(folder: str, suffix: str, before: float) -> None:
    """Remove files with that suffix that were written before that time, and the folder if it is empty then."""
    for path in [f"{folder}/{name}" for name in list_names(folder) if name.endswith(suffix)]:
        try:
            if os.lstat(path).st_mtime < before:
                os.unlink(path)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            continue  # removed meanwhile, or a folder
    remove_if_empty(folder)


def remove_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:  # the folder is not empty, or was removed meanwhile
        return


def parse_value(value: bytes, kind: type[Value]) -> Value | None:
    """Return the value, or None if another version wrote it in another form, so that it has to be made again."""
    try:
        return kind.model_validate_json(value)
    except ValidationError:
        return None
