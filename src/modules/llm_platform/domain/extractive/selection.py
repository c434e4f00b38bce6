"""Select the sentences of the sources that answer a question, without a model.

`choose_by_words` takes a question and sources, and returns a `Selection` of a few sentences without repetition. A sentence such
as "It weighs 9 kg" comes together with the sentence before it, or not at all. If the best sentences lack the rare words of the
question, nothing is chosen. With models, the module `reranking` may change the choice. `make_quotes` then puts the chosen
sentences in the order of their sources, and the module `rendering` writes them as Markdown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.candidates import (
    LONG_WORDS,
    TITLE_CREDIT,
    Candidate,
    is_in_same_table,
    match_sources,
    measure_overlap,
)
from modules.llm_platform.domain.extractive.dated_rows import remove_other_days
from modules.llm_platform.domain.extractive.definitions import defines_asked_term
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.extractive.question import EXACT_WEIGHT, Question
from modules.llm_platform.domain.extractive.scoring import (
    TermWeights,
    get_rank_key,
    measure_coverage,
    score_candidate,
    score_candidates,
    weigh_terms,
)
from modules.llm_platform.domain.extractive.sentences import Sentence

MAX_QUOTES = 3  # quotes for a question of one part
MAX_QUOTES_PER_PART = 2  # quotes for each part of a question of several parts
OTHER_SOURCE_FLOOR = 0.75  # a sentence of another source than the best one needs this share of the top score
SAME_SOURCE_FLOOR = 0.7  # a sentence of the same source needs this share
MIN_ANSWER_COVERAGE = 0.45  # all quotes together need this share of the terms, weighted by rarity
MIN_LEADER_SCORE = 0.9  # for a question of one part, the best sentence needs this sum (see `_is_answer`)
ABOUT_WEIGHT = 0.62  # weight of the share of nearby sentences that have a term; fitted on CLAPNQ
AROUND = 8  # this many sentences on each side are nearby, if they are in the same section or list
MIN_PART_COVERAGE = 0.3  # each of several parts needs this share of its terms
OTHER_PARTS_WEIGHT = 0.15  # the weight of terms that belong to other parts
MIN_REPETITION_OVERLAP = (
    0.6  # sentences repeat each other if they share this much of the content words of the shorter one
)
REPETITION_COST = 0.35  # the score that a full repetition would cost, as a share of the top score
NEIGHBOUR_FLOOR = 0.2  # a sentence continues the one before only with this share of its score
PART_GAIN = 0.1  # a sentence for a further part must add this share of the part's terms
MAX_COMPARED = 30  # the best candidates, among which conflicts and the meanings of a term are looked for


@dataclass(slots=True)
class Quote:
    """A selected sentence.

    - `lead` and the code `above` are shown before the sentence, and the blocks of `attachments` after it.
    - `also` has the indices of other sources with the same text.
    """

    sentence: Sentence
    source: Source
    lead: str = ""
    above: Block | None = None
    attachments: tuple[Block, ...] = ()
    also: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Selection:
    """The sentences that are chosen by the words of the question, before a model reads any.

    - `candidates` are all sentences of the sources, and `best` are the best ones that can be quoted.
    - `chosen` are the sentences that answer. It is empty if the sentences have too few words of the question.
    """

    question: Question
    candidates: list[Candidate]
    best: list[Candidate]
    chosen: list[Candidate]


def select_quotes(question: Question, sources: Sequence[Source]) -> list[Quote]:
    """Return the quotes that answer the question, chosen by keywords; empty if the sources do not answer it."""
    return make_quotes(choose_by_words(question, sources))


def choose_by_words(question: Question, sources: Sequence[Source]) -> Selection:
    """Choose the sentences of the sources that have enough of the question's words."""
    candidates = match_sources(question, sources)
    found = remove_other_days(question, [candidate for candidate in candidates if candidate.is_found])
    weights = weigh_terms(question, found)
    score_candidates(candidates, weights)
    chosen: list[Candidate] = []
    for part in question.parts:
        chosen += _PartSelector(question, part, found, weights, chosen).select()
    chosen = [one for one in chosen if not any(other is not one and _is_listed_in(other, one) for other in chosen)]
    covered = measure_coverage(chosen, weights.subject, range(len(weights.subject)))
    if covered < MIN_ANSWER_COVERAGE or lacks_exact(question, chosen):
        chosen = []
    ranked = sorted(candidates, key=get_rank_key)
    best = [candidate for candidate in ranked[:MAX_COMPARED] if candidate.is_quotable]
    return Selection(question, candidates, best, chosen)


def make_quotes(selection: Selection) -> list[Quote]:
    """Return the quotes of the chosen sentences: sources in the order of selection, sentences in the order of their source."""
    order: dict[int, int] = {}
    for candidate in selection.chosen:
        order.setdefault(candidate.source_rank, len(order))
    in_order = sorted(
        selection.chosen, key=lambda candidate: (order[candidate.source_rank], candidate.sentence.position)
    )
    return [make_quote(candidate, selection.best) for candidate in in_order]


class _PartSelector:
    """Selects the sentences for one part of a question.

    `part` has the indices of its terms, and `selected` the sentences that were selected for earlier parts.
    """

    def __init__(
        self,
        question: Question,
        part: frozenset[int],
        candidates: Sequence[Candidate],
        weights: TermWeights,
        selected: Sequence[Candidate],
    ) -> None:
        self._question, self._part, self._candidates = question, part, candidates
        self._weights, self._selected = weights, selected
        self._is_only_part = len(question.parts) == 1
        focus = [
            weight * (1.0 if number in part else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)
        ]
        self._scores = {id(candidate): score_candidate(candidate, focus, weights, part) for candidate in candidates}

    def select(self) -> list[Candidate]:
        """Return the sentences; empty if `selected` already answers the part, or if no sentence does."""
        ranked = sorted(
            (candidate for candidate in self._candidates if candidate.has_usable_form and candidate.has_own_term),
            key=lambda candidate: (-self._scores[id(candidate)], candidate.source_rank),
        )
        leader = next((one for one in ranked if add_antecedent(one) and one not in self._selected), None)
        if leader is None or not self._adds_answer(leader):
            return []
        following = map_following(self._candidates)
        limit = MAX_QUOTES if self._is_only_part else MAX_QUOTES_PER_PART
        chosen: list[Candidate] = []
        for candidate in ranked:
            if len(chosen) >= limit:
                break
            known = (*self._selected, *chosen)
            group = [member for member in add_antecedent(candidate) if member not in known]
            if group and len(chosen) + len(group) <= limit and self._is_worth_adding(candidate, leader, known):
                chosen += group
                if self._is_only_part and candidate.sentence.term:
                    chosen += _find_continuation(candidate, following, limit - len(chosen))
        return chosen

    def _adds_answer(self, leader: Candidate) -> bool:
        """Return whether the best sentence answers the part, and says more on it than the selected sentences."""
        subject = self._weights.subject
        covered = measure_coverage([leader, *self._selected], subject, self._part)
        if self._selected and covered - measure_coverage(self._selected, subject, self._part) < PART_GAIN:
            return False
        return (
            _is_answer(leader, self._question, self._candidates) if self._is_only_part else covered >= MIN_PART_COVERAGE
        )

    def _is_worth_adding(self, candidate: Candidate, leader: Candidate, known: Sequence[Candidate]) -> bool:
        """Return whether the sentence scores nearly as high as the best one, and repeats no known sentence."""
        repeated = max((measure_overlap(candidate, other) for other in known), default=0.0)
        if repeated >= MIN_REPETITION_OVERLAP or any(is_shown_with(other, candidate) for other in known):
            return False
        top = self._scores[id(leader)]
        floor = top * (SAME_SOURCE_FLOOR if candidate.source_rank == leader.source_rank else OTHER_SOURCE_FLOOR)
        return self._scores[id(candidate)] - REPETITION_COST * repeated * top >= floor


def _is_answer(leader: Candidate, question: Question, candidates: Sequence[Candidate]) -> bool:
    """Return whether the best sentence has enough of the terms, and enough of the nearby sentences have one.

    Terms are not weighted by rarity, because they are frequent in a text about the question. A definition of what is asked is
    always an answer.
    """
    if question.asks_what and defines_asked_term(leader.sentence, question):
        return True
    share = measure_coverage([leader], [term.weight for term in question.terms], range(len(question.terms)))
    position = candidates.index(leader)
    nearby = candidates[max(0, position - AROUND) : position + AROUND + 1]
    around = [candidate for candidate in nearby if _get_section(candidate) == _get_section(leader)]
    about = sum(candidate.has_own_term and candidate.is_quotable for candidate in around) / len(around)
    return share + ABOUT_WEIGHT * about >= MIN_LEADER_SCORE


def _get_section(candidate: Candidate) -> tuple[int, str, str]:
    """Return what identifies the section of a sentence: its source, heading and list."""
    return candidate.source_rank, candidate.sentence.heading, candidate.sentence.intro


def map_following(candidates: Sequence[Candidate]) -> dict[int, Candidate]:
    """Map the `id` of each sentence to the sentence right after it."""
    return {id(candidate.before): candidate for candidate in candidates if candidate.before is not None}


def _find_continuation(candidate: Candidate, following: Mapping[int, Candidate], most: int) -> list[Candidate]:
    """Return at most `most` sentences that continue the explanation of a term."""
    found: list[Candidate] = []
    last = candidate
    while len(found) < most and not last.attachments and (after := following.get(id(last))) is not None:
        if not can_continue(after, candidate):
            break
        found.append(after)
        last = after
    return found


def can_continue(following: Candidate, candidate: Candidate) -> bool:
    """Return whether the following sentence can be quoted as the continuation of this sentence."""
    quotable = following.is_quotable and following.sentence.is_complete and len(following.words) <= LONG_WORDS
    return quotable and (following.is_dependent or following.score >= NEIGHBOUR_FLOOR * candidate.score)


def lacks_exact(question: Question, chosen: Sequence[Candidate]) -> bool:
    """Return whether the quotes and their headings lack an option, symbol or identifier of the question."""
    exact = [number for number, term in enumerate(question.terms) if term.weight >= EXACT_WEIGHT]
    return any(all(candidate.credits.get(number, 0.0) < TITLE_CREDIT for candidate in chosen) for number in exact)


def _is_listed_in(selected: Candidate, candidate: Candidate) -> bool:
    return any(candidate.sentence.text in strip_markup(block.text) for block in selected.attachments)


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
        or before.attachments
        or not before.sentence.is_complete
    ):
        return []
    return [before, candidate] if len(before.words) <= LONG_WORDS else []


def make_quote(candidate: Candidate, best: Sequence[Candidate]) -> Quote:
    """Return the quote of a candidate, with the indices of other sources among the `best` that have the same words."""
    same = {
        other.source.index
        for other in best
        if other.source_rank != candidate.source_rank and other.words == candidate.words
    }
    return Quote(
        candidate.sentence, candidate.source, candidate.lead, candidate.form.above, candidate.attachments, sorted(same)
    )
