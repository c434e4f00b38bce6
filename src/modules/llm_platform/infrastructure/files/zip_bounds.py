"""Bounds of zip files from strangers. They are checked before anything is unpacked."""

import stat
import zipfile
import zlib
from typing import IO, Final

COMPRESSION_RATIO: Final = 200  # text compresses to a tenth; `choose_method` stores what compresses more
SMALL_BYTES: Final = 64 * 1024  # small members may have any ratio
BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    NotImplementedError,
    OverflowError,  # offsets of 2**63 and more
    RuntimeError,
)
_DIRECTORY_BYTES_EACH: Final = 1024  # size of a member in the directory; a name has at most 250
_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_LARGE: Final = b"PK\x06\x07"  # zip64: precedes the end record
_LARGE_BYTES: Final = 20
_ENCRYPTED: Final = 0x1


def choose_method(data: bytes) -> int:
    """Return the compression method: ZIP_STORED if the compressed member would look like a zip bomb, else ZIP_DEFLATED."""
    # The compressed whole is at least about as long as its compressed beginning, so most texts are not compressed twice.
    is_text = len(data) <= SMALL_BYTES or not _swells(data, data[:SMALL_BYTES])
    return zipfile.ZIP_DEFLATED if is_text or not _swells(data, data) else zipfile.ZIP_STORED


def _swells(data: bytes, part: bytes) -> bool:
    return len(data) > len(zlib.compress(part)) * COMPRESSION_RATIO // 2


def count_members(raw: IO[bytes], comment_bytes: int = 0) -> int:
    """Return the number of members, by the end record before a comment of this length.

    Raises BadZipFile if that is not the end of a zip file below 4 GB, if the library could take other bytes for its end, or if
    the directory is longer than its members need: each name becomes an object.
    """
    size = raw.seek(0, 2)
    raw.seek(max(0, size - comment_bytes - _END_BYTES - _LARGE_BYTES))
    tail = raw.read()[: -comment_bytes or None]
    before, end = tail[:-_END_BYTES], tail[-_END_BYTES:]
    is_last = _END not in tail[-_END_BYTES + 1 :]
    if not end.startswith(_END) or not is_last or before.startswith(_LARGE):
        raise zipfile.BadZipFile
    number, directory = int.from_bytes(end[10:12], "little"), int.from_bytes(end[12:16], "little")
    if int.from_bytes(end[20:22], "little") != comment_bytes or directory > number * _DIRECTORY_BYTES_EACH:
        raise zipfile.BadZipFile
    return number


def is_overlapping(archive: zipfile.ZipFile) -> bool:
    """Return whether the members together are longer than their file: they share bytes."""
    packed = sum(info.compress_size for info in archive.infolist())
    return archive.fp is not None and packed > archive.fp.seek(0, 2)


def is_regular(info: zipfile.ZipInfo) -> bool:
    """Return whether a member is a file, without encryption, that is stored or deflated."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return kind in (0, stat.S_IFREG) and not info.flag_bits & _ENCRYPTED and info.compress_type in methods


def is_bomb(info: zipfile.ZipInfo) -> bool:
    """Return whether a member of more than SMALL_BYTES has a compression ratio above COMPRESSION_RATIO."""
    return info.file_size > SMALL_BYTES and info.file_size > info.compress_size * COMPRESSION_RATIO


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member, fewer than `file_size` if it is shorter. Raises one of BROKEN if it is damaged or longer.

    Without a limit, the library unpacks the whole member before it cuts it to `file_size`.
    """
    with archive.open(info) as member:
        return member.read(info.file_size + 1)
