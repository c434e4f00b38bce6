"""The rows of a model's answer: every complete object or array, out of whatever it is wrapped in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from modules.llm_platform.application.research.decoding.cleaning import strip_reasoning
from modules.llm_platform.application.research.decoding.loose_json import MAX_DEPTH, read_values, unescaped
from modules.llm_platform.application.research.decoding.numbers import read_number
from modules.llm_platform.application.research.decoding.written_rows import read_written_rows

MAX_ROWS: Final = 256
MAX_HEAD: Final = 3  # number, title, address: what may stand beside a list of marks
KEY: Final = "key"  # where a row keeps the key that it stood under

Row = Mapping[str, object] | Sequence[object]

_ESCAPED_JSON = re.compile(r"[\[{,:]\s*\\\"")
_PLAIN_JSON = re.compile(r"[\[{,:]\s*\"")
_HTML_JSON = re.compile(r"[\[{,:]\s*&(?:quot|#34|#39|apos);")
_ENTITY = re.compile(r"&(?:(quot|#34)|(apos|#39|#x27)|amp|lt|gt);")
_MARK_KEYS: Final = frozenset({"score", "value", "mark", "rating", "оценка", "балл", "значение", "рейтинг"})
_WRAPPER = re.compile(
    r"results?|items?|data|rows?|scores?|rank\w*|rating\w*|output|answer|результат\w*|оценк\w*|рейтинг\w*|ответ\w*",
    re.I,
)


def read_rows(text: str) -> list[Row]:
    """All complete rows of an answer in order, at most `MAX_ROWS`, flattened out of what they are wrapped in.

    An object of plain values is a row, and so is an array of two and more. A row that stood under a key which may be its
    title or number has it in `row["key"]`; an array of marks alone has it in front. Marks of an object within the row are
    pairs of the row; a list of marks makes the row an array: [number, title, mark, mark, ...]. Where there is neither
    object nor array, lines that hold a title and marks are rows.
    """
    body = _decoded(strip_reasoning(text))
    rows = (row for value in read_values(body) for row in _rows(value, 0))
    return list(islice(rows, MAX_ROWS)) or read_written_rows(body, MAX_ROWS)


def _decoded(text: str) -> str:
    """JSON that came as a string of JSON, or with the entities of HTML."""
    if "&" in text and _HTML_JSON.search(text):
        return _ENTITY.sub(lambda found: '"' if found[1] else "'" if found[2] else " ", text)
    if "\\" in text and _ESCAPED_JSON.search(text) and not _PLAIN_JSON.search(text):
        return unescaped(text)
    return text


def _rows(value: object, depth: int) -> Iterator[Row]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield from _rows_of_object(value, depth + 1)
    elif isinstance(value, list):
        yield from _rows_of_array(value, depth + 1)


def _rows_of_array(array: list[object], depth: int) -> Iterator[Row]:
    own = [item for item in array if not isinstance(item, dict | list)]
    if len(own) > 2 or (len(own) == 2 and any(isinstance(item, str) for item in own)):  # [2, 3] points at sources
        yield own
    for item in array:
        yield from _rows(item, depth)


def _rows_of_object(pairs: dict[str, object], depth: int) -> Iterator[Row]:
    titled = not all(isinstance(value, dict | list) for value in pairs.values())
    inner = {key: _mark(value) for key, value in pairs.items()} if titled else pairs
    plain = {key: value for key, value in inner.items() if not isinstance(value, dict | list)}
    nested: dict[str, object] = {key: value for key, value in inner.items() if isinstance(value, dict | list) and value}
    whole = _joined(inner, plain, nested) if plain else None
    if whole:
        yield whole
        return
    for key, value in nested.items():
        rows = _rows(value, depth)
        yield from (_under(key, row) for row in rows) if _is_flat(value) else rows


def _joined(inner: dict[str, object], plain: dict[str, object], nested: dict[str, object]) -> Row | None:
    """The object as one row where its marks stand in it plainly, or in one object or list of their own; else None."""
    if not nested:
        return plain
    if not all(_is_flat(value) for value in nested.values()):
        return None
    first = next(iter(nested.values()))
    if len(nested) == 1 and isinstance(first, dict):
        return plain | first
    if isinstance(first, list) and _are_marks(first) and len(plain) <= MAX_HEAD:
        return [part for value in inner.values() for part in (value if isinstance(value, list) else [value])]
    return plain if len(plain) > 1 and not any(isinstance(value, dict) for value in nested.values()) else None


def _mark(value: object) -> object:
    """`{"score": 7, "reason": "..."}` is the mark 7."""
    if not isinstance(value, dict) or not _is_flat(value):
        return value
    marks = [inner for key, inner in value.items() if key.strip().lower() in _MARK_KEYS]
    others = [inner for key, inner in value.items() if key.strip().lower() not in _MARK_KEYS and read_number(inner) is not None]
    return marks[0] if len(marks) == 1 and not others else value


def _under(key: str, row: Row) -> Row:
    if _WRAPPER.fullmatch(key.strip()):
        return row
    if isinstance(row, Mapping):
        return {KEY: key, **row}
    return [key, *row] if _are_marks(row) or not isinstance(row[0], int | float) else row


def _are_marks(items: Sequence[object]) -> bool:
    return len(items) > 1 and all(read_number(item) is not None for item in items)


def _is_flat(value: object) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(part, dict | list) for part in parts)
