"""Reads JSON Lines as documents: `{doc_id?, title, text, url?, source?, lang?, …}`. Every other scalar or list is a
filter."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID, uuid5

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.documents.reading import DOCUMENT_TITLE_CHARS, find_first_heading
from modules.llm_platform.infrastructure.http.untrusted_json import decode_json
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument, replace_unprintable

RECORD_TEXT_CHARS: Final = 5_000_000  # longest text of one document; the rest is not read
MAX_FILTER_CHARS: Final = 1000  # longest value; a longer one is not a filter
RECORD_FILTER_VALUES: Final = 1000  # values of one document
RECORD_ID_CHARS: Final = 1000
MAX_SHORT_CHARS: Final = 4000  # longest url, source and lang
TEXT: Final = "text"

_NAMELESS: Final = UUID("5d0c3c0e-6b5f-5a5e-8e0f-1f5f7d0c9a42")  # namespace of ids made from content

Record = Mapping[str, Any]


def parse_record(line: bytes) -> Record:
    """Return the JSON object of a line. Raises UnreadableDocument."""
    try:
        value = decode_json(line, lambda: None)
    except ValueError as error:
        raise UnreadableDocument("it is not JSON") from error
    if not isinstance(value, dict):
        raise UnreadableDocument("it is not a JSON object")
    return value


def read_id(record: Record) -> str:
    """Return the `doc_id`, which is text or a whole number, or else the `url`, or else a UUID of title and text.

    Raises UnreadableDocument for an id of another type, and for a blank one.
    """
    value = record.get("doc_id")
    if value is None or value == "":
        content = json.dumps([record.get("title"), record.get(TEXT)]).encode()  # ASCII, whatever is in it
        return _read_short(record, "url") or str(uuid5(_NAMELESS, sha256(content).hexdigest()))
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UnreadableDocument("its doc_id is neither text nor a whole number")
    if not str(value).strip():
        raise UnreadableDocument("its doc_id is blank: give it an id, or leave doc_id out")
    if len(doc_id := replace_surrogates(str(value))) > RECORD_ID_CHARS:
        raise UnreadableDocument(f"its doc_id has more than {RECORD_ID_CHARS} characters")
    return doc_id


def read_document(record: Record, doc_id: str) -> DocumentText:
    """Return the document of a record. Raises UnreadableDocument if it has no text."""
    text = record.get(TEXT)
    if not isinstance(text, str) or not text.strip():
        raise UnreadableDocument("its text is missing: give `text`")
    cut = f"only its first {RECORD_TEXT_CHARS} characters were read" if len(text) > RECORD_TEXT_CHARS else None
    text = replace_surrogates(text[:RECORD_TEXT_CHARS]).replace("\r\n", "\n").replace("\r", "\n")
    title = record.get("title")
    own_title = " ".join(replace_surrogates(title).split()) if isinstance(title, str) else ""
    return DocumentText(
        title=(own_title or find_first_heading(text) or doc_id)[:DOCUMENT_TITLE_CHARS],
        text=text,
        url=_read_short(record, "url"),
        source=_read_short(record, "source"),
        lang=_read_short(record, "lang"),
        fields={**read_filters(record), "doc_id": (doc_id,)},
        note=cut,
    )


def read_filters(record: Record) -> dict[str, tuple[str, ...]]:
    """Return each scalar or list field except `text`: text as it is, other values as JSON."""
    filters: dict[str, tuple[str, ...]] = {}
    left = RECORD_FILTER_VALUES
    for key, values in record.items():
        if key == TEXT:
            continue
        texts = []
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str) and len(value) <= MAX_FILTER_CHARS:
                texts.append(replace_surrogates(value))
            elif isinstance(value, bool | int | float):
                texts.append(json.dumps(value))
        if accepted := tuple(texts[:left]):
            filters[replace_surrogates(key)] = accepted
            left -= len(accepted)
    return filters


def _read_short(record: Record, name: str) -> str | None:
    value = record.get(name)
    return replace_surrogates(value) if isinstance(value, str) and 0 < len(value) <= MAX_SHORT_CHARS else None


JSON_LINES: Final = (".jsonl", ".ndjson")
MAX_LINE_BYTES: Final = 16_000_000


def read_json_documents(path: Path, position: int, redactor: Redactor) -> Iterator[FoundDocument | LeftOut]:
    """Yield the documents of a file. `position` is the number of bytes of all files before it. Raises nothing."""
    where = replace_unprintable(path)
    try:
        with path.open("rb") as file:
            for number, (line, end) in enumerate(_read_lines(file), 1):
                if line is None:
                    reason = f"the line has more than {MAX_LINE_BYTES // 1_000_000} MB"
                    yield LeftOut(f"{where}:{number}", reason, hides="")  # its id is unknown
                elif line.strip(b"\xef\xbb\xbf \t\r\n"):
                    yield _parse_document(redactor.data(line.strip()), f"{where}:{number}", position + end)
    except OSError as error:
        yield LeftOut(where, f"it cannot be read ({error.strerror})", hides="")


def _read_lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Yield the lines, or None for a line that is too long, and the offsets of their ends."""
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


def _parse_document(line: bytes, where: str, position: int) -> FoundDocument | LeftOut:
    try:
        record = parse_record(line)
        doc_id = read_id(record)
    except UnreadableDocument as error:
        return LeftOut(where, str(error), hides="")
    return FoundDocument(doc_id, sha256(line).hexdigest(), where, position, partial(_read, record, doc_id, where))


def _read(record: Record, doc_id: str, where: str) -> DocumentText | LeftOut:
    try:
        return read_document(record, doc_id)
    except UnreadableDocument as error:
        return LeftOut(where, str(error), hides=doc_id)
