"""How far a passage bears out a sentence: how much of it is there, and whether a fact of it was changed.

A sentence is refuted by one wrong number, name, identifier, date or "not", however much else agrees. It is partly
supported where a whole clause has nothing in the passage. Scattered other words are only another way to say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.domain.claims import Claim, Word
from modules.llm_platform.domain.dtos.research_dtos import Verdict
from modules.llm_platform.domain.evidence import Passage, SourceText, is_form
from modules.llm_platform.domain.facts import (
    NEGATORS,
    NUMBER_WORDS,
    contradicting_date,
    denied,
    denied_han,
    numbers_in,
    opposed,
    undenied_words,
)
from modules.llm_platform.domain.text import fold

SUPPORTED_COVER = 0.45  # of the weight of the claim's content words
PARTIAL_COVER = 0.3
SAME_MATTER_COVER = 0.5  # below it a differing "not" or an opposite is about something else
LONG_RUN = 4  # content words in a row that the passage does not have: something was added
LONG_CLAUSE_RUN = 3  # the same behind a comma or an "and"
LONG_HAN_RUN = 9  # pairs of characters
COUNT_REACH = 5  # words behind a number word among which the counted thing is looked for
SMALL_COUNT = 4  # "three ways" may count what the passage lists
REFUTED_SCORE = 0.4  # times the cover: what is left of the score when a fact differs
PARTIAL_SCORE = 0.75

_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HAN_SLOTS = frozenset("于在由是名叫为自至到向、和与")
_HAN_NAME_ENDS = frozenset("省市县区州国岛山河海湖江镇村路大学司")
_FIRST_UNSPACED = "\u2e80"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`score` is 0..1; comparable only within one verdict."""

    verdict: Verdict
    score: float


@dataclass(frozen=True, slots=True)
class _Run:
    """Content words of the claim in a row that the passage does not have, and the places of the first and the last."""

    words: tuple[Word, ...]
    first: int
    last: int


class TextFacts:
    """What a passage asserts, taken out once and used for every sentence that cites it."""

    def __init__(self, text: str, stop_words: frozenset[str]) -> None:
        self.text = text
        self.folded = _WORDS.findall(fold(text).replace("’", "'"))
        self.numbers = [reading for reading, _ in numbers_in(text)]
        self.numbers += [frozenset({NUMBER_WORDS[word]}) for word in self.folded if word in NUMBER_WORDS]
        self.spelled = [place for place, word in enumerate(self.folded) if word in NUMBER_WORDS]
        self._stop_words = stop_words

    @cached_property
    def words(self) -> list[str]:
        """As they are written, in the order of `folded`."""
        written = _WORDS.findall(self.text)
        return written if len(written) == len(self.folded) else self.folded

    @cached_property
    def content(self) -> list[bool]:
        return [len(word) > 1 and word not in self._stop_words for word in self.folded]

    @cached_property
    def denied_words(self) -> list[str]:
        return [self.folded[place] for place in denied(self.folded, self.content)]

    @cached_property
    def undenied_words(self) -> list[str]:
        """The words of the clauses that hold no negation."""
        return undenied_words(self.text)

    def counts(self, noun: str | None) -> bool:
        """Whether a number word stands before this noun or figure."""
        return any(noun in self.folded[place + 1 : place + COUNT_REACH] for place in self.spelled)


def is_verbatim(claim: Claim, source: SourceText) -> bool:
    """Whether the words of the claim stand in the source one after the other, and no "not" right before them."""
    at = source.squashed.find(claim.squashed)
    return at >= 0 and claim.squashed != "  " and source.squashed[:at].rpartition(" ")[2] not in NEGATORS


def judge(
    claim: Claim, source: SourceText, passage: Passage, whole: TextFacts, heart: TextFacts, lift: float
) -> Judgement:
    """The verdict on a sentence and the best passage of one source.

    `whole` are the facts of the passage, `heart` those of the sentence in it that says most. `lift` is added to the
    cover: what a measured similarity of meaning is worth, 0 where none was measured.
    """
    matched = [
        bool(passage.matched >> place & 1) or _said_elsewhere(word, source) for place, word in enumerate(claim.words)
    ]
    cover = _content_cover(claim, matched)
    runs = list(_runs(claim, matched))
    added = [run for run in runs if _is_addition(run, claim)]
    other = [run for run in runs if run not in added]
    if cover >= PARTIAL_COVER and (
        any(_name_changed(run, claim, whole) for run in other)
        or (number := _odd_number(claim, source, whole, added)) == "changed"
        or (cover >= SAME_MATTER_COVER and _contradicts(claim, heart))
        or contradicting_date(claim.keys, whole.folded)
    ):
        return Judgement("unsupported", round(REFUTED_SCORE * cover, 2))
    cover = min(1.0, cover + lift)
    if cover < PARTIAL_COVER:
        return Judgement("unsupported", round(cover, 2))
    if added or number == "added" or cover < SUPPORTED_COVER:
        return Judgement("partial", round(PARTIAL_SCORE * cover, 2))
    return Judgement("supported", round(cover, 2))


def _said_elsewhere(word: Word, source: SourceText) -> bool:
    """A name that the source has in another place: the passage may say "it" or "the company"."""
    return (word.is_identifier or word.written[0].isupper()) and source.knows(word.key, word.written)


def _content_cover(claim: Claim, matched: Sequence[bool]) -> float:
    there = sum(weight for weight, found in zip(claim.weights, matched, strict=True) if found)
    return there / claim.total if claim.total else 0.0


def _runs(claim: Claim, matched: Sequence[bool]) -> Iterator[_Run]:
    places: list[int] = []
    for place, word in enumerate(claim.words):
        if word.is_content and not matched[place]:
            places.append(place)
        elif word.is_content and places:
            yield _Run(tuple(claim.words[at] for at in places), places[0], places[-1])
            places = []
    if places:
        yield _Run(tuple(claim.words[at] for at in places), places[0], places[-1])


def _is_addition(run: _Run, claim: Claim) -> bool:
    """Whether the run is a statement of its own rather than a changed fact or another wording."""
    length = len(run.words)
    if run.words[0].key[0] >= _FIRST_UNSPACED:
        return length >= LONG_HAN_RUN
    if all(word.is_name for word in run.words):
        return False
    return length >= LONG_RUN or (length >= LONG_CLAUSE_RUN and claim.begins_clause(run.first))


# --- what refutes


def _odd_number(claim: Claim, source: SourceText, whole: TextFacts, added: Sequence[_Run]) -> str:
    """"changed" where the passage has other numbers, "added" where it has none, "" where all of the claim's are there."""
    inside = [(claim.ats[run.first], claim.clause_end(claim.ats[run.last])) for run in added]
    found = ""
    for reading, at, spelled in claim.numbers:
        if any(first <= at <= last for first, last in inside) or any(reading & known for known in whole.numbers):
            continue
        if not spelled and _number_elsewhere(claim, source, at):
            continue
        if spelled and min(map(float, reading)) <= SMALL_COUNT:
            if whole.counts(_noun_behind(claim, at)):
                return "changed"
        elif whole.numbers:
            return "changed"
        else:
            found = "added"
    return found


def _noun_behind(claim: Claim, at: int) -> str | None:
    behind = (word.key for word, its in zip(claim.words, claim.ats, strict=True) if its > at and word.is_content)
    return next(behind, None)


def _number_elsewhere(claim: Claim, source: SourceText, at: int) -> bool:
    """Whether another sentence of the source has the same figures next to a word of the claim."""
    figures = next((word for word, its in zip(claim.words, claim.ats, strict=True) if its == at), None)
    places = set(source.places_of(figures.key)) if figures else set()
    return bool(places) and any(
        not places.isdisjoint(source.places_of(word.key))
        for word in claim.words
        if word.is_content and word is not figures
    )


def _name_changed(run: _Run, claim: Claim, whole: TextFacts) -> bool:
    if run.words[0].key[0] >= _FIRST_UNSPACED:
        return _han_name_changed(run, claim)
    if any(word.is_name or word.is_identifier for word in run.words):
        return True
    return _in_place_of_a_name(run, claim, whole) or _in_place_of_a_term(run, claim, whole)


def _han_name_changed(run: _Run, claim: Claim) -> bool:
    if len(run.words) < 2:  # one pair can straddle the seam of two known words
        return False
    start, end = claim.ats[run.first], claim.ats[run.last] + 2
    before = claim.text[max(0, start - 1) : start + 1]
    return any(sign in _HAN_SLOTS for sign in before) or any(sign in _HAN_NAME_ENDS for sign in claim.text[end - 2 : end])


def _in_place_of_a_name(run: _Run, claim: Claim, whole: TextFacts) -> bool:
    """Whether a capitalised word stands where the passage has another one: what tells in German and at the beginning."""
    first = run.words[0].written
    if not first[0].isupper() or len(run.words) > 2 or first.endswith("ing"):
        return False
    keys = set(claim.keys)
    before = claim.keys[run.first - 1] if run.first else None
    after = claim.keys[run.last + 1] if run.last + 1 < len(claim.keys) else None
    words, folded = whole.words, whole.folded
    for place, word in enumerate(folded):
        if word == before and place + 1 < len(words) and _is_other_name(words[place + 1], folded[place + 1], keys):
            return True
        if word == after and place and _is_other_name(words[place - 1], folded[place - 1], keys):
            return True
    return False


def _in_place_of_a_term(run: _Run, claim: Claim, whole: TextFacts) -> bool:
    """Whether a hyphenated term stands behind a word of the claim where the passage has something else."""
    written = claim.text[claim.ats[run.first] : claim.ats[run.last] + len(run.words[-1].written)]
    if "-" not in written or " " in written or not run.first or not claim.words[run.first - 1].is_content:
        return False
    before = claim.keys[run.first - 1]
    return any(
        word == before and not _says_of(claim.keys, following) and content
        for word, following, content in zip(whole.folded, whole.folded[1:], whole.content[1:], strict=False)
    )


def _is_other_name(written: str, folded: str, keys: set[str]) -> bool:
    return written[0].isupper() and folded not in keys and not any(is_form(folded, key) for key in keys)


def _contradicts(claim: Claim, heart: TextFacts) -> bool:
    """A "not" on one side only, or a word and its opposite."""
    if opposed(claim.keys, heart.folded):
        return True
    mine = claim.denied_words
    said = claim.undenied_words if mine else () if claim.says_no else claim.keys
    if any(_says_of(said, word) and not _says_of(mine, word) for word in heart.denied_words):
        return True
    if any(_says_of(heart.undenied_words, word) for word in mine):
        return True
    return not claim.text.isascii() and _han_contradicts(claim.text, heart.text)


def _says_of(words: Sequence[str], word: str) -> bool:
    return word in words or any(is_form(word, other) for other in words)


def _han_contradicts(mine: str, theirs: str) -> bool:
    own, other = denied_han(mine), denied_han(theirs)
    return any(_affirmed(head, theirs, other) for head in own) or any(_affirmed(head, mine, own) for head in other)


def _affirmed(head: str, text: str, denied_there: Sequence[str]) -> bool:
    start = head[:2]
    return len(start) == 2 and start in text and not any(start in phrase for phrase in denied_there)
