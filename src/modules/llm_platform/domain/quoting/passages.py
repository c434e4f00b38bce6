"""Choose for one question of a report the passages that answer it: runs of neighbouring sentences of whole pages.

A report has more room than an answer and its sources are pages, so that the neighbours of the best sentence are worth more
than the next best sentences elsewhere. No sentence is taken twice in a whole report.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.quoting.blocks import Block, ends_like_a_sentence
from modules.llm_platform.domain.quoting.candidates import MIN_WORDS, TITLE_CREDIT, Candidate, find_candidates
from modules.llm_platform.domain.quoting.choice import (
    ANSWERS_FROM,
    LOOKED_AT,
    OTHER_PARTS_WEIGHT,
    Quote,
    group_of,
    says_the_same,
    shows,
)
from modules.llm_platform.domain.quoting.conflicts import find_conflict
from modules.llm_platform.domain.quoting.question import Question, TermMatcher
from modules.llm_platform.domain.quoting.scores import Weights, coverage, judge_passages, score, subjects, weigh
from modules.llm_platform.domain.quoting.shape import LONG_WORDS

MAX_PASSAGES = 5  # of one section
MAX_SENTENCES = 4  # of one passage
MAX_OF_A_SOURCE = 3  # passages of one section
MAX_OF_A_HEADING = 2  # and below one heading of a source
MAX_PASSAGE_WORDS = 110
MIN_SENTENCE_WORDS = 6  # a shorter one is a caption most often: taken where there is nothing else
MAX_FRAGMENT_WORDS = 25  # a longer one that does not end like a sentence is a table of contents
REPEATS_FROM = 0.8  # of the words of the shorter sentence
PASSAGE_FLOOR = 0.55  # of the top score: what a further passage needs
FIRST_FLOOR = 0.25  # and what the first few need, so that a section is more than a line
FIRST_FEW = 3
NEIGHBOUR_FLOOR = 0.2  # of the score of the sentence that a neighbour is taken with
FEW_TERMS = 2  # a question of more is not answered where only one of them stands

_SECTION_NUMBER = re.compile(r"\A\d+(?:\.\d+)*\.?\s+(?=[^\W\d])")

Passage = Sequence[Quote]
Conflict = tuple[Candidate, Candidate]


class Taken:
    """What a report holds so far."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._chosen: list[tuple[Candidate, frozenset[str]]] = []

    def add(self, chosen: Sequence[Candidate]) -> None:
        self._texts.update(one.sentence.text for one in chosen)
        self._chosen += [(one, frozenset(one.words)) for one in chosen]

    def holds(self, one: Candidate) -> bool:
        return one.sentence.text in self._texts

    def repeats(self, one: Candidate) -> bool:
        """Whether the report says it already, in these words or much the same, or shows it in a list or table."""
        if self.holds(one):
            return True
        own = frozenset(one.words)
        enough = [REPEATS_FROM * min(len(own), len(words)) for _, words in self._chosen]
        return any(
            (len(words) >= MIN_SENTENCE_WORDS and len(own & words) >= least) or shows(other, one)
            for (other, words), least in zip(self._chosen, enough, strict=True)
        )


class Search:
    """What the pages hold on one question; found once, chosen from as often as need be."""

    def __init__(self, question: Question, sources: Sequence[Source], texts: Sequence[Sequence[Block]]) -> None:
        """`texts` are the blocks of the sources."""
        matcher = TermMatcher(question.terms)
        candidates = find_candidates(question, sources, texts, matcher)
        self._question = question
        self._weights = weigh(question, candidates, subjects(sources, matcher))
        judge_passages(candidates, self._weights)
        fit = (one for one in candidates if one.fit)
        self._ranked = sorted(fit, key=lambda one: (-one.score, one.rank, one.sentence.position))
        self._near = [one for one in self._ranked[:LOOKED_AT] if one.tells]
        self._behind = {id(one.before): one for one in candidates if one.before is not None}

    def is_answered(self) -> bool:
        """Whether the sources answer the question at all, when it has them to itself."""
        taken = Taken()
        found = [*(self.conflict(taken) or ()), *(one for run in self.passages(taken) for one in run)]
        subject = self._weights.subject
        return coverage(found, subject, range(len(subject))) >= ANSWERS_FROM

    def conflict(self, taken: Taken) -> Conflict | None:
        """Two sentences of different sources that contradict each other; they are taken with it."""
        found = find_conflict([one for one in self._near if not taken.holds(one)])
        if found:
            taken.add(found)
        return found

    def passages(
        self, taken: Taken, *, most: int = MAX_PASSAGES, sentences: int = MAX_SENTENCES, opening: bool = False
    ) -> Iterator[Sequence[Candidate]]:
        """Best first, at most `most` of at most `sentences`; each is taken when it is asked for, if nobody else has it then.

        A row without the rest of its table is a passage only where it answers best of all. `opening`: the beginning of a
        report is prose, neither rows nor headings above a table or code, and takes one passage of a source.
        """
        ranked, of_a_source = [*self._leaders(), *self._ranked], MAX_OF_A_SOURCE
        if opening:
            ranked = [one for one in ranked if not one.sentence.row and not one.sentence.announces]
            of_a_source = 1
        found = False
        for shortest in (MIN_SENTENCE_WORDS, MIN_WORDS):
            for run in self._choose(ranked, taken, shortest, most, sentences, of_a_source):
                found = True
                yield run
            if found:
                return

    def _choose(
        self, ranked: Sequence[Candidate], taken: Taken, shortest: int, most: int, sentences: int, of_a_source: int
    ) -> Iterator[Sequence[Candidate]]:
        top, count = 0.0, 0
        below: Counter[tuple[int, str]] = Counter()  # source and heading; the empty one is the whole source
        for one in ranked:
            floor = FIRST_FLOOR if count < FIRST_FEW else PASSAGE_FLOOR
            if count == most or one.score < floor * top:
                break
            here = (one.rank, one.sentence.heading)
            enough = below[one.rank, ""] >= of_a_source or (here[1] and below[here] >= MAX_OF_A_HEADING)
            stray = count and one.sentence.row
            if enough or stray or not _can_lead(one, shortest) or taken.repeats(one):
                continue
            run = _run(one, taken, self._behind, sentences)
            if run and self._is_about_it(run):
                top = max(top, one.score)
                count += 1
                below.update({here, (one.rank, "")})
                taken.add(run)
                yield run

    def quoted(self, runs: Sequence[Sequence[Candidate]]) -> tuple[Passage, ...]:
        """Passages to be read: sources as they were first chosen from, passages as they stand in their source."""
        order: dict[int, int] = {}
        for run in runs:
            order.setdefault(run[0].rank, len(order))
        told = sorted(runs, key=lambda run: (order[run[0].rank], run[0].sentence.position))
        return tuple(tuple(_quote(one, self._near) for one in run) for run in told)

    def _leaders(self) -> Iterator[Candidate]:
        """The best sentence for each part of a question that asks several things."""
        parts, weights = self._question.parts, self._weights
        if len(parts) < 2:
            return
        fit = [one for one in self._near if _can_lead(one, MIN_SENTENCE_WORDS) and group_of(one)]
        for part, asked in enumerate(parts if fit else ()):
            focus = _focus(weights, asked)
            yield max(fit, key=lambda one: score(one, focus, weights, asked, part))

    def _is_about_it(self, run: Sequence[Candidate]) -> bool:
        """Whether the passage, with its headings, holds more than one of the words of a question of several."""
        met = {number for one in run for number, credit in one.met.items() if credit >= TITLE_CREDIT}
        return len(met) > 1 or len(self._question.terms) <= FEW_TERMS


def _focus(weights: Weights, asked: frozenset[int]) -> list[float]:
    return [weight * (1.0 if number in asked else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)]


def _can_lead(one: Candidate, shortest: int) -> bool:
    if not one.direct or one.follows or one.sentence.row:
        return one.direct
    longest = MAX_PASSAGE_WORDS if ends_like_a_sentence(one.sentence.text) else MAX_FRAGMENT_WORDS
    return shortest <= len(one.words) <= longest


def _run(one: Candidate, taken: Taken, behind: Mapping[int, Candidate], most: int) -> list[Candidate]:
    """The sentence, the one that it hangs on, and those behind it that go on with it; none where it cannot stand."""
    run = [member for member in group_of(one) if not taken.holds(member)]
    if one not in run or (one.hanging and len(run) < 2):
        return []
    room = MAX_PASSAGE_WORDS - sum(len(member.words) for member in run)
    following = behind.get(id(one))
    while following is not None and len(run) < most and not run[-1].follows:
        room -= len(following.words)
        if room < 0 or not _goes_on(following, one) or taken.repeats(following):
            break
        run.append(following)
        following = behind.get(id(following))
    return run


def _goes_on(following: Candidate, one: Candidate) -> bool:
    whole = following.tells and following.sentence.whole and len(following.words) <= LONG_WORDS
    return whole and (following.hanging or following.score >= NEIGHBOUR_FLOOR * one.score)


def _quote(one: Candidate, near: Sequence[Candidate]) -> Quote:
    lead = _SECTION_NUMBER.sub("", one.lead)
    return Quote(one.sentence, one.source, lead, one.above, one.follows, says_the_same(one, near))
