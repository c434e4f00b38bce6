"""Files that are sent with a question and read for its answer only."""

import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

MAX_FILES: Final = 5  # files of one request
MAX_FILES_BYTES: Final = 10_000_000  # all files of a request together, decoded
MAX_SENT_NAME_CHARS: Final = 1000
MAX_NAME_CHARS: Final = 100
MAX_SUFFIX_CHARS: Final = 10
NAMELESS: Final = "file"

_SEPARATOR = re.compile(r"[/\\]")


def clean_name(name: str) -> str:
    """Return the last part of a path, without characters that cannot be printed, and of at most MAX_NAME_CHARS."""
    last = _SEPARATOR.split(name)[-1]
    plain = "".join(char if char.isprintable() else " " for char in last)
    tidy = PurePosixPath(" ".join(plain.split()).strip(". "))
    suffix = tidy.suffix[:MAX_SUFFIX_CHARS]
    return f"{tidy.stem[: MAX_NAME_CHARS - len(suffix)].strip() or NAMELESS}{suffix}"


def _decode(value: Any) -> Any:
    """Return the bytes of base64; bytes are taken as they are. The message never has a part of the content."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise PydanticCustomError("base64", "must be base64 (RFC 4648) without line breaks") from None


class UploadedFile(BaseModel):
    """A file as it was sent: its name, whose suffix says what it is, and its bytes (base64 in JSON)."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64")

    name: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SENT_NAME_CHARS)]
    content: Annotated[bytes, BeforeValidator(_decode, json_schema_input_type=str)] = Field(
        min_length=1,
        max_length=MAX_FILES_BYTES,
        repr=False,
        strict=True,
        json_schema_extra={"format": "base64", "contentEncoding": "base64"},
    )


def clean_names(files: Sequence[UploadedFile]) -> tuple[UploadedFile, ...]:
    """Return the files under names that lead out of no folder, each another one: the second `a.pdf` is `a (2).pdf`.

    Raises a validation error where they have more than MAX_FILES_BYTES together.
    """
    if sum(len(file.content) for file in files) > MAX_FILES_BYTES:
        message = f"must have at most {MAX_FILES_BYTES // 1_000_000} MB all together"
        raise PydanticCustomError("files_too_large", message)
    named: dict[str, UploadedFile] = {}
    for file in files:
        name = clean_name(file.name)
        first, number = PurePosixPath(name), 1
        while name.casefold() in named:
            number += 1
            name = f"{first.stem} ({number}){first.suffix}"
        named[name.casefold()] = file.model_copy(update={"name": name})
    return tuple(named.values())
