"""Names, identifiers and things that a sentence puts where its source has others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from modules.llm_platform.domain.checking.claims import Claim
from modules.llm_platform.domain.checking.gaps import Run
from modules.llm_platform.domain.checking.numbers import NUMBER_WORDS
from modules.llm_platform.domain.checking.text_facts import TextFacts
from modules.llm_platform.domain.checking.word_families import RELATIVES
from modules.llm_platform.domain.checking.words import is_form_of_any, is_same_word, is_unspaced
from modules.llm_platform.domain.text import fold

MAX_NAME_WORDS = 2  # of a name that is recognised by its place only
MAX_REPLACED_WORDS = 3  # of the passage, for which the claim has one
MIN_TERM_LETTERS = 4
MIN_SIDE = 1.5  # weight of the words that tell which of two sides is spoken of

_HAN_SLOTS = frozenset("于在由是名叫为自至到向、和与はがをにのとで")  # behind them Chinese and Japanese put names
_HAN_NAME_ENDS = frozenset("省市县県都府道区州国岛島山河川海湖江镇町村路大学司")
_HAN_STRANGE = re.compile(r"[\u3400-\u9fff\u30a0-\u30ff]{2,}")
_ARTICLES = (
    "a an the its their his her this that these those more less all each every no about roughly nearly up down out off"
    " der die das den dem ein eine einen le la les un une el los las una lo gli"
)
_NEVER_AFTER_NOUNS = frozenset(_ARTICLES.split())
_AGAINST_LIST = "but while whereas mais tandis pero mientras но"
_AGAINST = frozenset(_AGAINST_LIST.split())
_SIDES = re.compile(r";|\b(?:but|while|whereas|mais|tandis|pero|mientras|но)\b")
_PREPOSITIONS_LIST = "on in at for under with by from to sur en sous pour avec bajo para con на в для под с"
_PREPOSITIONS = frozenset(_PREPOSITIONS_LIST.split())
_WRITTEN = re.compile(r"[^\W_]+")
_SETTING = re.compile(r"(\w+)=([\w.-]+)")
_NOT_NOUNS = ("ly", "ing", "ed")


def odd_name(run: Run, claim: Claim, whole: TextFacts, heart: TextFacts) -> Literal["", "added", "changed"]:
    """Whether what the passage lacks here is a name, an identifier or a thing in the place of another.

    A name is changed where the passage has one that the claim does not, else added. `heart` is the sentence of the
    passage that says most.
    """
    if is_unspaced(run.words[0].key):
        return "changed" if _han_name_changed(run, claim, whole) else ""
    if any(word.is_identifier for word in run.words):
        return "changed"
    if (
        in_place_of_a_name(run, claim, whole)
        or _in_place_of_a_term(run, claim, whole)
        or _replaces_a_noun(run, claim, heart)
    ):
        return "changed"
    if any(word.is_name for word in run.words):
        return "changed" if _has_a_name_of_its_own(claim, heart) else "added"
    return ""


def sets_another_name(claim: Claim, whole: TextFacts) -> bool:
    """Whether `name=value` of the claim stands in the passage with another name and the same value."""
    if "=" not in claim.text:
        return False
    theirs = [(found[1], found[2]) for found in _SETTING.finditer(whole.text)]
    return any(
        (found[1], found[2]) not in theirs and any(value == found[2] for _, value in theirs)
        for found in _SETTING.finditer(claim.text)
    )


def has_changed_places(claim: Claim, heart: TextFacts) -> bool:
    """Whether a name that the source has stands where the source has another one.

    As who does something ("Berg was sent off" for "Petrov was sent off"), or with a preposition in one of two clauses that
    are set against each other ("raises on Unix" for "overwrites on Unix but raises on Windows").
    """
    if not claim.capitals_name:
        return False
    names = [place for place, word in enumerate(claim.words) if word.written[0].isupper() and word.is_content]
    return any(_does_what_another_does(place, claim, heart) for place in names) or (
        not _AGAINST.isdisjoint(heart.folded) and any(_is_on_the_other_side(place, claim, heart) for place in names)
    )


def _does_what_another_does(name: int, claim: Claim, heart: TextFacts) -> bool:
    """Whether the two words behind the name stand in the source behind another name, and nowhere behind this one."""
    deed = claim.keys[name + 1 : name + 3]
    if len(deed) < 2 or deed[0] not in heart.folded:
        return False
    if not any(word.is_content and not word.is_name for word in claim.words[name + 1 : name + 3]):
        return False
    doers = [
        place - 1
        for place in range(1, len(heart.folded) - 1)
        if heart.folded[place : place + 2] == deed and heart.sentence_starts.isdisjoint((place - 1, place))
    ]
    return bool(doers) and all(is_other_name(heart.words[place], heart.folded[place], claim.keys) for place in doers)


def _is_on_the_other_side(name: int, claim: Claim, heart: TextFacts) -> bool:
    preposition, key = claim.keys[name - 1] if name else "", claim.keys[name]
    if preposition not in _PREPOSITIONS:
        return False
    sides = [_WRITTEN.findall(side) for side in _SIDES.split(heart.text)]
    folded = [[fold(word) for word in side] for side in sides]
    others = [word for word in claim.words if word.is_content and word.key != key]
    shares = [sum(word.weight for word in others if is_form_of_any(word.key, side)) for side in folded]
    best = shares.index(max(shares))
    if shares[best] < MIN_SIDE or shares.count(shares[best]) > 1 or key in folded[best]:
        return False
    return any(
        word == preposition and is_other_name(written, following, claim.keys)
        for word, written, following in zip(folded[best], sides[best][1:], folded[best][1:], strict=False)
    )


def _has_a_name_of_its_own(claim: Claim, heart: TextFacts) -> bool:
    return any(
        written[0].isupper() and counts and (place or (heart.words[1:2] and heart.words[1][0].isupper()))
        and not is_form_of_any(folded, claim.keys)
        for place, (written, folded, counts) in enumerate(zip(heart.words, heart.folded, heart.content, strict=True))
    )  # fmt: skip


def _han_name_changed(run: Run, claim: Claim, whole: TextFacts) -> bool:
    """Whether two or more characters that the passage lacks stand where Chinese and Japanese put names."""
    start, end = claim.ats[run.first], claim.ats[run.last] + 2
    strange = "".join(
        sign if sign not in whole.text and sign not in _HAN_SLOTS else " " for sign in claim.text[start:end]
    )
    for found in _HAN_STRANGE.finditer(strange):
        first, last = start + found.start(), start + found.end()
        if claim.text[first - 1 : first] in _HAN_SLOTS or not _HAN_NAME_ENDS.isdisjoint(
            claim.text[last - 1 : last + 1]
        ):
            return True
    return False


def in_place_of_a_name(
    run: Run, claim: Claim, whole: TextFacts, may_name: Callable[[str], bool] | None = None
) -> bool:
    """Whether a capitalised word stands where the passage has another one: what tells in German and at the beginning.

    `may_name` tells of what the passage has there whether it may be a name.
    """
    first = run.words[0].written
    if not first[0].isupper() or len(run.words) > MAX_NAME_WORDS or first.endswith("ing"):
        return False
    if not run.first and not claim.capitals_name:
        return False  # in German the first word may be anything
    keys = claim.keys
    before = claim.keys[run.first - 1] if run.first else None
    after = claim.keys[run.last + 1] if run.last + 1 < len(claim.keys) else None
    words, folded = whole.words, whole.folded
    if before in _NEVER_AFTER_NOUNS:
        before = None
    if after in _NEVER_AFTER_NOUNS:
        after = None
    found = [(place + 1, place + 1) for place, word in enumerate(folded[:-1]) if word == before]
    found += [(place - 1, place) for place, word in enumerate(folded) if place and word == after]
    return any(
        _names_another(whole, name, second, keys) and (may_name is None or may_name(words[name]))
        for name, second in found
    )


def _names_another(whole: TextFacts, name: int, second: int, keys: list[str]) -> bool:
    """Whether a name that the claim lacks stands here, and the later one of the two places begins no new sentence."""
    return (
        whole.content[name]
        and is_other_name(whole.words[name], whole.folded[name], keys)
        and second not in whole.sentence_starts
    )


def _in_place_of_a_term(run: Run, claim: Claim, whole: TextFacts) -> bool:
    """Whether a hyphenated term stands behind a word of the claim where the passage has something else."""
    written = claim.text[claim.ats[run.first] : claim.ats[run.last] + len(run.words[-1].written)]
    if "-" not in written or " " in written or not run.first or not claim.words[run.first - 1].is_content:
        return False
    before = claim.keys[run.first - 1]
    return any(
        word == before and not is_form_of_any(following, claim.keys) and content
        for word, following, content in zip(whole.folded, whole.folded[1:], whole.content[1:], strict=False)
    )


def _replaces_a_noun(run: Run, claim: Claim, heart: TextFacts) -> bool:
    """Whether a noun stands between the same two words as another: "inhaled X reduce" for "inhaled Y reduce".

    A verb or an adverb in such a place is most often another word for the same, so the words around must speak for a noun.
    """
    word = run.words[0].key
    if (
        run.first != run.last
        or not 0 < run.first < len(claim.keys) - 1
        or word in RELATIVES
        or word.endswith(_NOT_NOUNS)
    ):
        return False
    before, after = claim.keys[run.first - 1], claim.keys[run.first + 1]
    if run.first > 1 and claim.words[run.first + 1].is_content:
        return False  # rather an adjective
    if after in _NEVER_AFTER_NOUNS or any(near in NUMBER_WORDS or near[0].isdigit() for near in (word, after)):
        return False
    theirs = heart.folded
    return any(
        is_same_word(theirs[place], before) and is_same_word(theirs[place + length + 1], after)
        and not any(_is_related(word, middle, claim) for middle in theirs[place + 1 : place + length + 1])
        and any(heart.content[at] and theirs[at].isalpha() for at in range(place + 1, place + length + 1))
        for length in range(1, MAX_REPLACED_WORDS + 1)
        for place in range(len(theirs) - length - 1)
    )  # fmt: skip


def _is_related(word: str, other: str, claim: Claim) -> bool:
    return (
        other[:3] == word[:3]
        or other in RELATIVES
        or (len(other) >= MIN_TERM_LETTERS and is_form_of_any(other, claim.keys))
    )


def is_other_name(written: str, folded: str, keys: list[str]) -> bool:
    return written[0].isupper() and not is_form_of_any(folded, keys)
