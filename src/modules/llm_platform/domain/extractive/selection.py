"""Select the sentences of the sources that answer a question, without a model.

A few of the best sentences, without repetition, in the order of their sources. A sentence that depends on the one before it
is selected together with that one. When the sentences lack the rare words of the question, none is selected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.candidates import (
    LONG_WORDS,
    TITLE_CREDIT,
    Candidate,
    explains,
    find_candidates,
    is_in_same_table,
    overlap,
)
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.extractive.question import EXACT_WEIGHT, Question, TermMatcher
from modules.llm_platform.domain.extractive.scoring import Weights, best_first, coverage, score, score_candidates, weigh
from modules.llm_platform.domain.extractive.sentences import Sentence, blocks_of

MAX_QUOTES = 3  # quotes for a question of one part
MAX_QUOTES_A_PART = 2
OTHER_SOURCE_FLOOR = 0.75  # least share of the top score for a sentence of another source than the best one
SAME_SOURCE_FLOOR = 0.7  # applies to sentences of the same source too
ANSWERS_FROM = 0.45  # least share of the terms, weighted by rarity, in all quotes together
LEADER_ANSWERS_FROM = 0.9  # least evidence of the best sentence, for a question of one part
ABOUT_WEIGHT = 0.62  # the weight of the share of sentences around it that have a term; fitted on CLAPNQ
AROUND = 8  # the sentences before and behind it, in its section or list
PART_ANSWERS_FROM = 0.3  # least share of the terms for each part of several
OTHER_PARTS_WEIGHT = 0.15  # the weight of terms of other parts
REPEATS_FROM = 0.6  # a sentence repeats another from this share of common content words in the shorter one
REPETITION_COST = 0.35
NEIGHBOUR_FLOOR = 0.2  # least share of the score of the sentence that a neighbour continues
PART_GAIN = 0.1  # least share of a part's terms that a further sentence adds
MAX_COMPARED = 30  # candidates, best first, in which conflicts and readings are detected


@dataclass(slots=True)
class Quote:
    """A selected sentence.

    `lead` and the code `above` are shown before it, the blocks `attached` after it; `also` are the indices of other sources
    with the same text.
    """

    sentence: Sentence
    source: Source
    lead: str = ""
    above: Block | None = None
    attached: tuple[Block, ...] = ()
    also: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Extraction:
    """The selected quotes in reading order, the best candidates, and all sentences of the sources."""

    quotes: list[Quote]
    candidates: list[Candidate]
    sentences: list[Candidate]


@dataclass(slots=True)
class Selection:
    """The sentences that the words of a question choose, before anything else reads them.

    - `candidates` are all sentences, and `fit` the best of them that can be quoted.
    - `chosen` are the sentences that answer by their words, none if the words are too few.
    """

    question: Question
    candidates: list[Candidate]
    fit: list[Candidate]
    chosen: list[Candidate]


def select_quotes(question: Question, sources: Sequence[Source]) -> Extraction:
    """Return the quotes that answer the question by its words; none when the sources do not answer it."""
    return quote(choose_by_words(question, sources))


def choose_by_words(question: Question, sources: Sequence[Source]) -> Selection:
    """Choose the sentences of the sources that have enough of the question's words."""
    matcher = TermMatcher(question.terms)
    candidates = find_candidates(question, sources, [blocks_of(source.text) for source in sources], matcher)
    weights = weigh(question, candidates)
    score_candidates(candidates, weights)
    chosen: list[Candidate] = []
    for part in range(len(question.parts)):
        chosen += _choose(part, question, candidates, weights, chosen)
    ranked = sorted(candidates, key=best_first)
    fit = [candidate for candidate in ranked[:MAX_COMPARED] if candidate.is_quotable]
    chosen = [
        candidate
        for candidate in chosen
        if not any(other is not candidate and _is_listed_in(other, candidate) for other in chosen)
    ]
    if coverage(chosen, weights.subject, range(len(weights.subject))) < ANSWERS_FROM or lacks_exact(question, chosen):
        chosen = []
    return Selection(question, candidates, fit, chosen)


def quote(selection: Selection) -> Extraction:
    """Return the quotes of the chosen sentences, in reading order."""
    chosen, fit = selection.chosen, selection.fit
    # Sources in the order of selection, sentences by their position in the source.
    order: dict[int, int] = {}
    for candidate in chosen:
        order.setdefault(candidate.rank, len(order))
    in_order = sorted(chosen, key=lambda candidate: (order[candidate.rank], candidate.sentence.position))
    return Extraction([quote_of(candidate, fit) for candidate in in_order], fit, selection.candidates)


def _choose(
    part: int,
    question: Question,
    candidates: Sequence[Candidate],
    weights: Weights,
    selected: Sequence[Candidate],
) -> list[Candidate]:
    """Return the sentences for one part of the question; none when `selected` answers it already, or no sentence does."""
    single, asked = len(question.parts) == 1, question.parts[part]
    focus = [weight * (1.0 if number in asked else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)]
    scores = {id(candidate): score(candidate, focus, weights, asked) for candidate in candidates}
    ranked = sorted(
        (candidate for candidate in candidates if candidate.fit and candidate.has_own_term),
        key=lambda candidate: (-scores[id(candidate)], candidate.rank),
    )
    known = coverage(selected, weights.subject, asked)
    leader = next((candidate for candidate in ranked if with_antecedent(candidate) and candidate not in selected), None)
    if leader is None:
        return []
    reach = coverage([leader, *selected], weights.subject, asked)
    answers = _is_answer(leader, question, candidates) if single else reach >= PART_ANSWERS_FROM
    if not answers or (selected and reach - known < PART_GAIN):
        return []
    behind = {id(candidate.before): candidate for candidate in candidates if candidate.before is not None}
    top, limit = scores[id(leader)], MAX_QUOTES if single else MAX_QUOTES_A_PART
    chosen: list[Candidate] = []
    for candidate in ranked:
        if len(chosen) >= limit:
            break
        floor = top * (SAME_SOURCE_FLOOR if candidate.rank == leader.rank else OTHER_SOURCE_FLOOR)
        group = [member for member in with_antecedent(candidate) if member not in chosen and member not in selected]
        repeats = max((overlap(candidate, other) for other in (*selected, *chosen)), default=0.0)
        if any(is_shown_with(other, candidate) for other in (*selected, *chosen)):
            continue
        if not group or repeats >= REPEATS_FROM or len(chosen) + len(group) > limit:
            continue
        if scores[id(candidate)] - REPETITION_COST * repeats * top >= floor:
            chosen += group
            if single and candidate.sentence.term:
                chosen += _continuation(candidate, behind, limit - len(chosen))
    return chosen


def _is_answer(leader: Candidate, question: Question, candidates: Sequence[Candidate]) -> bool:
    """Return whether the best sentence has enough of the question, and the text around it is about the question, too.

    The share of the terms is not weighted by rarity: in a text about the question its words are frequent. The entry of a
    definition list for what is asked is an answer whatever stands around it.
    """
    if question.asks_what and explains(leader.sentence, question):
        return True
    share = coverage([leader], [term.weight for term in question.terms], range(len(question.terms)))
    position = candidates.index(leader)
    nearby = candidates[max(0, position - AROUND) : position + AROUND + 1]
    around = [candidate for candidate in nearby if _section(candidate) == _section(leader)]
    about = sum(candidate.has_own_term and candidate.is_quotable for candidate in around) / len(around)
    return share + ABOUT_WEIGHT * about >= LEADER_ANSWERS_FROM


def _section(candidate: Candidate) -> tuple[int, str, str]:
    """Return its source, heading and list."""
    return candidate.rank, candidate.sentence.heading, candidate.sentence.intro


def _continuation(candidate: Candidate, behind: Mapping[int, Candidate], most: int) -> list[Candidate]:
    """Return the next sentences after one that explains a term."""
    found: list[Candidate] = []
    following = behind.get(id(candidate))
    while following is not None and len(found) < most and not (found or [candidate])[-1].attached:
        if not continues(following, candidate):
            break
        found.append(following)
        following = behind.get(id(following))
    return found


def continues(following: Candidate, candidate: Candidate) -> bool:
    """Return whether the following sentence can be quoted after this one."""
    quotable = following.is_quotable and following.sentence.is_complete and len(following.words) <= LONG_WORDS
    return quotable and (following.is_dependent or following.score >= NEIGHBOUR_FLOOR * candidate.score)


def lacks_exact(question: Question, chosen: Sequence[Candidate]) -> bool:
    """Return whether an option, sign or identifier of the question is neither in the quotes nor in their headings."""
    exact = [number for number, term in enumerate(question.terms) if term.weight >= EXACT_WEIGHT]
    return any(all(candidate.met.get(number, 0.0) < TITLE_CREDIT for candidate in chosen) for number in exact)


def _is_listed_in(selected: Candidate, candidate: Candidate) -> bool:
    return any(candidate.sentence.text in strip_markup(block.text) for block in selected.attached)


def is_shown_with(selected: Candidate, candidate: Candidate) -> bool:
    """Return whether the selected sentence comes with a table or list that contains this one."""
    return is_in_same_table(selected, candidate) or _is_listed_in(selected, candidate)


def with_antecedent(candidate: Candidate) -> list[Candidate]:
    """Return the sentence, after the one that it depends on; empty when either cannot be quoted."""
    if not candidate.is_quotable:
        return []
    if not candidate.is_dependent:
        return [candidate]
    before = candidate.before
    if (
        before is None
        or not before.is_quotable
        or before.is_dependent
        or before.attached
        or not before.sentence.is_complete
    ):
        return []
    return [before, candidate] if len(before.words) <= LONG_WORDS else []


def quote_of(candidate: Candidate, fit: Sequence[Candidate]) -> Quote:
    """Return the quote of a candidate, with the indices of other sources that have the same words."""
    same = {other.source.index for other in fit if other.rank != candidate.rank and other.words == candidate.words}
    return Quote(
        candidate.sentence, candidate.source, candidate.lead, candidate.above, candidate.attached, sorted(same)
    )
