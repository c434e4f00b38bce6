"""Read the superlatives of a question, such as `the cheapest`, `least expensive` and `the three oldest`."""

import itertools
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.extractive.measures import (
    BEGINNING,
    OPPOSITE,
    SIZE,
    Comparison,
    Direction,
    Measure,
    is_superlative,
    list_comparisons,
)
from modules.llm_platform.domain.extractive.table_words import load_word_list
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.numbers import load_number_words

Extreme = Literal["highest", "lowest", "latest", "earliest"]
EXTREMES: Final[tuple[Extreme, ...]] = ("latest", "earliest", "lowest", "highest")
EXTREMES_BY_DIRECTION: Final[dict[tuple[Direction, bool], Extreme]] = {  # the second key is True for dates
    ("more", False): "highest",
    ("less", False): "lowest",
    ("more", True): "latest",
    ("less", True): "earliest",
}
BOUNDS: Final = frozenset(("at least", "at most"))
MAX_ROW_COUNT: Final = 4  # of `the four cheapest`


class Superlative(NamedTuple):
    """An interpretation of a superlative: the highest or lowest value of a measure, of dates, or of a named column.

    `needs_name` is True if it only applies to a column that the question names: `the largest quantity`.
    """

    kind: Extreme
    measure: Measure | None = None
    needs_name: bool = False

    @property
    def is_of_dates(self) -> bool:
        return self.kind in ("latest", "earliest")


def find_superlative(words: Sequence[str]) -> int:
    """Return the index of the first superlative among folded words; the number of words if there is none."""
    indices = (at for at, word in enumerate(words) if is_superlative(word) or _list_named(word))
    return next((at for at in indices if " ".join(words[at - 1 : at + 1]) not in BOUNDS), len(words))


def means_earliest_start(words: Sequence[str], at: int, language: str) -> bool:
    """Return whether the superlative at an index means the earliest start: `has been a member longest`.

    Before a noun it means a length: `has been the longest hike`.
    """
    is_longer = at < len(words) and words[at] in load_word_list("longer")
    return (
        is_longer
        and not load_word_list("staying").isdisjoint(words[:at])
        and load_stop_words(language).issuperset(words[at + 1 : at + 2])
    )


def list_interpretations(words: Sequence[str]) -> list[Superlative]:
    """Return the interpretations of the superlative at the beginning: `oldest` means the highest age or the earliest date."""
    if not words:
        return []
    named = _list_named(words[0])
    if is_superlative(words[0]):
        of_one = list_comparisons(words[0])
        return [*(_get_extreme(one.measure, one.direction) for one in of_one), *named, *_list_of_size(of_one)]
    if of_dates := [one for word in words[1:2] for one in _list_named(word) if one.is_of_dates]:  # `most recently`
        return of_dates
    is_more = named[0].kind == "highest"
    compared = [  # `least expensive`, `la plus chère`
        Comparison(one.measure, one.direction if is_more else OPPOSITE[one.direction])
        for word in words[1:2]
        for one in list_comparisons(word)
    ]
    return [*(_get_extreme(one.measure, one.direction) for one in compared), *_list_of_size(compared)] or named


def _list_of_size(compared: Sequence[Comparison]) -> list[Superlative]:
    """Return the interpretations that need a column name: `the largest quantity`, `le plus grand dénivelé`."""
    of_size = [one.direction for one in compared if one.measure.name == SIZE]
    return [Superlative(EXTREMES_BY_DIRECTION[direction, False], needs_name=True) for direction in of_size]


def _list_named(word: str) -> list[Superlative]:
    return [Superlative(kind) for kind in EXTREMES if word in load_word_list(kind)]


def _get_extreme(measure: Measure, direction: Direction) -> Superlative:
    return Superlative(EXTREMES_BY_DIRECTION[direction, measure.name == BEGINNING], measure)


def read_row_count(words: Sequence[str]) -> int:
    """Return how many rows a question asks for: 3 in `the three cheapest`. 0, as in `the second cheapest`, means no answer."""
    if not load_word_list("ordinals").isdisjoint(words):
        return 0
    numbers = load_number_words()
    before = [one for one, two in itertools.pairwise(words) if is_superlative(two) or _list_named(two) or one == "top"]
    after = [two for one, two in itertools.pairwise(words) if one == "top"]
    known = [int(numbers.get(word, word)) for word in (*before, *after) if numbers.get(word, word).isdecimal()]
    return known[0] if known and 1 <= known[0] <= MAX_ROW_COUNT else 1
