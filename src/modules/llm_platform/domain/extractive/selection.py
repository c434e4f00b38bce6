"""Select the sentences of the sources that answer a question, without a model.

The result has a few of the best sentences, without repetition, in the order of their sources. A sentence that depends on the
sentence before it is selected together with that sentence. If the best sentences lack the rare words of the question, nothing
is selected.
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
from modules.llm_platform.domain.extractive.sentences import Sentence, read_source_blocks

MAX_QUOTES = 3  # quotes for a question of one part
MAX_QUOTES_A_PART = 2
OTHER_SOURCE_FLOOR = 0.75  # a sentence of another source than the best one needs this share of the top score
SAME_SOURCE_FLOOR = 0.7  # a sentence of the same source needs this share
ANSWERS_FROM = 0.45  # all quotes together need this share of the terms, weighted by rarity
LEADER_ANSWERS_FROM = 0.9  # for a question of one part, the best sentence needs this sum (see `_is_answer`)
ABOUT_WEIGHT = 0.62  # weight of the share of nearby sentences that have a term; fitted on CLAPNQ
AROUND = 8  # this many sentences on each side are nearby, if they are in the same section or list
PART_ANSWERS_FROM = 0.3  # each of several parts needs this share of its terms
OTHER_PARTS_WEIGHT = 0.15  # the weight of terms that belong to other parts
REPEATS_FROM = 0.6  # sentences repeat each other if they share this much of the content words of the shorter one
REPETITION_COST = 0.35  # the score that a full repetition would cost, as a share of the top score
NEIGHBOUR_FLOOR = 0.2  # a sentence continues the one before only with this share of its score
PART_GAIN = 0.1  # a sentence for a further part must add this share of the part's terms
MAX_COMPARED = 30  # conflicts and readings are looked for in this many candidates, best first


@dataclass(slots=True)
class Quote:
    """A selected sentence.

    - `lead` and the code `above` are shown before the sentence, and the blocks `attached` after it.
    - `also` has the indices of other sources with the same text.
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
    """The sentences that are chosen by the words of the question, before a model reads any.

    - `candidates` are all sentences, and `fit` are the best ones that can be quoted.
    - `chosen` are the sentences that answer. It is empty if the sentences have too few words of the question.
    """

    question: Question
    candidates: list[Candidate]
    fit: list[Candidate]
    chosen: list[Candidate]


def select_quotes(question: Question, sources: Sequence[Source]) -> Extraction:
    """Return the quotes that answer the question, chosen by words; empty if the sources do not answer it."""
    return quote(choose_by_words(question, sources))


def choose_by_words(question: Question, sources: Sequence[Source]) -> Selection:
    """Choose the sentences of the sources that have enough of the question's words."""
    matcher = TermMatcher(question.terms)
    candidates = find_candidates(question, sources, [read_source_blocks(source.text) for source in sources], matcher)
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
    return Extraction([make_quote(candidate, fit) for candidate in in_order], fit, selection.candidates)


def _choose(
    part: int,
    question: Question,
    candidates: Sequence[Candidate],
    weights: Weights,
    selected: Sequence[Candidate],
) -> list[Candidate]:
    """Return the sentences for one part of the question; empty if `selected` already answers it, or no sentence does."""
    single, asked = len(question.parts) == 1, question.parts[part]
    focus = [weight * (1.0 if number in asked else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)]
    scores = {id(candidate): score(candidate, focus, weights, asked) for candidate in candidates}
    ranked = sorted(
        (candidate for candidate in candidates if candidate.fit and candidate.has_own_term),
        key=lambda candidate: (-scores[id(candidate)], candidate.rank),
    )
    known = coverage(selected, weights.subject, asked)
    leader = next((candidate for candidate in ranked if add_antecedent(candidate) and candidate not in selected), None)
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
        group = [member for member in add_antecedent(candidate) if member not in chosen and member not in selected]
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
    """Return whether the best sentence has enough of the terms, and enough of the nearby sentences have one.

    Terms are not weighted by rarity, because they are frequent in a text about the question. A definition of what is asked is
    always an answer.
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
    """Return what identifies the section of a sentence: its source, heading and list."""
    return candidate.rank, candidate.sentence.heading, candidate.sentence.intro


def _continuation(candidate: Candidate, behind: Mapping[int, Candidate], most: int) -> list[Candidate]:
    """Return at most `most` sentences that continue the explanation of a term."""
    found: list[Candidate] = []
    following = behind.get(id(candidate))
    while following is not None and len(found) < most and not (found or [candidate])[-1].attached:
        if not continues(following, candidate):
            break
        found.append(following)
        following = behind.get(id(following))
    return found


def continues(following: Candidate, candidate: Candidate) -> bool:
    """Return whether the following sentence can be quoted as the continuation of this sentence."""
    quotable = following.is_quotable and following.sentence.is_complete and len(following.words) <= LONG_WORDS
    return quotable and (following.is_dependent or following.score >= NEIGHBOUR_FLOOR * candidate.score)


def lacks_exact(question: Question, chosen: Sequence[Candidate]) -> bool:
    """Return whether the quotes and their headings lack an option, sign or identifier of the question."""
    exact = [number for number, term in enumerate(question.terms) if term.weight >= EXACT_WEIGHT]
    return any(all(candidate.met.get(number, 0.0) < TITLE_CREDIT for candidate in chosen) for number in exact)


def _is_listed_in(selected: Candidate, candidate: Candidate) -> bool:
    return any(candidate.sentence.text in strip_markup(block.text) for block in selected.attached)


def is_shown_with(selected: Candidate, candidate: Candidate) -> bool:
    """Return whether the selected sentence comes with a table or list that contains this one."""
    return is_in_same_table(selected, candidate) or _is_listed_in(selected, candidate)


def add_antecedent(candidate: Candidate) -> list[Candidate]:
    """Return the sentence, preceded by the sentence that it depends on; empty if one of them cannot be quoted."""
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


def make_quote(candidate: Candidate, fit: Sequence[Candidate]) -> Quote:
    """Return the quote of a candidate, with the indices of other sources that have the same words."""
    same = {other.source.index for other in fit if other.rank != candidate.rank and other.words == candidate.words}
    return Quote(
        candidate.sentence, candidate.source, candidate.lead, candidate.above, candidate.attached, sorted(same)
    )
