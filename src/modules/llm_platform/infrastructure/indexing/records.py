"""JSON lines as documents: `{doc_id?, title, text, url?, source?, lang?, …}`, every further scalar or list a filter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid5

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText
from modules.llm_platform.infrastructure.documents.errors import UnreadableDocument
from modules.llm_platform.infrastructure.documents.reading import MAX_TITLE_CHARS, first_heading
from modules.llm_platform.infrastructure.foreign_json import decode_json
from modules.llm_platform.infrastructure.indexing.names import clean

MAX_TEXT_CHARS: Final = 5_000_000  # of one document; what follows is not read
MAX_FILTER_CHARS: Final = 1000  # of one value; a longer one is text, and no filter
MAX_FILTER_VALUES: Final = 1000  # of one document
MAX_ID_CHARS: Final = 1000
MAX_SHORT_CHARS: Final = 4000  # of url, source and lang
TEXT: Final = "text"

_NAMELESS: Final = UUID("5d0c3c0e-6b5f-5a5e-8e0f-1f5f7d0c9a42")  # the namespace of documents without an id of their own

Record = Mapping[str, Any]


def record_of(line: bytes) -> Record:
    """The object of a line. Raises UnreadableDocument."""
    try:
        value = decode_json(line, lambda: None)
    except ValueError as error:
        raise UnreadableDocument("it is no JSON") from error
    if not isinstance(value, dict):
        raise UnreadableDocument("it is no JSON object")
    return value


def id_of(record: Record) -> str:
    """Its `doc_id`, which may be a number; without one its address, and without that a name made of its words: it is
    another document then when they change. Raises UnreadableDocument for an id that is neither text nor number.
    """
    given = record.get("doc_id")
    if given is None or given == "":
        words = json.dumps([record.get("title"), record.get(TEXT)]).encode()  # ASCII, whatever is in it
        return _short(record, "url") or str(uuid5(_NAMELESS, sha256(words).hexdigest()))
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise UnreadableDocument("its doc_id is neither text nor a number")
    if len(doc_id := clean(str(given))) > MAX_ID_CHARS:
        raise UnreadableDocument(f"its doc_id has more than {MAX_ID_CHARS} characters")
    return doc_id


def text_of(record: Record, doc_id: str) -> DocumentText:
    """What the record says. Raises UnreadableDocument where it has no text."""
    text = record.get(TEXT)
    if not isinstance(text, str) or not text.strip():
        raise UnreadableDocument("its text is missing: give `text`")
    cut = f"only its first {MAX_TEXT_CHARS} characters were read" if len(text) > MAX_TEXT_CHARS else None
    text = clean(text[:MAX_TEXT_CHARS]).replace("\r\n", "\n").replace("\r", "\n")
    title = record.get("title")
    named = " ".join(clean(title).split()) if isinstance(title, str) else ""
    return DocumentText(
        title=(named or first_heading(text) or doc_id)[:MAX_TITLE_CHARS],
        text=text,
        url=_short(record, "url"),
        source=_short(record, "source"),
        lang=_short(record, "lang"),
        fields={**filters_of(record), "doc_id": (doc_id,)},
        note=cut,
    )


def filters_of(record: Record) -> dict[str, tuple[str, ...]]:
    """Each scalar or list field but the text, its values written as JSON writes them, text as it is."""
    filters: dict[str, tuple[str, ...]] = {}
    left = MAX_FILTER_VALUES
    for key, value in record.items():
        values = tuple(_values(value if isinstance(value, list) else [value]))[:left] if key != TEXT else ()
        if values:
            filters[clean(key)] = values
            left -= len(values)
    return filters


def _values(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str) and len(value) <= MAX_FILTER_CHARS:
            yield clean(value)
        elif isinstance(value, bool | int | float):
            yield json.dumps(value)


def _short(record: Record, name: str) -> str | None:
    value = record.get(name)
    return clean(value) if isinstance(value, str) and 0 < len(value) <= MAX_SHORT_CHARS else None
