"""Look up what tables measure, such as prices, weights and ages, and the words that compare it: `cheaper`, `the oldest`."""

from collections.abc import Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.tokens import fold

Direction = Literal["more", "less"]
OPPOSITE: Final[dict[Direction, Direction]] = {"more": "less", "less": "more"}

AGE: Final = "age"
SIZE: Final = "size"
DURATION: Final = "duration"
DATE: Final = "date"
BEGINNING: Final = "beginning"  # the only measure in columns of dates

SUPERLATIVE_ENDINGS: Final = ("est", "ste", "sten", "ster", "stes", "worst")
SUPERLATIVES: Final = frozenset(
    {"meilleur", "meilleure", "meilleurs", "meilleures", "pire", "mejor", "mejores", "peor", "migliore"}
)


class Measure(NamedTuple):
    """Something that is measured, such as a price or an age.

    - `heads` are words in the names of its columns, and `units` the units of its values.
    - `asked` are words of questions about it. `more` and `less` are words that compare it.
    - `counted` are words after a number of it: `more than 20 people`.
    - `units_if_named` are units that it shares with other measures. A column with such a unit only counts if the question names
      the column.
    """

    name: str
    heads: frozenset[str]
    asked: frozenset[str]
    units: frozenset[str]
    more: frozenset[str]
    less: frozenset[str]
    counted: frozenset[str]
    units_if_named: frozenset[str]

    def get_direction(self, word: str) -> Direction | None:
        return "more" if word in self.more else "less" if word in self.less else None


class Comparison(NamedTuple):
    """A measure, and whether more or less of it is meant."""

    measure: Measure
    direction: Direction


@cache
def load_measures() -> tuple[Measure, ...]:
    return tuple(
        Measure(
            name,
            *(
                frozenset(map(fold, parts.get(part, "").split()))
                for part in ("heads", "asked", "units", "more", "less", "counted", "units_if_named")
            ),
        )
        for name, parts in load_data("measures").items()
    )


@cache
def get_measure(name: str) -> Measure:
    return next(measure for measure in load_measures() if measure.name == name)


@cache
def list_comparisons(word: str) -> tuple[Comparison, ...]:
    """Return what a folded word compares: `older` is more of an age, and an earlier beginning."""
    found = ((measure, measure.get_direction(word)) for measure in load_measures())
    return tuple(Comparison(measure, direction) for measure, direction in found if direction is not None)


def is_superlative(word: str) -> bool:
    """Return whether a folded word is a superlative of a measure: `cheapest`, but not `cheap` or `cheaper`."""
    return bool(list_comparisons(word)) and (word.endswith(SUPERLATIVE_ENDINGS) or word in SUPERLATIVES)


def list_asked_measures(words: Sequence[str], counted: str = "") -> list[Measure]:
    """Return the measures that folded words of a question are about, such as the price if something `costs`.

    `counted` is the word after a number.
    """
    return [one for one in load_measures() if counted in one.counted or not one.asked.isdisjoint(words)]


def is_measuring_word(word: str) -> bool:
    """Return whether a folded word only says what is measured or compared, and names nothing in a table."""
    return bool(list_comparisons(word)) or any(word in one.asked | one.counted for one in load_measures())
