"""Read the rows of a model's answer: complete JSON objects and arrays at any depth, else lines of text.

`read_number` reads a number in any notation.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final

from modules.llm_platform.application.research.model_output.cleaning import strip_reasoning
from modules.llm_platform.application.research.model_output.lenient_json import MAX_DEPTH, read_values, unescape
from modules.llm_platform.domain.retrieval.ranking import TOP_SCORE
from modules.llm_platform.domain.text.numbers import load_number_words

MAX_NUMBER_CHARS: Final = 80  # a longer text is not a number

_NUMBER = r"[-+−]?\d{1,15}(?:[.,]\d{1,15})?"
_SCORE = re.compile(
    rf"(?P<score>{_NUMBER})\s*(?:(?:/|из|out\s+of|of|von|sur|de)\s*(?P<scale>{_NUMBER})|(?P<percent>%))?"
    r"\s*(?:points?|pts?|баллов|балла|балл|Punkte?|分)?\s*(?:\(.*\)|[-–—]\s.*)?",
    re.I | re.S,
)
_NUMBER_TRIM = " \t\r\n\"'“”„«»`*_~≈=.:;,!"


@cache
def _list_number_words() -> Mapping[str, float]:
    """Return the numbers by their words. `none` and `null` are not among them: they mean a missing score, not the score 0."""
    # The words may mean something else in other texts.
    few = enumerate(("zero нуль ноль zéro cero", "one один одна eins un uno"))
    signs = {sign: float(value) for value, sign in enumerate("零一二三四五六七八九十")}
    others = {word: float(value) for word, value in load_number_words().items()}
    return {**signs, **others, **{word: float(value) for value, words in few for word in words.split()}}


def read_number(value: object) -> float | None:
    """Return the number in `7`, `"7"`, `"7,5"`, `"8/10"`, `"80%"` (8.0), `"4 of 5"` (8.0), `"seven"` or `"семь"`, else None.

    Fractions and percentages are scaled to 0..10. Other numbers are returned unchanged, even out of range, but never NaN or
    infinite.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        exact = float(value)
    except OverflowError:  # an integer of four hundred digits
        return None
    return exact if math.isfinite(exact) else None


def _parse_text(text: str) -> float | None:
    if len(text) > MAX_NUMBER_CHARS:
        return None
    trimmed = text.strip(_NUMBER_TRIM)
    spelled_out = _list_number_words().get(trimmed.casefold())
    found = _SCORE.fullmatch(trimmed) if spelled_out is None else None
    if found is None:
        return spelled_out
    score = _parse_float(found["score"])
    if found["percent"]:
        return score / TOP_SCORE
    scale = _parse_float(found["scale"]) if found["scale"] else TOP_SCORE
    return score * TOP_SCORE / scale if scale > 0 else None


def _parse_float(digits: str) -> float:
    return float(digits.replace(",", ".").replace("−", "-"))


# Rows written as text: a Markdown table, comma-separated values, `1. Title: 7, 8, 6, 7, 8`.

MAX_LINES: Final = 2000
MAX_LINE_CHARS: Final = 600
MIN_SCORES: Final = 3  # a line with fewer numbers is prose

_BETWEEN = re.compile(r"[|;,\t]")
_NUMBERED = re.compile(r"\(?#?(\d{1,3})[.):]\s+(\S.*)")
_TITLED = re.compile(r"(.*\S)\s*(?:[:：—–]|\s-)\s*(\S{1,20})")
_CELL_TRIM = " \t\"'“”«»`*"


def read_written_rows(text: str) -> Iterator[Sequence[object]]:
    """Yield the lines that have scores as [number, title, score, ...]."""
    for line in text.splitlines()[:MAX_LINES]:
        cells = _join_title_cells(_split_parts(line[:MAX_LINE_CHARS].strip().strip("|()[]{}* ")))
        if sum(read_number(cell) is not None for cell in cells) >= MIN_SCORES:
            yield cells


def _split_parts(line: str) -> list[str]:
    parts = _BETWEEN.split(line)
    numbered = _NUMBERED.fullmatch(parts[0].strip())
    if numbered:
        parts[:1] = numbered.groups()
    at = len(numbered.groups()) - 1 if numbered else 0
    title_and_score = _TITLED.fullmatch(parts[at].strip())
    if title_and_score and read_number(title_and_score[2]) is not None:
        parts[at : at + 1] = title_and_score.groups()
    return parts


def _join_title_cells(parts: list[str]) -> list[object]:
    """Return the cells with the parts of a title joined again, which the split at separators cut."""
    cells: list[object] = []
    title: list[str] = []
    for part in (part.strip(_CELL_TRIM) for part in parts):
        if part and read_number(part) is None:
            title.append(part)
            continue
        if title:
            cells.append(", ".join(title))
            title = []
        cells.append(part)
    return [*cells, ", ".join(title)] if title else cells


MAX_ROWS: Final = 256
MAX_LABEL_CELLS: Final = 3  # number, title, address: cells beside a list of scores
KEY: Final = "key"  # stands for the JSON key of the row itself

Row = Mapping[str, object] | Sequence[object]

_ESCAPED_JSON = re.compile(r"[\[{,:]\s*\\\"")
_PLAIN_JSON = re.compile(r"[\[{,:]\s*\"")
_HTML_JSON = re.compile(r"[\[{,:]\s*&(?:quot|#34|#39|apos);")
_ENTITY = re.compile(r"&(?:(quot|#34)|(apos|#39|#x27)|amp|lt|gt);")
_SCORE_KEYS: Final = frozenset({"score", "value", "rating", "оценка", "балл", "значение", "рейтинг"})
_WRAPPER = re.compile(
    r"results?|items?|data|rows?|scores?|rank\w*|rating\w*|output|answer|результат\w*|оценк\w*|рейтинг\w*|ответ\w*",
    re.I,
)


def read_rows(text: str) -> list[Row]:
    """Return all complete rows of an answer in order, at most `MAX_ROWS`, without their wrappers.

    An object of scalars is a row, and an array of two or more. The key of a row, which may be its title or number, is in
    `row["key"]`, or the first cell of an array of scores. Scores in a nested object become pairs of the row; a nested list
    of scores makes the row an array: [number, title, score, score, ...]. An answer without JSON is read as lines of text.
    """
    body = _unescape_json(strip_reasoning(text))
    rows = (row for value in read_values(body) for row in _find_rows(value, 0))
    return list(islice(rows, MAX_ROWS)) or list(islice(read_written_rows(body), MAX_ROWS))


def _unescape_json(text: str) -> str:
    """Undo JSON inside a JSON string, and HTML entities in JSON."""
    if "&" in text and _HTML_JSON.search(text):
        return _ENTITY.sub(lambda found: '"' if found[1] else "'" if found[2] else " ", text)
    if "\\" in text and _ESCAPED_JSON.search(text) and not _PLAIN_JSON.search(text):
        return unescape(text)
    return text


def _find_rows(value: object, depth: int) -> Iterator[Row]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield from _find_rows_in_object(value, depth + 1)
    elif isinstance(value, list):
        own = [item for item in value if not isinstance(item, dict | list)]
        if len(own) > 2 or (len(own) == 2 and any(isinstance(item, str) for item in own)):  # [2, 3] points at sources
            yield own
        for item in value:
            yield from _find_rows(item, depth + 1)


def _find_rows_in_object(pairs: dict[str, object], depth: int) -> Iterator[Row]:
    title_and_score = not all(isinstance(value, dict | list) for value in pairs.values())
    inner = {key: _read_score(value) for key, value in pairs.items()} if title_and_score else pairs
    scalars = {key: value for key, value in inner.items() if not isinstance(value, dict | list)}
    nested: dict[str, object] = {key: value for key, value in inner.items() if isinstance(value, dict | list) and value}
    merged = _merge_row(inner, scalars, nested) if scalars else None
    if merged:
        yield merged
        return
    for key, value in nested.items():
        rows = _find_rows(value, depth)
        yield from (_add_key(key, row) for row in rows) if _is_flat(value) else rows


def _merge_row(inner: dict[str, object], scalars: dict[str, object], nested: dict[str, object]) -> Row | None:
    """Return the object as one row, when its scores are scalars or in one nested object or list; else None."""
    if not nested:
        return scalars
    if not all(_is_flat(value) for value in nested.values()):
        return None
    first = next(iter(nested.values()))
    if len(nested) == 1 and isinstance(first, dict):
        return scalars | first
    if isinstance(first, list) and _are_scores(first) and len(scalars) <= MAX_LABEL_CELLS:
        return [part for value in inner.values() for part in (value if isinstance(value, list) else [value])]
    return scalars if len(scalars) > 1 and not any(isinstance(value, dict) for value in nested.values()) else None


def _read_score(value: object) -> object:
    """Return the score of an object with one score (`{"score": 7, "reason": "..."}`); other values unchanged."""
    if not isinstance(value, dict) or not _is_flat(value):
        return value
    scores = [inner for key, inner in value.items() if key.strip().lower() in _SCORE_KEYS]
    others = [
        inner
        for key, inner in value.items()
        if key.strip().lower() not in _SCORE_KEYS and read_number(inner) is not None
    ]
    return scores[0] if len(scores) == 1 and not others else value


def _add_key(key: str, row: Row) -> Row:
    if _WRAPPER.fullmatch(key.strip()):
        return row
    if isinstance(row, Mapping):
        return {KEY: key, **row}
    return [key, *row] if _are_scores(row) or not isinstance(row[0], int | float) else row


def _are_scores(items: Sequence[object]) -> bool:
    return len(items) > 1 and all(read_number(item) is not None for item in items)


def _is_flat(value: object) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(part, dict | list) for part in parts)
