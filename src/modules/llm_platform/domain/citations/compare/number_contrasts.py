"""Find a number that a claim and one sentence share, but with opposite words beside it: "600 euros a year", "600 euros once".

`contrasts` lists the comparisons with an example of each. The words that they look for are in `contrasts.json`. All words are
folded.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.mismatches import SpanPair, find_figure_and_sign, find_word
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_data, load_word_groups, load_words
from modules.llm_platform.domain.text.negation import count_negators, load_negation_words
from modules.llm_platform.domain.text.numbers import NumberValues, find_number_words, load_number_words, read_value
from modules.llm_platform.domain.text.positions import Offset, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any

PERIOD_REACH: Final = 8  # a period is looked for in this many words after its amount
MIN_SHARED: Final = 0.8  # share of the words of a claim with a bound that the sentence has
NEGATOR_REACH: Final = 3  # "must not be fewer than"
BOUND_REACH: Final = 3  # a bound is looked for in this many words before its number


# --- the words beside a number


def compare_periods(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare the periods of one amount: "600 euros a year" and "600 euros once", "an hour" and "half an hour"."""
    return _compare_at_numbers(claim, sentence, _find_period_after)


def compare_bounds(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare the bounds of one number: "at least three years" and "at most three years".

    The sentence has nearly all other words of the claim: "It is cancelled with fewer than five" does not contradict "It takes
    place with at least five". None if one of them denies something besides.
    """
    if count_negators(claim.facts.folded) or count_negators(sentence.folded):
        return None  # "More than eight are not allowed"
    left_out = load_number_words().keys() | frozenset().union(
        *load_word_groups("contrasts", "bound"), *load_word_groups("contrasts", "bound_before_than")
    )
    content = [word.key for word in claim.words if word.is_content and word.key not in left_out]
    content = [word for word in content if not word[0].isdigit()]
    shared = sum(is_form_of_any(word, sentence.folded) for word in content)
    return _compare_at_numbers(claim, sentence, _find_bound_before) if shared >= MIN_SHARED * len(content) else None


def has_same_limit(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether both texts have a bound before the same number, in other words: `compare_bounds` compares these.

    "Without" in one of them denies something else.
    """
    without = load_words("connectives", "without")
    if not without.isdisjoint(claim.facts.folded) or not without.isdisjoint(sentence.folded):
        return False
    for number in claim.numbers:
        mine = _read_bound(claim.facts, number.offset)
        theirs = [
            _read_bound(sentence, at) for values, at in list_numbers_with_words(sentence) if values & number.values
        ]
        if mine and theirs and all(bound and bound != mine for bound in theirs):
            return True
    return False


def _read_bound(facts: TextFacts, offset: Offset) -> Sequence[str]:
    """Return the words of a bound, from its negator to its number: "no more than"; empty without one."""
    bound = _find_bound_before(facts, offset)
    if bound is None:
        return ()
    words, negators = facts.folded, load_negation_words().negators
    start = next((at for at in range(max(0, bound[1] - NEGATOR_REACH), bound[1]) if words[at] in negators), bound[1])
    return tuple(words[start : facts.find_position(offset)])


def _compare_at_numbers(
    claim: Claim, sentence: TextFacts, read: Callable[[TextFacts, Offset], tuple[Hashable, WordNumber] | None]
) -> SpanPair | None:
    """Compare the words beside a number that both texts have. Return both words if they are of different kinds.

    `read` gets the offset of a number. It returns the kind of the word beside it and the position of that word.
    """
    for number in claim.numbers:
        mine = read(claim.facts, number.offset)
        if mine is None:
            continue
        offsets = [offset for values, offset in list_numbers_with_words(sentence) if values & number.values]
        theirs = [word for offset in offsets if (word := read(sentence, offset)) is not None]
        if theirs and all(kind != mine[0] for kind, _ in theirs):
            return find_word(claim.text, mine[1]), find_word(sentence.text, theirs[0][1])
    return None


def _find_period_after(facts: TextFacts, offset: Offset) -> tuple[str, WordNumber] | None:
    """Return the period of the amount at this offset and the position of its word; None without one, or with several.

    "once" only counts alone: "50 euros a year, paid once" has the period of a year.
    """
    periods, per, adverbs = _load_periods(), load_words("contrasts", "per"), load_words("contrasts", "adverbs")
    first, words = facts.find_position(offset) + 1, facts.folded
    found: list[tuple[str, WordNumber]] = []
    for at, word in enumerate(words[first : first + PERIOD_REACH], first):
        if word.isdigit():
            break  # the next amount has its own period
        if word not in periods:
            continue
        half = None if word in per else _find_half_before(facts, WordNumber(at))  # "an" is also a French year
        if half is not None:
            found.append((f"half {periods[word]}", half))
        elif word in adverbs or words[at - 1] in per:
            found.append((periods[word], WordNumber(at)))
    repeated = [(period, at) for period, at in found if period != "once"]
    if len({period for period, _ in repeated}) > 1:
        return None
    return next(iter(repeated or found), None)


def _find_half_before(facts: TextFacts, at: WordNumber) -> WordNumber | None:
    """Return the position of "half" before a period: "half an hour", "every half year"."""
    halves = load_words("amounts", "half")
    return next(
        (WordNumber(before) for before in (at - 1, at - 2) if before >= 0 and facts.folded[before] in halves), None
    )


@cache
def _load_periods() -> dict[str, str]:
    """Return the words for periods, each with its period."""
    return {word: period for period, words in load_data("contrasts")["period"].items() for word in words.split()}


def _find_bound_before(facts: TextFacts, offset: Offset) -> tuple[int, WordNumber] | None:
    """Return the side and the position of a bound ("at least", "no more than") before a number."""
    at = facts.find_position(offset)
    for position in range(max(0, at - BOUND_REACH), at):
        for side, words in enumerate(load_word_groups("contrasts", "bound")):
            if facts.folded[position] in words:
                return side, WordNumber(position)
        for side, words in enumerate(load_word_groups("contrasts", "bound_before_than")):
            if facts.folded[position] in words and facts.folded[position + 1] in load_negation_words().than:
                before = facts.folded[max(0, position - NEGATOR_REACH) : position]
                is_denied = not load_negation_words().negators.isdisjoint(before)
                return 1 - side if is_denied else side, WordNumber(position)
    return None


def list_numbers_with_words(facts: TextFacts) -> list[tuple[NumberValues, Offset]]:
    """Return the numbers in figures, then the numbers in words, with their offsets."""
    known = load_number_words()
    spelled = [
        (read_value(known[facts.folded[at]]), Offset(find_word(facts.text, WordNumber(at))[0]))
        for at in find_number_words(facts.folded)
    ]
    return facts.figures + spelled


# --- two clauses with a number each


class _NumberedClause(NamedTuple):
    """A clause with one number.

    `span` delimits the number, `unit` is the word right after it, and `before` and `after` are the content words around.
    """

    values: NumberValues
    span: Span
    unit: str
    before: Sequence[str]
    after: Sequence[str]

    def has(self, word: str) -> bool:
        return is_form_of_any(word, self.before) or is_form_of_any(word, self.after)


def compare_clauses(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Compare a claim that has one number with a sentence of two clauses that have a number each.

    The claim is wrong if it has the number of one clause and the words of the other clause.
    """
    if len(claim.numbers) != 1:
        return None
    number, clauses = claim.numbers[0], _split_numbered_clauses(sentence)
    own = next((clause for clause in clauses if clause.values & number.values), None)
    if own is None:
        return None
    other = clauses[1 - clauses.index(own)]
    if other.values & own.values or other.unit != own.unit or not _has_words_of_other(claim, own, other):
        return None
    return find_figure_and_sign(claim.text, number.offset), other.span


def _has_words_of_other(claim: Claim, own: _NumberedClause, other: _NumberedClause) -> bool:
    """Return whether the claim, which has the number of `own`, takes its words from the clause `other`.

    It has words from after the other number and none from after its own, or the word before the other number and none from
    before or after its own. Words that both clauses have do not count.
    """
    if _has_any(claim, own.after, besides=other):
        return False
    if own.after and _has_any(claim, other.after, besides=own):
        return True
    return (
        bool(own.before)
        and _has_any(claim, other.before[-1:], besides=own)
        and not _has_any(claim, own.before, besides=other)
    )


def _has_any(claim: Claim, words: Sequence[str], *, besides: _NumberedClause) -> bool:
    """Return whether the claim has one of these words that the clause `besides` lacks."""
    return any(is_form_of_any(word, claim.facts.folded) and not besides.has(word) for word in words)


def _split_numbered_clauses(sentence: TextFacts) -> Sequence[_NumberedClause]:
    """Return the two clauses that "and" or a similar word joins; empty unless each of them has exactly one number."""
    joining = load_words("contrasts", "joining")
    cuts = [at for at, word in enumerate(sentence.folded) if word in joining]
    if len(cuts) != 1:
        return ()
    numbers = [(sentence.find_position(offset), values, offset) for values, offset in sentence.figures]
    clauses: list[_NumberedClause] = []
    for first, end in ((0, cuts[0]), (cuts[0], len(sentence.folded))):
        within = [number for number in numbers if first <= number[0] < end]
        if len(within) != 1:
            return ()
        at, values, offset = within[0]
        clauses.append(
            _NumberedClause(
                values,
                find_figure_and_sign(sentence.text, offset),
                unit=sentence.folded[at + 1] if at + 1 < end else "",
                before=sentence.list_content(first, at),
                after=sentence.list_content(at + 2, end),
            )
        )
    return clauses
