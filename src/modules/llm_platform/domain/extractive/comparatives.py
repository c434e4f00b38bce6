"""Read the comparisons of a question: `cheaper than`, `a higher fee per day than`, `plus chère que`, `above the average`."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.limits import LimitKind, load_phrases
from modules.llm_platform.domain.extractive.measures import (
    BEGINNING,
    OPPOSITE,
    SUPERLATIVES,
    Direction,
    Measure,
    get_measure,
    list_comparisons,
)
from modules.llm_platform.domain.extractive.superlatives import find_superlative, means_earliest_start
from modules.llm_platform.domain.extractive.table_words import load_word_list
from modules.llm_platform.domain.text.language import load_stop_words

COMPARATIVE_REACH: Final = 5  # words from the comparative to "than": `a higher annual fee than`
AVERAGE_REACH: Final = 3  # words from "above" to the average: `above the average`
COMPARATIVE_ENDINGS: Final = ("er", "worse")  # of English and German; `a cheap boat` compares nothing
_INFLECTED: Final = re.compile(r"(?<=er)e[mnrs]?\Z")


class ComparedMeasure(NamedTuple):
    """What a comparative compares: more or less of a measure, of a date, or of a column that the text names."""

    direction: Direction
    measure: Measure | None = None
    is_of_dates: bool = False


class Comparison(NamedTuple):
    """A comparison in a list of words.

    - `measures` are the interpretations of what is compared.
    - `at` is the index of the comparative, and `start` of the "more" before it, if there is one: `more expensive`.
    - `than` is the index of the last word before what is compared with.
    """

    measures: Sequence[ComparedMeasure]
    start: int
    at: int
    than: int


@cache
def load_than_words(language: str) -> frozenset[str]:
    """Return the words that mean "than", without those that mostly mean "of", and without names: Dan is Dutch for "than"."""
    names = frozenset() if language.startswith("nl") else frozenset({"dan"})
    return load_phrases("than") - load_word_list("of") - names


def find_comparisons(words: Sequence[str], language: str) -> list[Comparison]:
    """Return the comparisons with a "than", and with the average: `above the average`. A superlative compares nothing else."""
    words = [_strip_ending(word) for word in words]
    than_words = load_than_words(language)
    indices = [index for index, word in enumerate(words) if word in than_words]
    found = [one for index in indices if (one := _find_comparative(words, index, language)) is not None]
    known = {one.than for one in found}
    return [*found, *(one for one in _list_of_average(words, language) if one.than not in known)]


def _strip_ending(word: str) -> str:
    """Return a German comparative without its ending: `eine höhere Kaution`. Other words are unchanged."""
    stem = _INFLECTED.sub("", word)
    return stem if list_comparisons(stem) else word


def _find_comparative(words: Sequence[str], than: int, language: str) -> Comparison | None:
    """Return the nearest comparative before a "than"."""
    if than and words[than - 1] in load_word_list("other_than"):
        return None  # `other than`
    for at in range(than - 1, max(-1, than - 1 - COMPARATIVE_REACH), -1):
        start = _find_start(words, at, words[than])
        if start is None:
            continue
        measures = list(read_comparative(words, at, words[than], language))
        is_extreme = find_superlative(words[start : at + 1]) == 0 and start > 0
        is_of_average = not load_word_list("average").isdisjoint(words[than + 1 :])
        if is_extreme and not is_of_average and words[start - 1] in load_word_list("definite"):
            return None  # `les plus chers que nous avons`
        if measures:
            return Comparison(measures, start, at, than)
    return None


def _find_start(words: Sequence[str], at: int, than: str) -> int | None:
    """Return the index at which a comparative begins; None if the word at an index is none."""
    is_modified = at > 0 and f"{words[at - 1]} {than}" in load_phrases("above", "below")
    if is_modified and list_comparisons(words[at]):
        return at - 1
    is_alone = f"{words[at]} {than}" in load_phrases("above", "below", "before", "after")
    is_form = words[at].endswith(COMPARATIVE_ENDINGS) or words[at] in SUPERLATIVES
    return at if is_alone or (is_form and list_comparisons(words[at])) else None


def _list_of_average(words: Sequence[str], language: str) -> Iterator[Comparison]:
    """Yield the comparisons of `above the average` and `more than average`."""
    kinds: dict[Direction, LimitKind] = {"more": "above", "less": "below"}
    for average, word in enumerate(words):
        if word not in load_word_list("average"):
            continue
        for direction, kind in kinds.items():
            if phrase := _find_phrase_before(words, average, kind, language):
                yield Comparison([ComparedMeasure(direction)], phrase[0], phrase[0], phrase[1])


def _find_phrase_before(words: Sequence[str], end: int, kind: LimitKind, language: str) -> tuple[int, int] | None:
    """Return the indices of the first and last word of the phrase before an index. Only function words may be between."""
    phrases = sorted((phrase.split() for phrase in load_phrases(kind)), key=len, reverse=True)
    for last in range(end - 1, max(-1, end - 1 - AVERAGE_REACH), -1):
        for phrase in phrases:
            first = last + 1 - len(phrase)
            if first >= 0 and list(words[first : last + 1]) == phrase:
                return first, last
        if words[last] not in load_stop_words(language):
            return None
    return None


def compares_otherwise(words: Sequence[str], compared: Comparison) -> bool:
    """Return whether there is another comparative or a superlative: `the cheapest room that is bigger than`."""
    others = [*words[: compared.start], *words[compared.at + 1 :]]
    is_of_several = find_superlative(others) < len(others) or any(map(list_comparisons, others))
    factors = load_word_list("twice") | load_word_list("half") | load_word_list("times") | load_word_list("often")
    return is_of_several or not factors.isdisjoint(others)


def read_comparative(words: Sequence[str], at: int, than: str, language: str) -> Iterator[ComparedMeasure]:
    """Yield what the comparative at an index of folded words compares. A preceding "less" reverses it: `less expensive`."""
    phrase = f"{words[at]} {than}"
    is_less = at > 0 and f"{words[at - 1]} {than}" in load_phrases("below")
    if means_earliest_start(words, at, language):
        yield ComparedMeasure("less", get_measure(BEGINNING), is_of_dates=True)
        return
    if phrase in load_phrases("before", "after"):
        yield ComparedMeasure("less" if phrase in load_phrases("before") else "more", is_of_dates=True)
        return
    for measure, direction in list_comparisons(words[at]):
        yield ComparedMeasure(OPPOSITE[direction] if is_less else direction, measure, measure.name == BEGINNING)
    if phrase in load_phrases("above", "below"):
        yield ComparedMeasure("less" if phrase in load_phrases("below") else "more")
