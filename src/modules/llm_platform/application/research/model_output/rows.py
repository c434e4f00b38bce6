"""The rows of a model's answer: every complete object or array, out of whatever it is wrapped in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from modules.llm_platform.application.research.model_output.cleaning import strip_reasoning
from modules.llm_platform.application.research.model_output.json import MAX_DEPTH, read_values, unescaped

# A mark between nothing and ten, however a model writes it down.


TOP: Final = 10.0  # the scale that fractions and percents are brought to
MAX_CHARS: Final = 80  # a longer text is no number

_NUMBER = r"[-+−]?\d{1,15}(?:[.,]\d{1,15})?"
_WRITTEN = re.compile(
    rf"(?P<mark>{_NUMBER})\s*(?:(?:/|из|out\s+of|of|von|sur|de)\s*(?P<top>{_NUMBER})|(?P<percent>%))?"
    r"\s*(?:points?|pts?|баллов|балла|балл|Punkte?|分)?\s*(?:\(.*\)|[-–—]\s.*)?",
    re.I | re.S,
)
_AROUND_A_NUMBER = " \t\r\n\"'“”„«»`*_~≈=.:;,!"

_WORDS: Final = {
    word: float(number)
    for number, names in enumerate(
        (
            "zero none нуль ноль null zéro cero 零",
            "one один одна eins un uno 一",
            "two два две zwei deux dos 二",
            "three три drei trois tres 三",
            "four четыре vier quatre cuatro 四",
            "five пять fünf cinq cinco 五",
            "six шесть sechs seis 六",
            "seven семь sieben sept siete 七",
            "eight восемь acht huit ocho 八",
            "nine девять neun neuf nueve 九",
            "ten десять zehn dix diez 十",
        )
    )
    for word in names.split()
    if word not in {"none", "null"}  # no answer rather than the worst
}


def read_number(value: object) -> float | None:
    """7, "7", "7,5", "8/10", "80%" (8.0), "4 of 5" (8.0), "seven", "семь": the number, else None; never NaN or infinite.

    A fraction and a percentage are brought to 0..10; a plain number is given as it is, out of range too.
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _finite(value)


def _from_text(text: str) -> float | None:
    if len(text) > MAX_CHARS:
        return None
    bare = text.strip(_AROUND_A_NUMBER)
    named = _WORDS.get(bare.casefold())
    found = _WRITTEN.fullmatch(bare) if named is None else None
    if found is None:
        return named
    mark = _float(found["mark"])
    if found["percent"]:
        return mark / TOP
    top = _float(found["top"]) if found["top"] else TOP
    return mark * TOP / top if top > 0 else None


def _float(digits: str) -> float:
    return float(digits.replace(",", ".").replace("−", "-"))


def _finite(number: float) -> float | None:
    try:
        exact = float(number)
    except OverflowError:  # an integer of four hundred digits
        return None
    return exact if math.isfinite(exact) else None


# Rows that a model wrote as lines: a Markdown table, comma-separated values, `1. Title: 7, 8, 6, 7, 8`, blocks of
# pairs.


MAX_LINES: Final = 2000
MAX_LINE_CHARS: Final = 600
MIN_MARKS: Final = 3  # fewer numbers in a line or block are prose
TITLE: Final = "title"  # of a block that begins with a title alone

_BETWEEN = re.compile(r"[|;,\t]")
_NUMBERED = re.compile(r"\(?#?(\d{1,3})[.):]\s+(\S.*)")
_TITLED = re.compile(r"(.*\S)\s*(?:[:：—–]|\s-)\s*(\S{1,20})")
_PAIR = re.compile(r"[^\w(]{0,12}(\w[\w \-]{0,60}?)[*_\"'`]{0,3}\s?[:：=]\s*(\S.*)")
_AROUND = " \t\"'“”«»`*"


def read_written_rows(text: str, limit: int) -> list[Mapping[str, object] | Sequence[object]]:
    """Lines as [number, title, mark, ...], else blocks of `name: value` lines as objects; at most `limit`."""
    lines = [line[:MAX_LINE_CHARS].strip() for line in text.splitlines()[:MAX_LINES]]
    return [*islice(_lines_with_marks(lines), limit)] or [*islice(_blocks(lines), limit)]


def _lines_with_marks(lines: list[str]) -> Iterator[list[object]]:
    for line in lines:
        cells = _cells(_parts(line.strip("|()[]{}* ")))
        if _marks(cells) >= MIN_MARKS:
            yield cells


def _parts(line: str) -> list[str]:
    parts = _BETWEEN.split(line)
    numbered = _NUMBERED.fullmatch(parts[0].strip())
    if numbered:
        parts[:1] = numbered.groups()
    at = len(numbered.groups()) - 1 if numbered else 0
    titled = _TITLED.fullmatch(parts[at].strip())
    if titled and read_number(titled[2]) is not None:
        parts[at : at + 1] = titled.groups()
    return parts


def _cells(parts: list[str]) -> list[object]:
    """A title with separators in it is one cell again."""
    cells: list[object] = []
    title: list[str] = []
    for part in (part.strip(_AROUND) for part in parts):
        if part and read_number(part) is None:
            title.append(part)
            continue
        if title:
            cells.append(", ".join(title))
            title = []
        cells.append(part)
    return [*cells, ", ".join(title)] if title else cells


def _blocks(lines: list[str]) -> Iterator[dict[str, object]]:
    """A name that comes again, or a line without a pair, begins the next block; that line is its title."""
    block: dict[str, object] = {}
    for line in lines:
        pair = _PAIR.fullmatch(line)
        if line and (not pair or pair[1].lower() in block):
            if _marks(block.values()) >= MIN_MARKS:
                yield block
            block = {} if pair else {TITLE: line.strip(_AROUND + "#.:-)(0123456789")}
        if pair:
            block[pair[1].lower()] = pair[2].strip(_AROUND + ",")
    if _marks(block.values()) >= MIN_MARKS:
        yield block


def _marks(values: Iterable[object]) -> int:
    return sum(read_number(value) is not None for value in values)


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
    others = [
        inner
        for key, inner in value.items()
        if key.strip().lower() not in _MARK_KEYS and read_number(inner) is not None
    ]
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
