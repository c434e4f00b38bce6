"""Compare a claim with a sentence that says what changed: "The rent increased from £700 to £750", "214, up from 198".

`contrasts` calls the comparisons. The words that they look for are in `contrasts.json`.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import SpanPair, find_figure_and_sign, find_word
from modules.llm_platform.domain.citations.compare.number_contrasts import list_numbers_with_words
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_word_groups, load_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import NumberValues
from modules.llm_platform.domain.text.positions import Offset, WordNumber
from modules.llm_platform.domain.text.stemming import is_form_of_any

MIN_SHARED: Final = 0.6  # share of the claim's other content words that the sentence has
VERB_REACH: Final = 6  # a verb of change is looked for in this many words before and after a number
SEPARATED_PREFIX: Final = "aus"  # German "fiel aus" is "was cancelled"
UP, DOWN = 0, 1  # the groups of words for directions

_FROM: Final = re.compile(r"\b(?:from|von|de|da|desde)\s[€$£]?$")
_TO: Final = re.compile(r"^[^.,;:]{0,25}\b(?:to|auf|à|a)\s[€$£]?$")
_AGAINST_OLD: Final = re.compile(
    r"\b(?:instead of|rather than|statt|statt bisher|anstatt|au lieu de|en vez de|up from|down from|compared with|compared to"
    r"|gegenüber|was|previously|bisher|vorher|zuvor|auparavant|antes)\s[€$£]?$"
)
_NUMBER: Final = re.compile(r"[0-9][0-9.,'’:]*[0-9]|[0-9]|[^\W\d_]+")


class _Change(NamedTuple):
    """An old and a new number, with the offset of the new one."""

    old: NumberValues
    new: NumberValues
    at: Offset

    @property
    def direction(self) -> int | None:
        old, new = _read_float(self.old), _read_float(self.new)
        if old is None or new is None or old == new:
            return None
        return UP if new > old else DOWN


def compare_old_values(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "The rent is £700" with "The rent increased from £700 to £750"."""
    is_past = not load_words("contrasts", "past").isdisjoint(claim.facts.folded)
    if len(claim.numbers) != 1 or is_past or count_negators(claim.facts.folded):
        return None
    (number,) = claim.numbers
    for change in _list_changes(sentence):
        if change.old & number.values and not change.new & number.values and _shares_words(claim, sentence):
            return find_figure_and_sign(claim.text, number.offset), find_figure_and_sign(sentence.text, change.at)
    return None


def compare_directions(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare "fell" with "rose", and "fell" or "is lower" with numbers that rose: "increased from £700 to £750"."""
    is_past = not load_words("contrasts", "was").isdisjoint(claim.facts.folded)  # "It was lower last year"
    spans = None if is_past else _find_opposite_directions(claim, sentence)
    return spans if spans is not None and _shares_words(claim, sentence) else None


def says_other_direction(compared: Comparison) -> bool:
    """Return whether the best sentence has numbers that fell and the claim a word such as "more", or the other way round."""
    best = compared.read_facts(compared.passage.sentences[0])
    return bool(list(_list_changes(best))) and _find_opposite_directions(compared.claim, best) is not None


def _find_opposite_directions(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    if count_negators(claim.facts.folded) or count_negators(sentence.folded):
        return None
    if _has_both_sides(sentence) or SEPARATED_PREFIX in sentence.folded:
        return None
    mine = _find_side(claim.facts, "direction")
    theirs = _find_change(sentence)
    if mine is None and theirs is not None and not claim.numbers:
        mine = _find_side(claim.facts, "compared")  # "higher than the 2% target"
    theirs = theirs or _find_side(sentence, "direction")
    if mine is None or theirs is None or theirs[0] == mine[0]:
        return None
    return find_word(claim.text, mine[1]), find_word(sentence.text, theirs[1])


def _find_change(sentence: TextFacts) -> tuple[int, WordNumber] | None:
    """Return the direction and the position of the only change of a number; None without one, or if there are several."""
    changes = list(_list_changes(sentence))
    if len(changes) != 1 or (direction := changes[0].direction) is None:
        return None
    return direction, sentence.find_position(changes[0].at)


def _has_both_sides(sentence: TextFacts) -> bool:
    """Return whether a sentence says that something rose and something fell."""
    return all(not group.isdisjoint(sentence.folded) for group in load_word_groups("contrasts", "direction"))


def _find_side(facts: TextFacts, part: str) -> tuple[int, WordNumber] | None:
    """Return UP or DOWN, and the position of the word that says so; None if no word does, or if words say both."""
    found = [
        (side, WordNumber(at))
        for side, group in enumerate(load_word_groups("contrasts", part))
        for at, word in enumerate(facts.folded)
        if word in group
    ]
    return found[0] if len({side for side, _ in found}) == 1 else None


def _list_changes(sentence: TextFacts) -> Iterator[_Change]:
    """Yield the changes from one number to another: "from £700 to £750", "£750 instead of £700"."""
    numbers = sorted(list_numbers_with_words(sentence), key=lambda number: number[1])
    text = sentence.text.lower()  # `casefold` would move the offsets after an ß
    for (first, at), (second, after) in itertools.pairwise(numbers):
        end = _NUMBER.match(text, at)
        between = text[end.end() if end else at : after]
        if _AGAINST_OLD.search(between):
            yield _Change(second, first, at)
        elif _FROM.search(text[:at]) and _TO.search(between) and _has_verb_of_change(sentence, at):
            yield _Change(first, second, after)


def _has_verb_of_change(sentence: TextFacts, at: Offset) -> bool:
    """Return whether a verb of change is near a number: "from 9 to 5" alone is a range."""
    up, down = load_word_groups("contrasts", "direction")
    position = sentence.find_position(at)
    around = sentence.folded[max(0, position - VERB_REACH) : position + VERB_REACH]
    return any(not group.isdisjoint(around) for group in (up, down, load_words("contrasts", "changed")))


def _shares_words(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether the sentence has most content words of the claim, without its numbers and directions."""
    directions = frozenset().union(
        *load_word_groups("contrasts", "direction"), *load_word_groups("contrasts", "compared")
    )
    content = [word.key for word in claim.words if word.is_content and not word.key[0].isdigit()]
    content = [word for word in content if word not in directions]
    shared = [word for word in content if is_form_of_any(word, sentence.folded)]
    return bool(shared) and len(shared) >= MIN_SHARED * len(content)


def _read_float(values: NumberValues) -> float | None:
    try:
        return float(min(values, key=len))
    except ValueError:
        return None
