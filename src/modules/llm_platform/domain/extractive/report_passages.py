"""Select the passages of a report that answer one question.

A passage is a run of neighbouring sentences of one page. A `PassageSelector` ranks the sentences of all pages for its question.
`SelectedPassages` has what the whole report quotes already, so that no sentence is quoted twice.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive import selection
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.candidates import TITLE_CREDIT, Candidate, match_sources
from modules.llm_platform.domain.extractive.conflicts import find_conflict
from modules.llm_platform.domain.extractive.independent_sources import Side, find_sides
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.scoring import get_rank_key, measure_coverage, score_candidates, weigh_terms
from modules.llm_platform.domain.extractive.sentence_forms import MIN_WORDS

MAX_PASSAGES_PER_HEADING = 2  # passages of a section from under one heading of a source
MAX_PASSAGE_WORDS = 110
MIN_SENTENCE_WORDS = 6  # shorter sentences are usually captions, and are used only if there is nothing else
MIN_DUPLICATE_OVERLAP = 0.8  # sentences are duplicates if they share this much of the words of the shorter one
PASSAGE_FLOOR = 0.55  # a further passage needs this share of the top score
FIRST_FLOOR = 0.25  # the first FIRST_FEW passages need less, so that a section is more than a line
FIRST_FEW = 3
FEW_TERMS = 2  # if a question has more terms, a passage needs at least two of them

Passage = Sequence[selection.Quote]
Conflict = tuple[Candidate, Candidate]


class PassageLimits(NamedTuple):
    """The most passages of a section, in all and from one source, and the most sentences of one passage.

    With `is_prose`, table rows and headings right above code or a table are left out.
    """

    passages: int
    of_a_source: int
    sentences: int
    is_prose: bool = False


SECTION_LIMITS = PassageLimits(passages=5, of_a_source=3, sentences=4)
OPENING_LIMITS = PassageLimits(passages=2, of_a_source=1, sentences=2, is_prose=True)


class SelectedPassages:
    """The sentences that the report already has, so that none is repeated."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._chosen: list[tuple[Candidate, frozenset[str]]] = []

    def add(self, chosen: Sequence[Candidate]) -> None:
        self._texts.update(candidate.sentence.text for candidate in chosen)
        self._chosen += [(candidate, frozenset(candidate.words)) for candidate in chosen]

    def add_texts(self, texts: Iterable[str]) -> None:
        self._texts.update(texts)

    def contains(self, candidate: Candidate) -> bool:
        return candidate.sentence.text in self._texts

    def is_repetition(self, candidate: Candidate) -> bool:
        """Return whether the report has this sentence, a near duplicate, or a list or table that contains it."""
        if self.contains(candidate):
            return True
        own = frozenset(candidate.words)
        enough = [MIN_DUPLICATE_OVERLAP * min(len(own), len(words)) for _, words in self._chosen]
        return any(
            (len(words) >= MIN_SENTENCE_WORDS and len(own & words) >= least)
            or selection.is_shown_with(other, candidate)
            for (other, words), least in zip(self._chosen, enough, strict=True)
        )


class PassageSelector:
    """Selects passages on one question. A passage is a run of neighbouring sentences of a page.

    The sources of a report are whole pages, so the neighbours of the best sentence say more than other good sentences.
    """

    def __init__(self, question: Question, sources: Sequence[Source], texts: Sequence[Sequence[Block]]) -> None:
        """Compare the sentences of the sources with the question. `texts` has the blocks of each source."""
        candidates = match_sources(question, sources, texts)
        self._question = question
        self._candidates = candidates
        self._weights = weigh_terms(question, candidates)
        score_candidates(candidates, self._weights)
        usable = (candidate for candidate in candidates if candidate.has_usable_form)
        self._ranked = sorted(usable, key=get_rank_key)
        self._best = [candidate for candidate in self._ranked[: selection.MAX_COMPARED] if candidate.is_quotable]
        self._following = selection.map_following(candidates)

    def is_answered(self) -> bool:
        """Return whether the sources answer the question, before passages are selected for other questions."""
        selected = SelectedPassages()
        found = [
            *(self.select_conflict(selected) or ()),
            *itertools.chain.from_iterable(self.select_passages(selected)),
        ]
        subject = self._weights.subject
        return measure_coverage(found, subject, range(len(subject))) >= selection.MIN_ANSWER_COVERAGE

    def select_conflict(self, selected: SelectedPassages) -> Conflict | None:
        """Select two sentences of different sources that contradict each other, and add them to `selected`."""
        found = find_conflict([candidate for candidate in self._best if not selected.contains(candidate)])
        if found:
            selected.add(found)
        return found

    def find_sides(self, conflict: Conflict | None) -> tuple[Side, Side] | None:
        """Return the two sides of a conflict, each with the number of independent sources that say the same."""
        return find_sides(conflict, self._candidates) if conflict else None

    def select_passages(
        self, selected: SelectedPassages, limits: PassageLimits = SECTION_LIMITS
    ) -> Iterator[Sequence[Candidate]]:
        """Yield passages, best first, and add each to `selected`. A table row can only be the first passage.

        Short sentences are only used if no longer sentence gives a passage.
        """
        ranked = self._ranked
        if limits.is_prose:
            ranked = [one for one in ranked if not one.sentence.row and not one.sentence.is_announcement]
        found = False
        for min_words in (MIN_SENTENCE_WORDS, MIN_WORDS):
            for passage in self._build_passages(ranked, selected, limits, min_words):
                found = True
                yield passage
            if found:
                return

    def _build_passages(
        self, ranked: Sequence[Candidate], selected: SelectedPassages, limits: PassageLimits, min_words: int
    ) -> Iterator[Sequence[Candidate]]:
        """Yield passages around sentences of at least `min_words`, until one scores too low or there are enough."""
        top, count = 0.0, 0
        of_source, of_heading = Counter[int](), Counter[tuple[int, str]]()  # passages that were found
        for candidate in ranked:
            floor = FIRST_FLOOR if count < FIRST_FEW else PASSAGE_FLOOR
            if count == limits.passages or candidate.score < floor * top:
                break
            source, heading = candidate.source_rank, (candidate.source_rank, candidate.sentence.heading)
            is_exhausted = of_source[source] >= limits.of_a_source or of_heading[heading] >= MAX_PASSAGES_PER_HEADING
            is_late_row = count and candidate.sentence.row
            if is_exhausted or is_late_row or not _can_lead(candidate, min_words) or selected.is_repetition(candidate):
                continue
            passage = _extend_passage(candidate, selected, self._following, limits.sentences)
            if passage and self._is_about_question(passage):
                top = max(top, candidate.score)
                count += 1
                of_source[source] += 1
                of_heading[heading] += bool(candidate.sentence.heading)
                selected.add(passage)
                yield passage

    def make_passages(self, found: Sequence[Sequence[Candidate]]) -> tuple[Passage, ...]:
        """Return the passages in reading order: sources in the order of selection, passages in the order of their source."""
        order: dict[int, int] = {}
        for passage in found:
            order.setdefault(passage[0].source_rank, len(order))
        ordered = sorted(found, key=lambda passage: (order[passage[0].source_rank], passage[0].sentence.position))
        return tuple(tuple(selection.make_quote(candidate, self._best) for candidate in passage) for passage in ordered)

    def _is_about_question(self, passage: Sequence[Candidate]) -> bool:
        """Return whether the passage with its headings has two terms of the question, or one if the question has few."""
        matched = {
            number for candidate in passage for number, credit in candidate.credits.items() if credit >= TITLE_CREDIT
        }
        return len(matched) > 1 or len(self._question.terms) <= FEW_TERMS


def _can_lead(candidate: Candidate, min_words: int) -> bool:
    """Return whether a passage can be built around the sentence."""
    if not candidate.has_own_term or candidate.attachments or candidate.sentence.row:
        return candidate.has_own_term
    return min_words <= len(candidate.words) <= MAX_PASSAGE_WORDS


def _extend_passage(
    candidate: Candidate, selected: SelectedPassages, following: Mapping[int, Candidate], most: int
) -> list[Candidate]:
    """Return the sentence, the sentence that it depends on, and sentences that continue it, at most `most`.

    The result is empty if the sentence that it depends on cannot be quoted.
    """
    passage = [member for member in selection.add_antecedent(candidate) if not selected.contains(member)]
    if candidate not in passage or (candidate.is_dependent and len(passage) < 2):
        return []
    room = MAX_PASSAGE_WORDS - sum(len(member.words) for member in passage)
    after = following.get(id(candidate))
    while after is not None and len(passage) < most and not passage[-1].attachments:
        room -= len(after.words)
        if room < 0 or not selection.can_continue(after, candidate) or selected.is_repetition(after):
            break
        passage.append(after)
        after = following.get(id(after))
    return passage
