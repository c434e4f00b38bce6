"""Find opposites between a claim and its source that no other comparison finds.

| a claim says | its source says | function |
|---|---|---|
| all positions | 74 of the 90 positions | `_compare_quantities` |
| voted for the budget | voted against it | `_compare_stances` |
| until 30 June | after 30 June | `_compare_times` |
| 600 euros a year | 600 euros once | `_compare_periods` |
| at least three years | at most three years | `_compare_bounds` |
| grew by 12 percent in the south | grew by 12 percent in the north and fell by 4 percent in the south | `_compare_clauses` |
| 工会支持 | 工会反对 | `_compare_han_verbs` |
| opens on 14 May | was planned for 14 May. It has been moved to 2 September | `find_replaced_date` |

Each comparison requires the same words around the two opposites. It finds nothing if one text has both opposites. All words are
folded.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.changes import Change, find_place, find_word
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.numbers import (
    Reading,
    find_number_words,
    find_other_date,
    load_number_words,
    read_value,
)
from modules.llm_platform.domain.text.positions import Offset, SentenceNumber, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE

NOUN_REACH: Final = 4  # a noun is looked for in this many words after its quantifier or preposition
VERB_REACH: Final = 3  # a verb of voting is looked for in this many words on each side of "for"
PERIOD_REACH: Final = 8  # a period is looked for in this many words after its amount
BOUND_REACH: Final = 3  # a bound is looked for in this many words before its number
CLAUSES_COMPARED: Final = 2
SUBJECT_SIGNS: Final = 2  # the two characters before a Chinese verb name its subject

_SHARE = re.compile(r"(?:of|von|der|sur|de|di|из|z|out of)(?: the| den| les| los| las)?$")
_HAN_CLAUSE_END = re.compile(r"[，。；！？,;.!?]|但|而|不过|不過")

Places = tuple[Span, Span]  # a span of the claim, and the span of the sentence that says otherwise


def find_contrast(compared: Comparison) -> Change | None:
    """Return the opposite in the best sentence; None if another sentence shares the same words and has no opposite."""
    best, *alike = compared.list_sentences_like_best()
    found = _compare_with_sentence(compared.claim, compared.read_facts(best))
    if found is None:
        return None
    if any(_compare_with_sentence(compared.claim, compared.read_facts(sentence)) is None for sentence in alike):
        return None
    return Change("negation", found[0], compared.locate(best, found[1]))


def _compare_with_sentence(claim: Claim, sentence: TextFacts) -> Places | None:
    """Return where a claim and one sentence of its source say opposite things; None if they do not."""
    comparisons: tuple[Callable[[Claim, TextFacts], Places | None], ...] = (
        _compare_quantities,
        _compare_stances,
        _compare_times,
        _compare_periods,
        _compare_bounds,
        _compare_clauses,
        _compare_han_verbs,
    )
    return next((found for compare in comparisons if (found := compare(claim, sentence)) is not None), None)


def find_replaced_date(compared: Comparison) -> Change | None:
    """Return the new date if the sentence after the best one says that the date of the claim was moved."""
    claim, best = compared.claim, compared.passage.sentences[0]
    after = SentenceNumber(best + 1)
    if after >= len(compared.source.spans):
        return None
    sentence, later = compared.read_facts(best), compared.read_facts(after)
    replaced = load_words("contrasts", "replaced")
    if replaced.isdisjoint(later.folded) or not replaced.isdisjoint(claim.facts.folded):
        return None
    if find_other_date(claim.facts.dated, sentence.dated) is not None:
        return None  # the claim has another date than the sentence, which is compared elsewhere
    changed = find_other_date(claim.facts.dated, later.dated)
    if changed is None:
        return None
    own, other = changed
    return Change("date", find_place(claim.text, own), compared.locate(after, find_place(later.text, other)))


def _compare_quantities(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare "all positions" with "most positions", "only positions" and "74 of the 90 positions"."""
    mine, theirs = claim.facts, sentence
    whole, part = load_words("contrasts", "all"), load_words("contrasts", "part")
    if whole.isdisjoint(mine.folded) or not part.isdisjoint(mine.folded):
        return None
    for at in _find_positions(mine.folded, whole):
        nouns = _list_content_after(mine, at)[:1]
        if not nouns:
            continue
        if any(
            is_form_of_any(nouns[0], _list_content_after(theirs, other)[:2])
            for other in _find_positions(theirs.folded, whole)
        ):
            return None
        for other in _find_positions(theirs.folded, part):
            if is_form_of_any(nouns[0], _list_content_after(theirs, other)[:2]):
                return find_word(mine.text, at), find_word(theirs.text, other)
        if (found := _find_share(theirs, nouns[0])) is not None:
            return find_word(mine.text, at), found
    return None


def _find_share(sentence: TextFacts, noun: str) -> Span | None:
    """Return the place of the smaller number in "74 of the 90 positions" or "of the 90 positions, 74"."""
    figures = [(float(min(reading, key=len)), offset) for reading, offset in sentence.figures if _is_plain(reading)]
    for whole, offset in figures:
        before = sentence.text[:offset].rstrip().casefold()
        after = sentence.text[offset:].split()[1 : 1 + NOUN_REACH]
        if not _SHARE.search(before) or not is_form_of_any(noun, [word.strip(".,;:").casefold() for word in after]):
            continue
        for share, place in figures:
            if share < whole and place != offset:
                return _find_written_number(sentence.text, place)
    return None


def _is_plain(reading: frozenset[str]) -> bool:
    return all(value.replace(".", "", 1).isdigit() for value in reading)


def _compare_stances(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare "voted for it" with "voted against it", of the same voter."""
    verbs = load_words("contrasts", "stance_verbs")
    if verbs.isdisjoint(claim.facts.folded) or verbs.isdisjoint(sentence.folded):
        return None
    sides = _load_sides("stance")
    mine, theirs = _list_stances(claim.facts, sides, verbs), _list_stances(sentence, sides, verbs)
    if len({side for side, _ in mine}) != 1 or len({side for side, _ in theirs}) != 1 or mine[0][0] == theirs[0][0]:
        return None
    voters = [word for word in _list_content_before(claim.facts, mine[0][1]) if word not in verbs]
    if not any(is_form_of_any(word, sentence.folded) for word in voters):
        return None
    return find_word(claim.text, mine[0][1]), find_word(sentence.text, theirs[0][1])


def _list_stances(
    facts: TextFacts, sides: Sequence[frozenset[str]], verbs: frozenset[str]
) -> list[tuple[int, WordNumber]]:
    """Return the side and the position of each "for" or "against" beside a verb of voting."""
    return [
        (side, at)
        for side, words in enumerate(sides)
        for at in _find_positions(facts.folded, words)
        if not verbs.isdisjoint(facts.folded[max(0, at - VERB_REACH) : at + VERB_REACH])
    ]


def _compare_times(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare "after the probation period" with "during the probation period" and "until 30 June" with "after 30 June"."""
    sides = _load_sides("time")
    for side, words in enumerate(sides):
        for at in _find_positions(claim.facts.folded, words):
            noun = _find_noun_after(claim.facts, at)
            if noun is None:
                continue
            there = [
                (other_side, other)
                for other_side, other_words in enumerate(sides)
                for other in _find_positions(sentence.folded, other_words)
                if (found := _find_noun_after(sentence, other)) and (found == noun or is_form_of_any(noun, [found]))
            ]
            if there and all(other_side != side for other_side, _ in there):
                return find_word(claim.text, at), find_word(sentence.text, there[0][1])
    return None


def _compare_periods(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare the periods of one amount: "600 euros a year" and "600 euros once"."""
    return _compare_at_numbers(claim, sentence, _find_period_after)


def _compare_bounds(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare the bounds of one number: "at least three years" and "at most three years"."""
    return _compare_at_numbers(claim, sentence, _find_bound_before)


def _compare_at_numbers(
    claim: Claim, sentence: TextFacts, read: Callable[[TextFacts, Offset], tuple[Hashable, WordNumber] | None]
) -> Places | None:
    """Compare the words beside a number that both texts have. Return both words if they are of different kinds.

    `read` gets the offset of a number. It returns the kind of the word beside it and the position of that word.
    """
    for number in claim.numbers:
        mine = read(claim.facts, number.offset)
        if mine is None:
            continue
        same = [offset for reading, offset in _find_numbers(sentence) if reading & number.reading]
        there = [found for offset in same if (found := read(sentence, offset)) is not None]
        if there and all(kind != mine[0] for kind, _ in there):
            return find_word(claim.text, mine[1]), find_word(sentence.text, there[0][1])
    return None


def _find_period_after(facts: TextFacts, offset: Offset) -> tuple[str, WordNumber] | None:
    """Return the period of the amount at this offset and the position of its word; None without one, or with several."""
    first = _find_word_number(facts, offset)
    words, per, adverbs = facts.folded, load_words("contrasts", "per"), load_words("contrasts", "adverbs")
    found = [
        (_load_periods()[word], WordNumber(at))
        for at, word in enumerate(words[first + 1 : first + 1 + PERIOD_REACH], first + 1)
        if word in _load_periods() and (word in adverbs or words[at - 1] in per)
    ]
    if len({period for period, _ in found if period != "once"}) > 1:
        return None
    return next((pair for pair in found if pair[0] != "once"), found[0] if found else None)


def _find_bound_before(facts: TextFacts, offset: Offset) -> tuple[int, WordNumber] | None:
    """Return the side and the position of a bound ("at least", "at most") before a number."""
    at = _find_word_number(facts, offset)
    for position in range(max(0, at - BOUND_REACH), at):
        for side, words in enumerate(_load_sides("bound")):
            if facts.folded[position] in words:
                return side, WordNumber(position)
    return None


def _compare_clauses(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare a claim that has one number with a sentence of two clauses that have a number each.

    The claim is wrong if it has the number of one clause and the words of the other: the words after the other number and
    none after its own, or the word before the other number and none before its own.
    """
    if len(claim.numbers) != 1:
        return None
    clauses = _split_numbered_clauses(sentence)
    own = next((clause for clause in clauses if clause.reading & claim.numbers[0].reading), None)
    if own is None or len(clauses) != CLAUSES_COMPARED:
        return None
    other = clauses[1 - clauses.index(own)]
    if other.reading & own.reading or other.unit != own.unit:
        return None
    words = claim.facts.folded
    is_after = _has_any(other.after, words, own.all) and own.after and not _has_any(own.after, words, other.all)
    is_before = (
        own.before
        and _has_any(other.before[-1:], words, own.all)
        and not _has_any(own.before, words, other.all)
        and not _has_any(own.after, words, other.all)
    )
    if not is_after and not is_before:
        return None
    return _find_written_number(claim.text, claim.numbers[0].offset), other.span


class _NumberedClause(NamedTuple):
    """A clause with one number.

    `span` is the place of the number, `unit` is the word right after it, and `before` and `after` are the content words around.
    """

    reading: Reading
    span: Span
    unit: str
    before: list[str]
    after: list[str]

    @property
    def all(self) -> list[str]:
        return [*self.before, *self.after]


def _split_numbered_clauses(sentence: TextFacts) -> list[_NumberedClause]:
    """Split a sentence at "and" and similar words. The result is empty unless each clause has exactly one number."""
    joining = load_words("contrasts", "joining")
    cuts = [at for at, word in enumerate(sentence.folded) if word in joining]
    numbers = [(reading, offset, _find_word_number(sentence, offset)) for reading, offset in sentence.figures]
    found: list[_NumberedClause] = []
    for first, end in pairwise([0, *cuts, len(sentence.folded)]):
        within = [(reading, offset, at) for reading, offset, at in numbers if first <= at < end]
        if len(within) != 1:
            return []
        reading, offset, at = within[0]
        words = [word if content else "" for word, content in zip(sentence.folded, sentence.content, strict=True)]
        unit = sentence.folded[at + 1] if at + 1 < end else ""
        before = [word for word in words[first:at] if word]
        after = [word for word in words[at + 2 : end] if word]
        span = _find_written_number(sentence.text, offset)
        found.append(_NumberedClause(reading, span, unit, before, after))
    return found


def _has_any(words: Sequence[str], claimed: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether the claim has one of these words that the other clause lacks."""
    return any(is_form_of_any(word, claimed) and not is_form_of_any(word, other) for word in words)


def _find_numbers(facts: TextFacts) -> list[tuple[Reading, Offset]]:
    """Return the numbers in figures and in words, with their offsets."""
    known = load_number_words()
    spelled = [
        (read_value(known[facts.folded[at]]), Offset(find_word(facts.text, WordNumber(at))[0]))
        for at in find_number_words(facts.folded)
    ]
    return facts.figures + spelled


def _find_word_number(facts: TextFacts, offset: Offset) -> WordNumber:
    return WordNumber(len(WORD_WITH_APOSTROPHE.findall(facts.text[:offset])))


def _find_written_number(text: str, offset: Offset) -> Span:
    """Return the span of the number that begins here, up to a space, without a stop at its end."""
    return offset, offset + len(text[offset:].split()[0].rstrip(".,;:"))


def _compare_han_verbs(claim: Claim, sentence: TextFacts) -> Places | None:
    """Compare 工会支持 with 工会反对: the same two characters before opposite verbs, in one clause of each text."""
    if claim.text.isascii():
        return None
    for pair in load_data("contrasts")["han"]:
        for own, other in (pair, pair[::-1]):
            if (found := _compare_han_pair(claim.text, sentence.text, own.split(), other.split())) is not None:
                return found
    return None


def _compare_han_pair(claim: str, sentence: str, own: Sequence[str], other: Sequence[str]) -> Places | None:
    """Return the place of a verb of `own` in the claim, and of a verb of `other` after the same subject in the sentence."""
    if any(verb in claim for verb in other):
        return None
    for verb in own:
        at = claim.find(verb)
        subject = claim[:at].strip()[:SUBJECT_SIGNS] if at >= SUBJECT_SIGNS else ""
        if not subject or subject.isascii():
            continue
        for clause, start in _split_han_clauses(sentence):
            found = next((clause.find(opposite) for opposite in other if opposite in clause), -1)
            if found >= 0 and subject in clause[:found] and not any(word in clause for word in own):
                return (at, at + len(verb)), (start + found, start + found + SUBJECT_SIGNS)
    return None


def _split_han_clauses(text: str) -> Iterator[tuple[str, int]]:
    start = 0
    for cut in _HAN_CLAUSE_END.finditer(text):
        yield text[start : cut.start()], start
        start = cut.end()
    yield text[start:], start


@cache
def _load_sides(name: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(words.split()) for words in load_data("contrasts")[name])


@cache
def _load_periods() -> dict[str, str]:
    return {word: period for period, words in load_data("contrasts")["period"].items() for word in words.split()}


def _find_positions(words: Sequence[str], wanted: frozenset[str]) -> list[WordNumber]:
    return [] if wanted.isdisjoint(words) else [WordNumber(at) for at, word in enumerate(words) if word in wanted]


def _list_content_after(facts: TextFacts, at: WordNumber) -> list[str]:
    """Return the content words after a word, at most NOUN_REACH words away."""
    reach = range(at + 1, min(len(facts.folded), at + 1 + NOUN_REACH))
    return [facts.folded[position] for position in reach if facts.content[position]]


def _list_content_before(facts: TextFacts, at: WordNumber) -> list[str]:
    return [word for word, is_content in zip(facts.folded[:at], facts.content, strict=False) if is_content]


def _find_noun_after(facts: TextFacts, at: WordNumber) -> str | None:
    """Return the first content word or number after a preposition, unless another preposition of time is beside it."""
    every = frozenset().union(*_load_sides("time"))
    if at and facts.folded[at - 1] in every:
        return None  # "until after the update"
    for position in range(at + 1, min(len(facts.folded), at + 1 + NOUN_REACH)):
        word = facts.folded[position]
        if word in every:
            return None
        if facts.content[position] or word.isdigit():
            return word
    return None
