"""Which result a row of a ranking means: by its number and by the beginning of the title, which a model writes in its own way.

A title that fits another result than the number says is believed: models sort and number anew. A title that fits none
counts by its number. Where several results fit alike, the rows are taken to stand in the order of the results; results
with the same title go by their numbers only where each row has another one, and all of them are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.text import fold

NO_FIT, SIMILAR, PART, BEGINNING, SAME = range(5)  # how well a title fits, best last
SIMILAR_FROM = 0.6  # of a row's words
SIMILAR_WORDS = 2  # one word in common says nothing
MIN_CHARS = 4  # of a beginning that ends within a word
MAX_CHARS = 300  # of a title that is looked at

_NO_WORD = re.compile(r"[\W_]+")
_NUMBERED = re.compile(r"\s*[\[(#№]?(\d{1,2})[\])]?\s*[.):：\-–—|]\s*")


@dataclass(frozen=True, slots=True)
class Marked:
    """One row: the number and the title that it gives, and its marks."""

    number: int | None
    title: str
    marks: tuple[float, ...]


def match_rows(rows: Sequence[Marked], titles: Sequence[str]) -> list[tuple[float, ...] | None]:
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
    waiting: list[tuple[int | None, list[int], Marked]] = []
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


def _rows_of_same_titles(rows: Sequence[Marked], plain: Sequence[str], start: int) -> dict[int, int]:
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


def _by_title(row: Marked, fits: Sequence[int], found: list[tuple[float, ...] | None]) -> None:
    """Give the marks to the title that fits best, of several to the first that has none."""
    best = max(fits)
    free = next((at for at, fit in enumerate(fits) if fit == best and found[at] is None), None)
    if best and free is not None:
        found[free] = row.marks


def _told(row: Marked) -> tuple[str, ...]:
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
