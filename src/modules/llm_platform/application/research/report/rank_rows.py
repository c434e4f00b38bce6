"""The rows of a ranking as models write them: compact arrays, full objects, and what lies between."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from modules.llm_platform.application.research.model_output.rows import Row, read_number
from modules.llm_platform.domain.ranking import TOP_SCORE
from modules.llm_platform.domain.text.tokens import fold

# Which result a row of a ranking means: by its number and by the beginning of the title, which a model writes in its
# own way.
# A title that fits another result than the number says is believed: models sort and number anew. A title that fits none
# counts by its number. Where several results fit alike, the rows are taken to stand in the order of the results;
# results with the same title go by their numbers only where each row has another one, and all of them are theirs.


NO_FIT, SIMILAR, PART, BEGINNING, SAME = range(5)  # how well a title fits, best last
SIMILAR_FROM = 0.6  # of a row's words
SIMILAR_WORDS = 2  # one word in common says nothing
MIN_CHARS = 4  # of a beginning that ends within a word
MAX_CHARS = 300  # of a title that is looked at

_NO_WORD = re.compile(r"[\W_]+")
_NUMBERED = re.compile(r"\s*[\[(#№]?(\d{1,2})[\])]?\s*[.):：\-–—|]\s*")


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """One row: the number and the title that it gives, and its marks."""

    number: int | None
    title: str
    marks: tuple[float, ...]


def match_rows_to_results(rows: Sequence[MatchedRow], titles: Sequence[str]) -> list[tuple[float, ...] | None]:
    """The marks of each title, None where no row is for it. A row serves once, and the first of several counts.

    Rows with neither number nor title are taken in order where there is one for each title.
    """
    found: list[tuple[float, ...] | None] = [None] * len(titles)
    if not titles:
        return found
    if all(row.number is None and not row.title for row in rows):
        return [row.marks for row in rows] if len(rows) == len(titles) else found
    plain = [_plain(title) for title in titles]
    start = 0 if any(row.number == 0 for row in rows) else 1  # some count from nought
    waiting: list[tuple[int | None, list[int], MatchedRow]] = []
    in_order = _rows_of_same_titles(rows, plain, start)
    for row_number, row in enumerate(rows):
        if row_number in in_order:
            place = in_order[row_number]
            found[place] = found[place] or row.marks
            continue
        told = _told(row)
        at = row.number - start if row.number is not None and start <= row.number < len(titles) + start else None
        sure = at is not None and _best_fit(told, plain[at]) >= BEGINNING
        fits = [] if sure else [_best_fit(told, title) for title in plain]
        if at is not None and (sure or (fits[at] and fits[at] == max(fits))):
            found[at] = found[at] or row.marks
        else:
            waiting.append((at, fits, row))
    for _, fits, row in waiting:
        _by_title(row, fits, found)
    for at, fits, row in waiting:
        if at is not None and not any(fits):
            found[at] = found[at] or row.marks
    return found


def _rows_of_same_titles(rows: Sequence[MatchedRow], plain: Sequence[str], start: int) -> dict[int, int]:
    """The rows whose title several results have and whose numbers cannot tell which, in order, each with its result."""
    same: dict[str, list[int]] = {}
    for at, title in enumerate(plain):
        same.setdefault(title, []).append(at)
    in_order: dict[int, int] = {}
    for title, places in same.items():
        if len(places) < 2:
            continue
        others = [other for other in same if other != title]
        own = [number for number, row in enumerate(rows) if _means(_told(row), title, others)]
        numbers = [number - start for each in own if (number := rows[each].number) is not None]
        if len(set(numbers)) < len(own) or not set(numbers) <= set(places):
            in_order |= dict(zip(own, places, strict=False))
    return in_order


def _means(told: tuple[str, ...], title: str, others: Sequence[str]) -> bool:
    """Whether a row names this title, and none of the others as well."""
    fit = _best_fit(told, title)
    return fit >= BEGINNING and all(_best_fit(told, other) < fit for other in others)


def _by_title(row: MatchedRow, fits: Sequence[int], found: list[tuple[float, ...] | None]) -> None:
    """Give the marks to the title that fits best, of several to the first that has none."""
    best = max(fits)
    free = next((at for at, fit in enumerate(fits) if fit == best and found[at] is None), None)
    if best and free is not None:
        found[free] = row.marks


def _told(row: MatchedRow) -> tuple[str, ...]:
    """What the row may mean by its title: as it stands, and without the number that some models write before it."""
    numbered = _NUMBERED.match(row.title)
    return (_plain(row.title), _plain(row.title[numbered.end() :])) if numbered else (_plain(row.title),)


def _best_fit(told: tuple[str, ...], title: str) -> int:
    return max(_fit(each, title) for each in told)


def _fit(told: str, title: str) -> int:
    if not told or not title:
        return NO_FIT
    if told == title:
        return SAME
    shorter, longer = (told, title) if len(told) < len(title) else (title, told)
    if longer.startswith(shorter) and (len(shorter) >= MIN_CHARS or longer[len(shorter)] == " "):
        return BEGINNING
    if f" {shorter} " in f" {longer} ":
        return PART
    return SIMILAR if _similar(told, title) else NO_FIT


def _similar(told: str, title: str) -> bool:
    own = set(told.split())
    shared = len(own.intersection(title.split()))
    return shared >= SIMILAR_WORDS and shared >= SIMILAR_FROM * len(own)


def _plain(title: str) -> str:
    """Words alone, folded; signs where there are no words."""
    title = title[:MAX_CHARS]
    folded = title.lower() if title.isascii() else fold(title)
    return _NO_WORD.sub(" ", folded).strip() or folded.strip()


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


def parse_ranked_rows(row: Row) -> Iterator[MatchedRow]:
    """What a row says of a result; several where it is an object with a key for each result; none without a mark."""
    found = _of_object(row) if isinstance(row, Mapping) else iter((_of_array(row),))
    return (each for each in found if each.marks)


def _of_array(cells: Sequence[object]) -> MatchedRow:
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


def _of_object(row: Mapping[str, object]) -> Iterator[MatchedRow]:
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


def _by_key(row: Mapping[str, object]) -> Iterator[MatchedRow]:
    """`{"Solar sails": 7, "Tea": [2, 1, 2, 2, 3]}` or the same with numbers for titles."""
    for key, value in row.items():
        number = int(key) if key.isascii() and key.isdigit() and len(key) <= 2 else None
        yield _marked(number, "" if number is not None else key, _marks((value,)))


def _marked(number: int | None, title: str, marks: Sequence[float]) -> MatchedRow:
    if number is None and (before := _BEFORE_TITLE.match(title)):
        number = int(before[1])
    return MatchedRow(number, title, tuple(marks[:CRITERIA]))


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
