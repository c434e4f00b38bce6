"""Find claims that copy a sentence of the source, but swap two of its parts.

"Fillings last five years, crowns two" has all words of "Fillings last two years, crowns five". So does "Crowns last five years,
fillings two", which says the same. The order of the content words differs:

| | content words |
|---|---|
| the source | fillings last **two** years crowns **five** |
| two parts swapped, the words between them in their place | fillings last **five** years crowns **two** |
| another order, in which words that belong together move together | crowns last five years fillings two |
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch
from modules.llm_platform.domain.citations.read.claims import TextFacts
from modules.llm_platform.domain.dtos.citation_dtos import DifferenceKind
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import list_spelling_words
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import stem
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

MAX_WORDS: Final = 80  # longer texts are not compared
MIN_SHARED_WORDS: Final = 3
MIN_SHARED_SHARE: Final = 0.6  # of the claim's content words
MAX_PART_WORDS: Final = 4  # of a swapped part
# With the parts changed back, the claim must be this similar to the sentence, from one part to the other. Parts of different
# lengths must leave all function words in their places: "on Monday by Ann" swaps nothing in "by Ann on Monday".
MIN_SIMILARITY: Final = 0.8
MIN_SIMILARITY_OF_UNEQUAL: Final = 0.97
DUTCH: Final = "nl"
# In other languages, endings may say who did something.
ORDERED_LANGUAGES: Final = frozenset({"en", "de", "fr", "es", "it", "pt", DUTCH})
BREAKS: Final = re.compile(r"[,:.](?!\d)|[;!?—–/&()|•·\n]| - ")  # not the sign in 8,000, 4.45 and 12:30

WordIndex = int  # in `TextFacts.folded`
Part = tuple[WordIndex, WordIndex]  # the first and the last word


class SwappedKeys(NamedTuple):
    """The stems of the two swapped parts and of the words between them, in the order of the claim."""

    first: Sequence[str]
    between: Sequence[str]
    second: Sequence[str]


@dataclass(frozen=True, slots=True)
class Swap:
    """Two parts in the order of the claim, and the part of the source that stands in the place of the first one.

    `changes_meaning` says that the parts are in different clauses, or that a word such as "instead" is between them.
    """

    first: Span
    second: Span
    found: Span
    changes_meaning: bool


class _Words:
    """The words of a text. `keys` has the stem of each content word, and None for each function word.

    `is_dutch` says that "en" and "of" are conjunctions. In other languages they are prepositions.
    """

    def __init__(self, facts: TextFacts, *, is_dutch: bool) -> None:
        self.is_dutch = is_dutch
        self.text = facts.text.replace("’", "'")
        self.folded = facts.folded
        self._is_content = facts.content

    @cached_property
    def _conjunctions(self) -> frozenset[str]:
        known = load_words("connectives", "conjunctions")
        return known | load_words("connectives", "dutch_conjunctions") if self.is_dutch else known

    @cached_property
    def spans(self) -> list[Span]:
        return [found.span() for found in WORD_WITH_APOSTROPHE.finditer(self.text)]

    @property
    def is_unreadable(self) -> bool:
        """True if the text is too long, or if folding changes the number of its words: `½` becomes `1⁄2`."""
        return len(self.folded) > MAX_WORDS or len(self.spans) != len(self.folded)

    @cached_property
    def keys(self) -> list[str | None]:
        pivots = load_words("connectives", "pivots")
        return [
            stem(word.removesuffix("'s"))
            if (is_content or word in pivots or word.isdigit()) and word not in self._conjunctions
            else None
            for word, is_content in zip(self.folded, self._is_content, strict=True)
        ]

    @cached_property
    def unique(self) -> dict[str, WordIndex]:
        """The index of each content word that occurs only once."""
        counts = Counter(self.keys)
        return {key: index for index, key in enumerate(self.keys) if key is not None and counts[key] == 1}

    def find_part(self, keys: Sequence[str]) -> Part | None:
        """Return the part from the first to the last of these keys; None if other content words are in it."""
        first, last = self.unique[keys[0]], self.unique[keys[-1]]
        return (first, last) if {None, *keys}.issuperset(self.keys[first : last + 1]) else None

    def get_span(self, part: Part) -> Span:
        return self.spans[part[0]][0], self.spans[part[1]][1]

    def has_break(self, before: WordIndex, after: WordIndex) -> bool:
        """Return whether a comma, another mark or a conjunction separates two words."""
        is_marked = BREAKS.search(self.text, self.spans[before][1], self.spans[after][0]) is not None
        return is_marked or not self._conjunctions.isdisjoint(self.folded[before + 1 : after])

    def are_apart(self, first: Sequence[str], second: Sequence[str]) -> bool:
        """Return whether a comma, another mark or a conjunction separates two parts.

        The mark after a time or place at the beginning does not count: "In May, the shop opened in Lyon".
        """
        start, before, after = self.unique[first[0]], self.unique[first[-1]], self.unique[second[0]]
        is_fronted = start > 0 and load_words("connectives", "link_words").issuperset(self.folded[:start])
        return self.has_break(before + (is_fronted and before + 1 < after), after)

    def is_not_only(self) -> bool:
        """Return whether the text says "not only … but also", where the order of the parts says nothing."""
        words = set(self.folded)
        return bool(words & load_words("connectives", "not_only") and words & load_words("connectives", "but_also"))

    def find_one_way_word(self, first: Sequence[str], second: Sequence[str]) -> str:
        """Return the word right before the second part that says something else if both parts change places; empty without one.

        Only articles and prepositions may follow it: in "On Monday more than 50 flights were cancelled in Texas", the day and
        the place are not compared. "Small but cheap" is also "cheap but small", so "but" needs a negation after it.
        """
        between = self.folded[self.unique[first[-1]] + 1 : self.unique[second[0]]]
        while between and between[-1] in load_words("connectives", "link_words"):
            between.pop()
        *_, before, word = ["", "", *between]
        if before in load_words("connectives", "adversatives") and count_negators([word]):
            return f"{before} {word}"
        is_two_way = count_negators(self.folded) or not load_words("connectives", "two_way").isdisjoint(self.folded)
        one_way = load_words("connectives", "one_way") - ({"als"} if self.is_dutch else set())  # Dutch "als" is "as"
        return word if word in one_way and not is_two_way else ""

    def list_comparing_words(self) -> list[str]:
        comparing = load_words("connectives", "comparing")
        return sorted(word for word in self.folded if word in comparing)

    def names_agent(self) -> bool:
        """Return whether the text has a preposition such as "by", with which a sentence may be in the passive voice."""
        return not load_words("connectives", "agent_prepositions").isdisjoint(self.folded)


def find_swap(compared: Comparison) -> Mismatch | None:
    """Return a swap of two parts that changes the meaning; None if there is none.

    Within a clause, the order often says nothing: "Ann met Ben" and "Ben met Ann". It does around a word such as "instead":
    "38 hours instead of 36", "outdoors but not in the barn".
    """
    swap = _locate_swap(compared)
    if swap is None or not swap.changes_meaning:
        return None
    claim = compared.claim
    parts = [claim.text[start:end] for start, end in (swap.first, swap.second)]
    kind: DifferenceKind = "negation"
    if all(map(_is_figure, parts)):
        kind = "number"
    elif claim.capitals_name and all(part[0].isupper() for part in parts):
        kind = "name"
    return Mismatch(kind, swap.first, swap.found)


def may_swap(compared: Comparison) -> bool:
    """Return whether the claim swaps two parts, in different clauses or in one."""
    return _locate_swap(compared) is not None


def _locate_swap(compared: Comparison) -> Swap | None:
    """Return the swap in the best sentence, or in the passage. Its span `found` is a span of the source.

    There is none if another sentence shares the same words and says what the claim says.
    """
    if compared.source.language not in (None, *ORDERED_LANGUAGES):
        return None
    best, *alike = compared.list_sentences_like_best()
    claim = _Words(compared.claim.facts, is_dutch=compared.source.language == DUTCH)
    if swap := _compare_with_text(claim, compared.read_facts(best)):
        if any(_compare_with_text(claim, compared.read_facts(sentence)) is None for sentence in alike):
            return None
        return replace(swap, found=compared.locate(best, swap.found))
    if swap := _compare_with_text(claim, compared.passage_facts):
        return replace(swap, found=compared.locate_in_passage(swap.found))
    return None


def _is_figure(part: str) -> bool:
    return part[0].isdigit() or fold(part).split()[0] in list_spelling_words()


def _compare_with_text(claim: _Words, facts: TextFacts) -> Swap | None:
    """Return the swap in one text. Its span `found` is a span of this text."""
    sentence = _Words(facts, is_dutch=claim.is_dutch)
    if claim.is_unreadable or sentence.is_unreadable or claim.names_agent() != sentence.names_agent():
        return None
    if claim.is_not_only() and sentence.is_not_only():
        return None
    shared = [key for key in claim.unique if key in sentence.unique]
    if len(shared) < max(MIN_SHARED_WORDS, MIN_SHARED_SHARE * sum(key is not None for key in claim.keys)):
        return None
    if (found := _find_swapped_keys(shared, sentence)) is None:
        return None
    if _is_list_in_another_order(claim, sentence, found):
        return None
    mine = _find_both(claim, found.first, found.second)
    theirs = _find_both(sentence, found.second, found.first)
    if mine is None or theirs is None:
        return None
    similarity = MIN_SIMILARITY if len(found.first) == len(found.second) else MIN_SIMILARITY_OF_UNEQUAL
    if not _is_copy_if_changed_back(claim, mine, sentence, theirs, similarity):
        return None
    first, second = claim.get_span(mine[0]), claim.get_span(mine[1])
    if _is_figure(claim.text[slice(*first)]) is not _is_figure(claim.text[slice(*second)]):
        return None
    changes_meaning = _are_in_two_clauses(claim, sentence, found) or _are_around_one_way_word(claim, sentence, found)
    return Swap(first, second, sentence.get_span(theirs[0]), changes_meaning)


def _find_both(words: _Words, first: Sequence[str], second: Sequence[str]) -> tuple[Part, Part] | None:
    parts = words.find_part(first), words.find_part(second)
    return None if parts[0] is None or parts[1] is None else (parts[0], parts[1])


def _find_swapped_keys(shared: Sequence[str], sentence: _Words) -> SwappedKeys | None:
    """Return the parts in the order of the claim; None if something else than a swap changes the order.

    `shared` are the keys of both texts in the order of the claim. Parts of several words need other words in their places
    before or after them, because whole sentences can begin with their end.
    """
    place = {key: at for at, key in enumerate(sorted(shared, key=sentence.unique.__getitem__))}
    moved = [at for at, key in enumerate(shared) if place[key] != at]
    run = shared[moved[0] : moved[-1] + 1] if moved else []
    cuts = [at for at, (one, other) in enumerate(pairwise(run), 1) if place[other] != place[one] + 1]
    if len(cuts) != len(SwappedKeys._fields) - 1:
        return None
    keys = SwappedKeys(run[: cuts[0]], run[cuts[0] : cuts[1]], run[cuts[1] :])
    longest = max(len(keys.first), len(keys.second))
    if longest > (MAX_PART_WORDS if len(run) < len(shared) else 1):
        return None
    is_swapped = place[keys.first[0]] > place[keys.between[0]] > place[keys.second[0]]
    return keys if is_swapped else None


def _are_in_two_clauses(claim: _Words, sentence: _Words, keys: SwappedKeys) -> bool:
    """Return whether a mark or a conjunction is between the two parts, in both texts."""
    return claim.are_apart(keys.first, keys.second) and sentence.are_apart(keys.second, keys.first)


def _are_around_one_way_word(claim: _Words, sentence: _Words, keys: SwappedKeys) -> bool:
    """Return whether a word between the two parts says something else if they change places: "instead", "than", "but not".

    The claim has no other content word than the sentence: an opposite word, as in "bans" for "allows", may change the meaning
    back.
    """
    if (
        not {None, *sentence.keys}.issuperset(claim.keys)
        or claim.list_comparing_words() != sentence.list_comparing_words()
    ):
        return False
    word = claim.find_one_way_word(keys.first, keys.second)
    return word != "" and word == sentence.find_one_way_word(keys.second, keys.first)


def _is_list_in_another_order(claim: _Words, sentence: _Words, keys: SwappedKeys) -> bool:
    """Return whether marks or conjunctions separate the two parts from the words between, in both texts."""
    return _is_list(claim, keys.first, keys.between, keys.second) and _is_list(
        sentence, keys.second, keys.between, keys.first
    )


def _is_list(words: _Words, *items: Sequence[str]) -> bool:
    return all(words.has_break(words.unique[one[-1]], words.unique[other[0]]) for one, other in pairwise(items))


def _is_copy_if_changed_back(
    claim: _Words, mine: tuple[Part, Part], sentence: _Words, theirs: tuple[Part, Part], similarity: float
) -> bool:
    """Return whether the claim is similar to the sentence as soon as its parts are changed back, and less similar before.

    All content words must be the same: "Ben is younger than Ann" swaps nothing in "Ann is older than Ben".
    """
    (start, first_end), (second_start, end) = mine
    indices = [*range(second_start, end + 1), *range(first_end + 1, second_start), *range(start, first_end + 1)]
    copied = range(theirs[0][0], theirs[1][1] + 1)
    if [claim.keys[at] for at in indices if claim.keys[at]] != [
        sentence.keys[at] for at in copied if sentence.keys[at]
    ]:
        return False
    words, theirs_words = claim.folded, [sentence.folded[at] for at in copied]
    before, after = (
        SequenceMatcher(None, own, theirs_words, autojunk=False).ratio()
        for own in (words[start : end + 1], [words[at] for at in indices])
    )
    return after >= similarity and after > before
