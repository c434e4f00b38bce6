"""A file of JSON lines: each line a document, bad ones named by their number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.errors import UnreadableDocument
from modules.llm_platform.infrastructure.indexing.names import shown
from modules.llm_platform.infrastructure.indexing.records import Record, id_of, record_of, text_of

JSON_LINES: Final = (".jsonl", ".ndjson")
MAX_LINE_BYTES: Final = 16_000_000
TOO_LONG: Final = f"the line has more than {MAX_LINE_BYTES // 1_000_000} MB"


def json_documents(path: Path, place: int, redactor: Redactor) -> Iterator[FoundDocument | LeftOut]:
    """The documents of a file that begins `place` bytes into all that is gone through. Nothing is raised."""
    where = shown(path)
    try:
        with path.open("rb") as file:
            for number, (line, end) in enumerate(_lines(file), 1):
                if line is None:
                    yield LeftOut(f"{where}:{number}", TOO_LONG, hides="")  # it may be any document
                elif line.strip(b"\xef\xbb\xbf \t\r\n"):
                    yield _document(redactor.data(line.strip()), f"{where}:{number}", place + end)
    except OSError as error:
        yield LeftOut(where, f"it cannot be read ({error.strerror})", hides="")


def _lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Lines, and where each ends; None for one that is too long."""
    end = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        end += len(line)
        if len(line) <= MAX_LINE_BYTES:
            yield line, end
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)
            end += len(line)
        yield None, end


def _document(line: bytes, where: str, place: int) -> FoundDocument | LeftOut:
    try:
        record = record_of(line)
        doc_id = id_of(record)
    except UnreadableDocument as error:
        return LeftOut(where, str(error), hides="")
    return FoundDocument(doc_id, sha256(line).hexdigest(), where, place, partial(_read, record, doc_id, where))


def _read(record: Record, doc_id: str, where: str) -> DocumentText | LeftOut:
    try:
        return text_of(record, doc_id)
    except UnreadableDocument as error:
        return LeftOut(where, str(error), hides=doc_id)
