"""The zip file of a sealed answer. Its comment has the digest of all bytes before it, so every changed byte is noticed.

An archive is untrusted, and anybody can compute a digest: its directory is checked before anything is unpacked.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from modules.llm_platform.domain.dtos.sealed_dtos import (
    MAX_ANSWER_BYTES,
    MAX_SEALED_BYTES,
    MAX_SEALED_SOURCES,
    MAX_UNPACKED_BYTES,
    SEAL_PREFIX,
    Sign,
    Signature,
    UnpackedSeal,
)
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.infrastructure.files import zip_bounds

MAX_MEMBERS: Final = MAX_SEALED_SOURCES + 2
DATE: Final = (1980, 1, 1, 0, 0, 0)  # of every member: the file depends on the answer alone
UNIX: Final = 3
FILE_MODE: Final = 0o100644 << 16
START: Final = b"PK\x03\x04"
TOO_LARGE: Final = "the answer and its sources are too long for one file"
NO_SEAL: Final = "the file is not a sealed answer, or its end was changed"
CHANGED: Final = "the file was changed after it was sealed: its bytes do not have the digest at its end"
REFUSED: Final = "the file has other members than a sealed answer, or unpacks to too many bytes: it is refused"

ANSWER: Final = "answer.json"
_NAME: Final = re.compile(r"answer\.json|index\.html|sources/[1-9]\d{0,6}\.txt")
_COMMENT: Final = re.compile(
    re.escape(SEAL_PREFIX).encode() + rb"([0-9a-f]{64})(?: ed25519:([0-9a-f]{64}):([0-9a-f]{128}))?"
)
_UNSIGNED_BYTES: Final = len(SEAL_PREFIX) + 64
_SIGNED_BYTES: Final = _UNSIGNED_BYTES + len(" ed25519::") + 64 + 128


def pack(members: Mapping[str, bytes], sign: Sign | None = None) -> bytes:
    """Return the file. `sign` signs its digest. Equal members give equal bytes. Raises SealError if it is too large."""
    if sum(map(len, members.values())) > MAX_UNPACKED_BYTES or len(members.get(ANSWER, b"")) > MAX_ANSWER_BYTES:
        raise SealError(TOO_LARGE)
    size = _SIGNED_BYTES if sign else _UNSIGNED_BYTES
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(members.items()):
            archive.writestr(_describe_member(name, data), data)
        archive.comment = bytes(size)  # its length is part of what is digested
    body = out.getvalue()[:-size]
    if len(body) + size > MAX_SEALED_BYTES:
        raise SealError(TOO_LARGE)
    digest = sha256(body).hexdigest()
    signature = sign(digest) if sign else None
    signed = f" ed25519:{signature.public_key}:{signature.value}" if signature else ""
    return body + f"{SEAL_PREFIX}{digest}{signed}".encode()


def unpack(data: bytes) -> UnpackedSeal:
    """Return the members of a file that was not changed. Raises SealError for any other file."""
    found = next(filter(None, (_COMMENT.fullmatch(data[-size:]) for size in (_UNSIGNED_BYTES, _SIGNED_BYTES))), None)
    if len(data) > MAX_SEALED_BYTES or not data.startswith(START) or found is None:
        raise SealError(NO_SEAL)
    digest, *signed = (group.decode() if group else "" for group in found.groups())
    size = len(found[0])
    if sha256(memoryview(data)[:-size]).hexdigest() != digest:
        raise SealError(CHANGED)
    signature = Signature(*signed) if signed[0] else None
    return UnpackedSeal(_read_members(data, size), digest, signature)


def _describe_member(name: str, data: bytes) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, DATE)
    info.create_system, info.external_attr = UNIX, FILE_MODE
    info.compress_type = zip_bounds.choose_method(data)
    return info


def _read_members(data: bytes, comment_bytes: int) -> dict[str, bytes]:
    raw = io.BytesIO(data)
    try:
        if zip_bounds.count_members(raw, comment_bytes) > MAX_MEMBERS:
            raise SealError(REFUSED)
        with zipfile.ZipFile(raw) as archive:
            _check_members(archive)
            members = {info: zip_bounds.read_member(archive, info) for info in archive.infolist()}
    except zip_bounds.BROKEN as error:
        raise SealError(REFUSED) from error
    if any(len(member) != info.file_size for info, member in members.items()):
        raise SealError(REFUSED)
    return {info.filename: member for info, member in members.items()}


def _check_members(archive: zipfile.ZipFile) -> None:
    """Raise SealError, before anything is unpacked, for members that no sealed answer has."""
    infos = archive.infolist()
    names = {info.filename for info in infos}
    is_expected = len(infos) <= MAX_MEMBERS and len(names) == len(infos) and all(map(_NAME.fullmatch, names))
    is_small = sum(info.file_size for info in infos) <= MAX_UNPACKED_BYTES and not zip_bounds.is_overlapping(archive)
    if (
        not is_expected
        or not is_small
        or any(info.file_size > MAX_ANSWER_BYTES for info in infos if info.filename == ANSWER)
        or not all(map(zip_bounds.is_regular, infos))
        or any(map(zip_bounds.is_bomb, infos))
    ):
        raise SealError(REFUSED)
