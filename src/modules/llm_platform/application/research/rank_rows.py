"""The rows of a ranking as models write them: compact arrays, the full objects of mind-search.md, and what lies between."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from modules.llm_platform.application.research.decoding import Row, read_number
from modules.llm_platform.application.research.title_match import Marked
from modules.llm_platform.domain.ranking import TOP_SCORE

CRITERIA = 5
MAX_CELL_CHARS = 40  # of a text that can be a mark: `8/10 (very good)`
MAX_KEY_CHARS = 60

Role = Literal["title", "number", "criterion", "overall", "other"]

_TITLE = re.compile(r"заголов|назван|title|titel|titre|t[ií]tulo|headline|name|标题")
# `key` is where the decoder keeps what an object stood under, which may be a number, or a title.
_NUMBER = re.compile(
    r"(?:key|n|nr|no|№|#|id|idx|index|num|number|номер|numer[oa]?|nummer|position|позиция|rank|result|результат)_?"
)
_CRITERION = re.compile(
    r"соответств|релевант|направл|полнот|точност|структур|читаем|читаб|ясност"
    r"|relev|match|query|question|direct|aspect|fit|complet|cover|depth|accura|precis|correct|struct|readab|clarity|clear"
)
_OVERALL = re.compile(r"итог|общ|средн|total|overall|final|mean|average|gesamt|sum")
_MARK = re.compile(r"scor|rating|рейтинг|оцен|балл|points|value|mark|note")
_BEFORE_TITLE = re.compile(r"\s*[\[(#№]?(\d{1,2})[\])]?\s*[.):：|]")


def read_marked(row: Row) -> Iterator[Marked]:
    """What a row says of a result; several where it is an object with a key for each result; none without a mark."""
    found = _of_object(row) if isinstance(row, Mapping) else iter((_of_array(row),))
    return (each for each in found if each.marks)


def _of_array(cells: Sequence[object]) -> Marked:
    """Number, beginning of the title, marks; the first two may be missing. Five marks and nothing else have no number."""
    words = [cell for cell in cells if isinstance(cell, str) and _mark(cell) is None]
    numbered = bool(words) or len(cells) != CRITERIA
    number = _number(cells[0]) if cells and numbered else None
    rest = cells if number is None else cells[1:]
    if rest and not words and _may_be_title(rest):
        words, rest = [str(rest[0])], rest[1:]
    return _marked(number, words[0] if words else "", _marks(rest))


def _may_be_title(cells: Sequence[object]) -> bool:
    """A title that reads like a number, `Seven`, with all its marks behind it."""
    first = cells[0]
    return isinstance(first, str) and first.strip()[:1].isalpha() and len(cells) > CRITERIA


def _of_object(row: Mapping[str, object]) -> Iterator[Marked]:
    number: int | None = None
    title = spare = ""
    marks: dict[Role, list[float]] = {"criterion": [], "other": [], "overall": []}
    known = False
    for key, value in row.items():
        role, mark = _role(key[:MAX_KEY_CHARS]), _mark(value)
        known = known or role != "other"
        if role == "title":
            title = title or str(value)
        elif isinstance(value, str) and mark is None:
            spare = spare or value
        elif role == "number":
            number = _number(value)
        elif mark is not None:
            marks[role].append(mark)
    if known or spare:
        own = marks["criterion"] or marks["other"] or marks["overall"]
        yield _marked(number, title or ("" if number else spare), own)
    else:
        yield from _by_key(row)


@lru_cache(maxsize=512)
def _role(key: str) -> Role:
    """What the value under this key is."""
    name = key.strip().casefold()
    if _TITLE.search(name):
        return "title"
    if _NUMBER.fullmatch(name):
        return "number"
    if _OVERALL.search(name):
        return "overall"
    if _CRITERION.search(name):
        return "criterion"
    return "overall" if _MARK.search(name) else "other"


def _by_key(row: Mapping[str, object]) -> Iterator[Marked]:
    """`{"Solar sails": 7, "Tea": [2, 1, 2, 2, 3]}` or the same with numbers for titles."""
    for key, value in row.items():
        number = int(key) if key.isascii() and key.isdigit() and len(key) <= 2 else None
        yield _marked(number, "" if number is not None else key, _marks((value,)))


def _marked(number: int | None, title: str, marks: Sequence[float]) -> Marked:
    if number is None and (before := _BEFORE_TITLE.match(title)):
        number = int(before[1])
    return Marked(number, title, tuple(marks[:CRITERIA]))


def _marks(values: Iterable[object]) -> list[float]:
    return [mark for value in values if (mark := _mark(value)) is not None]


def _number(value: object) -> int | None:
    number = read_number(value)
    return int(number) if number is not None and number == int(number) else None


def _mark(value: object) -> float | None:
    """A number from 0 to 10, however it is written; what is out of range says nothing."""
    if type(value) is int:  # what nearly all of them are
        return float(value) if 0 <= value <= TOP_SCORE else None
    if isinstance(value, str) and len(value) > MAX_CELL_CHARS:
        return None
    number = read_number(value)
    return number if number is not None and 0.0 <= number <= TOP_SCORE else None
