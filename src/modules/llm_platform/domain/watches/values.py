"""The values of a sentence: its numbers, dates and names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from modules.llm_platform.domain.citations.compare.mismatches import find_number
from modules.llm_platform.domain.citations.read.claims import Claim, ClaimNumber
from modules.llm_platform.domain.evidence.sentence_matches import list_names
from modules.llm_platform.domain.text.negation import has_opposite
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.stemming import is_form_of_any, is_same_word, normalize_unit
from modules.llm_platform.domain.text.tokens import fold

_DECEMBER: Final = 11  # the last month in `load_date_words`, before the weekdays
MAX_VALUE_WORDS: Final = 5
_AROUND_A_VALUE: Final = ".,;:!?()*_"
_UNIT: Final = re.compile(r"[\s\u00a0-]*(°?[^\W\d_]+|[%€$£°])")


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """The parts of two sentences that differ, as each writes them; empty on the side that has none."""

    was: str
    now: str


NO_VALUE: Final = ChangedValue("", "")


def has_figures(claim: Claim) -> bool:
    """Return whether a sentence has a number, a month or a weekday."""
    return bool(claim.numbers or _dates(claim))


def shares_number(claim: Claim, other: Claim) -> bool:
    """Return whether `other` has one of the numbers of a claim."""
    return len(_only_numbers(claim, other)) < len(claim.numbers)


def find_changed_value(was: Claim, now: Claim) -> ChangedValue | None:
    """Return the first value that two sentences about one thing give differently; None if they agree.

    Each sentence must have a value of this kind that the other lacks: a page that is reworded may leave one out.
    """
    for gone, came in _pair_numbers(was, now), _pair_dates(was, now), _pair_names(was, now):
        if gone and came:
            return ChangedValue(", ".join(gone), ", ".join(came))
    return ChangedValue("", "") if has_opposite(was.keys, now.keys) else None


def find_replaced_part(was: Claim, now: Claim) -> ChangedValue | None:
    """Return the words in which two sentences differ that begin and end alike; None if these are more than a few."""
    mine, theirs = was.text.split(), now.text.split()
    start = _count_alike(mine, theirs)
    most = min(len(mine), len(theirs)) - start
    end = min(most, _count_alike(mine[::-1], theirs[::-1]))
    if end and end == most:
        end -= 1  # "open" and "not open" rather than nothing and "not"
    parts = [words[start : len(words) - end] for words in (mine, theirs)]
    if not all(0 < len(part) <= MAX_VALUE_WORDS for part in parts):
        return None
    return ChangedValue(*(" ".join(part).strip(_AROUND_A_VALUE) for part in parts))


def _count_alike(words: Sequence[str], others: Sequence[str]) -> int:
    """Return how many words at the beginning are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, others, strict=False)))


def has_values_of_same_kind(one: Claim, other: Claim) -> bool:
    """Return whether both sentences have a month or weekday, or both have numbers of the same unit."""
    if _dates(one) and _dates(other):
        return True
    return any(
        _is_same_unit(_unit(one, mine), _unit(other, theirs)) for mine in one.numbers for theirs in other.numbers
    )


def _pair_numbers(one: Claim, other: Claim) -> tuple[list[str], list[str]]:
    """Return the numbers that only one of the sentences has, where both have the same unit."""
    gone, came = _only_numbers(one, other), _only_numbers(other, one)
    pairs = [(a, b) for a in gone for b in came if _is_same_unit(_unit(one, a), _unit(other, b))]
    return _write(one, [a for a, _ in pairs]), _write(other, [b for _, b in pairs])


def _only_numbers(one: Claim, other: Claim) -> list[ClaimNumber]:
    known = frozenset[str]().union(*(number.values for number in other.numbers))
    return [number for number in one.numbers if known.isdisjoint(number.values)]


def _unit(claim: Claim, number: ClaimNumber) -> str:
    """Return the sign before a number, or the word or sign after it, folded; empty if there is none."""
    sign = claim.text[: number.offset][-1:]
    if sign and not sign.isalnum() and normalize_unit(sign):
        return sign
    end = number.offset + len(number.spelled) if number.spelled else find_number(claim.text, number.offset)[1]
    unit = _UNIT.match(claim.text, end)
    return unit[1].casefold() if unit else ""


def _is_same_unit(one: str, other: str) -> bool:
    return one == other or bool(one and other and is_same_word(one, other))


def _write(claim: Claim, numbers: Sequence[ClaimNumber]) -> list[str]:
    return list(dict.fromkeys(claim.text[number.offset :].split()[0].strip(_AROUND_A_VALUE) for number in numbers))


def _pair_dates(one: Claim, other: Claim) -> tuple[list[str], list[str]]:
    mine, theirs = _dates(one), _dates(other)
    return [mine[day] for day in mine.keys() - theirs], [theirs[day] for day in theirs.keys() - mine]


def _dates(claim: Claim) -> dict[int, str]:
    """Return the months and weekdays as written, by their number: `Monday`, `Mondays`, `montags`."""
    names = load_date_words()
    found: dict[int, str] = {}
    for word in claim.words:
        key = word.key if word.key in names else word.key.removesuffix("s")
        if key in names and (word.written[0].isupper() or names[key] > _DECEMBER):  # `may` and `march` are verbs
            found[names[key]] = word.written
    return found


def _pair_names(one: Claim, other: Claim) -> tuple[list[str], list[str]]:
    if not one.capitals_name:
        return [], []
    return _only_names(one, other), _only_names(other, one)


def _only_names(one: Claim, other: Claim) -> list[str]:
    """Return the names that only one sentence has. The first word of a sentence has a capital whatever it is."""
    return [
        name
        for name in list_names(one.text)
        if not name[-1].isdigit()
        and not (one.text.startswith(name) and " " not in name)
        and not any(is_form_of_any(word, other.keys) for word in fold(name).split())
    ]


def share_of_words(one: Claim, other: Claim) -> float:
    """Return the share of the content words of `one`, by weight, that `other` has too, 0 to 1."""
    shared = sum(word.weight for word in one.words if word.is_content and is_form_of_any(word.key, other.keys))
    return shared / one.total if one.total else 0.0
