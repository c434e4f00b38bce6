"""Match the rows of a model's ranking to results by their number and by the beginning of their title.

- Models sort and number results anew. If title and number point to different results, the title wins.
- A row whose title matches no result is ignored. The model copied it from the prompt's example, or made it up.
- Numbers begin with 1. If a row has the number 0, all numbers are ignored.
- If several results match a row equally well, the first one without scores gets them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from modules.llm_platform.application.research.model_output.rows import Row, read_number
from modules.llm_platform.domain.retrieval.ranking import TOP_SCORE
from modules.llm_platform.domain.text.tokens import fold

NO_MATCH, SIMILAR, CONTAINS, PREFIX, EQUAL = range(5)  # levels of a title match, best last
MIN_SIMILAR_SHARE = 0.6  # share of the row's words that the title must have
SIMILAR_WORDS = 2  # the least number of shared words, too
MIN_PREFIX_CHARS = 4  # shortest prefix that may end within a word
COMPARED_CHARS = 300  # compared part of a title

_NO_WORD = re.compile(r"[\W_]+")
_NUMBERED = re.compile(r"\s*[\[(#№]?(\d{1,2})[\])]?\s*[.):：\-–—|]\s*")


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """A row of a ranking: number and title as the model wrote them, and its scores."""

    number: int | None
    title: str
    marks: tuple[float, ...]


def match_rows_to_results(rows: Sequence[MatchedRow], titles: Sequence[str]) -> list[tuple[float, ...] | None]:
    """Return the scores of each title; None for a title without a row. If a title has several rows, the first one counts.

    Rows with neither number nor title are taken in their order if there are as many rows as titles.
    """
    found: list[tuple[float, ...] | None] = [None] * len(titles)
    if not titles:
        return found
    if all(row.number is None and not row.title for row in rows):
        return [row.marks for row in rows] if len(rows) == len(titles) else found
    if any(row.number == 0 for row in rows):  # the model counted from 0, or made the numbers up
        rows = [replace(row, number=None) for row in rows]
    _match_titles(_match_numbers(rows, titles, found), found)
    return found


def _match_numbers(
    rows: Sequence[MatchedRow], titles: Sequence[str], found: list[tuple[float, ...] | None]
) -> list[tuple[MatchedRow, list[int]]]:
    """Fill in the rows whose title fits their number. Return the other rows with their match level for each title."""
    normalized = [_normalize(title) for title in titles]
    others: list[tuple[MatchedRow, list[int]]] = []
    for row in rows:
        variants = _list_title_variants(row)
        at = row.number - 1 if row.number is not None and 1 <= row.number <= len(titles) else None
        if at is not None and found[at]:
            at = None  # the number is taken: the row may mean the next result with the same title
        if at is not None and _find_best_match_level(variants, normalized[at]) >= PREFIX:
            found[at] = row.marks
            continue
        levels = [_find_best_match_level(variants, title) for title in normalized]
        if at is not None and levels[at] == max(levels) and (levels[at] or not row.title):
            found[at] = row.marks
        else:
            others.append((row, levels))
    return others


def _match_titles(rows: Sequence[tuple[MatchedRow, list[int]]], found: list[tuple[float, ...] | None]) -> None:
    """Fill in each row at the title that matches it best. If several match equally well, the first free one gets it."""
    for row, levels in rows:
        best = max(levels)
        free = next((at for at, level in enumerate(levels) if level == best and found[at] is None), None)
        if best and free is not None:
            found[free] = row.marks


def _list_title_variants(row: MatchedRow) -> tuple[str, ...]:
    """Return the normalized title, and also without its number if the model wrote one before it."""
    numbered = _NUMBERED.match(row.title)
    return (_normalize(row.title), _normalize(row.title[numbered.end() :])) if numbered else (_normalize(row.title),)


def _find_best_match_level(variants: tuple[str, ...], title: str) -> int:
    return max(_rate_match(variant, title) for variant in variants)


def _rate_match(variant: str, title: str) -> int:
    if not variant or not title:
        return NO_MATCH
    if variant == title:
        return EQUAL
    shorter, longer = (variant, title) if len(variant) < len(title) else (title, variant)
    if longer.startswith(shorter) and (len(shorter) >= MIN_PREFIX_CHARS or longer[len(shorter)] == " "):
        return PREFIX
    if f" {shorter} " in f" {longer} ":
        return CONTAINS
    own = set(variant.split())
    shared = len(own.intersection(title.split()))
    return SIMILAR if shared >= SIMILAR_WORDS and shared >= MIN_SIMILAR_SHARE * len(own) else NO_MATCH


def _normalize(title: str) -> str:
    """Return the folded words of a title, or its other characters if it has no words."""
    title = title[:COMPARED_CHARS]
    folded = title.lower() if title.isascii() else fold(title)
    return _NO_WORD.sub(" ", folded).strip() or folded.strip()


CRITERIA = 5
MAX_CELL_CHARS = 40  # a longer cell is not a score; `8/10 (very good)` is one
MAX_KEY_CHARS = 60

Role = Literal["title", "number", "criterion", "overall", "other"]

_TITLE = re.compile(r"заголов|назван|title|titel|titre|t[ií]tulo|headline|name|标题")
# `key` is where the decoder puts the key of an object, which may be a number or a title.
_NUMBER = re.compile(
    r"(?:key|n|nr|no|№|#|id|idx|index|num|number|номер|numer[oa]?|nummer|position|позиция|rank|result|результат)_?"
)
_CRITERION = re.compile(
    r"соответств|релевант|направл|полнот|точност|структур|читаем|читаб|ясност"
    r"|relev|match|query|question|direct|aspect|level|complet|cover|depth|accura|precis|correct|struct|readab|clarity|clear"
)
_OVERALL = re.compile(r"итог|общ|средн|total|overall|final|mean|average|gesamt|sum")
_MARK = re.compile(r"scor|rating|рейтинг|оцен|балл|points|value|mark|note")
_BEFORE_TITLE = re.compile(r"\s*[\[(#№]?(\d{1,2})[\])]?\s*[.):：|]")


def parse_ranked_rows(row: Row) -> Iterator[MatchedRow]:
    """Return the results of a row that have a score. An object with a key for each result has several."""
    found = _read_object(row) if isinstance(row, Mapping) else iter((_read_array(row),))
    return (row for row in found if row.marks)


def _read_array(cells: Sequence[object]) -> MatchedRow:
    """Return the number, the title and the scores in an array.

    Number and title may be missing. Exactly five numbers are all scores.
    """
    words = [cell for cell in cells if isinstance(cell, str) and _read_mark(cell) is None]
    numbered = bool(words) or len(cells) != CRITERIA
    number = _read_number(cells[0]) if cells and numbered else None
    rest = cells if number is None else cells[1:]
    first = rest[0] if rest else None
    # A title may read as a number (`Seven`): then all scores follow it.
    if not words and len(rest) > CRITERIA and isinstance(first, str) and first.strip()[:1].isalpha():
        words, rest = [first], rest[1:]
    return _match_row(number, words[0] if words else "", _read_marks(rest))


def _read_object(row: Mapping[str, object]) -> Iterator[MatchedRow]:
    number: int | None = None
    title = spare = ""
    marks: dict[Role, list[float]] = {"criterion": [], "other": [], "overall": []}
    known = False
    for key, value in row.items():
        role, mark = _read_role(key[:MAX_KEY_CHARS]), _read_mark(value)
        known = known or role != "other"
        if role == "title":
            title = title or str(value)
        elif isinstance(value, str) and mark is None:
            spare = spare or value
        elif role == "number":
            number = _read_number(value)
        elif mark is not None:
            marks[role].append(mark)
    if known or spare:
        own = marks["criterion"] or marks["other"] or marks["overall"]
        yield _match_row(number, title or ("" if number else spare), own)
        return
    for key, value in row.items():  # `{"Solar sails": 7, "Tea": [2, 1, 2, 2, 3]}`, or numbers instead of titles
        number = int(key) if key.isascii() and key.isdigit() and len(key) <= 2 else None
        yield _match_row(number, "" if number is not None else key, _read_marks((value,)))


@lru_cache(maxsize=512)
def _read_role(key: str) -> Role:
    """Return what the value under this key means."""
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


def _match_row(number: int | None, title: str, marks: Sequence[float]) -> MatchedRow:
    if number is None and (before := _BEFORE_TITLE.match(title)):
        number = int(before[1])
    return MatchedRow(number, title, tuple(marks[:CRITERIA]))


def _read_marks(values: Iterable[object]) -> list[float]:
    return [mark for value in values if (mark := _read_mark(value)) is not None]


def _read_number(value: object) -> int | None:
    number = read_number(value)
    return int(number) if number is not None and number == int(number) else None


def _read_mark(value: object) -> float | None:
    """Return a number from 0 to 10 in any notation; None for other values."""
    if type(value) is int:  # the usual case, fast
        return float(value) if 0 <= value <= TOP_SCORE else None
    if isinstance(value, str) and len(value) > MAX_CELL_CHARS:
        return None
    number = read_number(value)
    return number if number is not None and 0.0 <= number <= TOP_SCORE else None
