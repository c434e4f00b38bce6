"""Detect claims that the cells of single rows cannot decide, such as claims about a sum or about all rows but one."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.limits import read_limits
from modules.llm_platform.domain.extractive.measures import list_comparisons
from modules.llm_platform.domain.extractive.quantities import find_unit
from modules.llm_platform.domain.extractive.table_words import is_genitive, load_word_list
from modules.llm_platform.domain.row_claims.claim import RowClaim
from modules.llm_platform.domain.row_claims.source_tables import PlacedWord, RowMention
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.tokens import fold


def is_beyond_cells(claim: RowClaim) -> bool:
    """Return whether the cells cannot decide a claim: it has rounded numbers, or says more than the cells of single rows."""
    return claim.is_approximate or any(says(claim) for says in BEYOND)


def says_more_of_rows(claim: RowClaim) -> bool:
    """Return whether a claim about named rows says more than their cells, so that shared words say little about it."""
    return bool(claim.mentions) and (says_only(claim) or any(says(claim) for says in BEYOND))


def says_only(claim: RowClaim) -> bool:
    """Return whether a claim is also about all other rows: `only Tom has paid`."""
    return not load_word_list("only").isdisjoint(claim.folded)


def _excepts(claim: RowClaim) -> bool:
    """Return whether a claim is about all rows except some: `apart from Ann`."""
    return not load_word_list("excepting").isdisjoint(claim.folded)


def _adds_up(claim: RowClaim) -> bool:
    """Return whether a claim is about a sum: `Ann and Ben together pay £9`, `in total`."""
    return not load_word_list("together").isdisjoint(claim.folded) or " in total" in " ".join(claim.folded)


def _multiplies(claim: RowClaim) -> bool:
    """Return whether a number directly precedes a name: `less than two Maples`."""
    ends = {one.span[1] for one in (*claim.amounts, *claim.spelled_amounts) if not one.unit}
    return any(row.start - 1 in ends for row in claim.mentions)


def _is_about_another(claim: RowClaim) -> bool:
    """Return whether a claim is about a possession or relation that the table lacks: `Tom's teacher`, `der Bruder von Tom`."""
    return any(map(claim.is_unknown, (word for row in claim.mentions if (word := _find_possession(claim, row)))))


def _find_possession(claim: RowClaim, row: RowMention) -> PlacedWord | None:
    """Return the word for what belongs to a named row: `teacher` in `Tom's teacher`."""
    before = [word for word in claim.words if word.end <= row.start]
    if is_genitive(claim.full_text[row.start : row.end]):
        return next((word for word in claim.words if word.start >= row.end), None)
    is_of = before[-1:] and before[-1].word in load_word_list("of") and row.start - before[-1].end == 1
    return before[-2] if is_of and len(before) > 1 else None


def _picks_one(claim: RowClaim) -> bool:
    """Return whether a limit is about a row that a comparison picks: `the cheaper of Birch and Maple is under £9`."""
    definite, of = load_word_list("definite"), load_word_list("of")
    triples = zip(claim.folded, claim.folded[1:], claim.folded[2:], strict=False)
    return bool(read_limits(claim.masked_text)) and any(
        one in definite and bool(list_comparisons(two)) and three in of for one, two, three in triples
    )


def _is_narrowed(claim: RowClaim) -> bool:
    """Return whether a question narrows what the cells say: `cheaper per kilo`, `the dearest in Germany`, `a used Birch`."""
    narrowing, starts = load_word_list("narrowing"), {row.start for row in claim.mentions}
    pairs = itertools.pairwise(claim.words)
    unknown = [(before, word) for before, word in pairs if claim.is_question and claim.is_unknown(word)]
    return any(before.word in narrowing or word.end + 1 in starts for before, word in unknown)


def _is_of_another_period(claim: RowClaim) -> bool:
    """Return whether a value is per unit that no column and no cell names: `£60 a month` for an `Annual fee`."""
    units = {word: unit for word in _list_units_of_values(claim) if (unit := find_unit(word)) is not None}
    if not units:
        return False
    known = {_find_period(word) for name in claim.table.column_words for word in name}
    return any(unit not in known and not claim.table.has_word(word) for word, unit in units.items())


def _list_units_of_values(claim: RowClaim) -> Iterator[str]:
    """Yield the words after "per", and after an article behind a number: `£60 a month`."""
    ends = {one.span[1] for one in (*claim.amounts, *claim.spelled_amounts)}
    for before, word in itertools.pairwise(claim.words):
        is_article = before.word in load_word_list("single") and before.start - 1 in ends
        if is_article or before.word in load_word_list("per"):
            yield word.word


def _find_period(word: str) -> tuple[str, float] | None:
    """Return the base unit and factor of the unit that a word names, such as `week` or `weekly`; None if it names none."""
    return find_unit(_load_periods().get(word, word))


@cache
def _load_periods() -> dict[str, str]:
    periods = load_data("table_questions")["periods"]
    return {fold(word): unit for unit, words in periods.items() for word in words.split()}


def _is_of_another_time(claim: RowClaim) -> bool:
    """Return whether a question is about a time that the table does not cover: `last year`, `next week`."""
    pairs, other = itertools.pairwise(claim.folded), load_word_list("other_time")
    return claim.is_question and any(one in other and find_unit(two) is not None for one, two in pairs)


def _names_another(claim: RowClaim) -> bool:
    """Return whether a question contains a name that no cell contains in exactly this form: `Ottoline` is not `Otto`."""
    others = (word for word in claim.words[1:] if claim.is_question and word.word in claim.content)
    return any(claim.shows_name(word.start) and not claim.table.has_word(word.word) for word in others)


BEYOND: Final[Sequence[Callable[[RowClaim], bool]]] = (
    _excepts,
    _adds_up,
    _multiplies,
    _is_about_another,
    _picks_one,
    _is_narrowed,
    _is_of_another_period,
    _is_of_another_time,
    _names_another,
)
