"""Messages between a server and its parser: a few fields as JSON, and a text or a file as the bytes that it is.

A message is the two lengths in bytes, as unsigned 32-bit little-endian numbers, then the fields, then the content.
"""

import json
import struct
from typing import IO, Any

MAX_FIELDS_BYTES = 16_000_000  # a page's links: 1,000 of them, with their texts
MAX_CONTENT_BYTES = 64_000_000  # the largest file, or the longest text

_LENGTHS = struct.Struct("<II")


def write_message(stream: IO[bytes], fields: dict[str, Any], content: bytes = b"") -> None:
    head = json.dumps(fields).encode("ascii")
    stream.write(_LENGTHS.pack(len(head), len(content)) + head)
    stream.write(content)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Return the next message, or None at the end of the stream. Raises ValueError for anything else."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    fields_bytes, content_bytes = _LENGTHS.unpack(lengths)
    if fields_bytes > MAX_FIELDS_BYTES or content_bytes > MAX_CONTENT_BYTES:
        raise ValueError("the message is too long")
    head, content = stream.read(fields_bytes), stream.read(content_bytes)
    if len(content) < content_bytes:
        return None
    fields = json.loads(head)
    if not isinstance(fields, dict):
        raise ValueError("the fields of the message are not an object")
    return fields, content


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def decode_text(content: bytes) -> str:
    """Return the text of `encode_text`. Raises ValueError for other bytes."""
    return content.decode("utf-8", "surrogatepass")
