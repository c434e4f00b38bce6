"""Write a report without a model: under each question, it quotes the passages of pages that answer it.

A passage is a run of neighbouring sentences of one page. Each question of the report has a `PassageSelector`, which ranks the
sentences of all pages for this question. The sections take turns: each gets its best passage, then each gets its second one. No
sentence is quoted twice.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive import selection
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.candidates import TITLE_CREDIT, Candidate, find_candidates
from modules.llm_platform.domain.extractive.conflicts import find_conflict
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.rendering import render_conflict, render_quotes
from modules.llm_platform.domain.extractive.scoring import get_rank_key, measure_coverage, score_candidates, weigh_terms
from modules.llm_platform.domain.extractive.sentence_forms import MIN_WORDS
from modules.llm_platform.domain.extractive.sentences import read_source_blocks
from modules.llm_platform.domain.extractive.voices import Side, find_sides
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.text.messages import Messages
from modules.llm_platform.domain.text.sentences import is_question
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

MAX_OF_A_HEADING = 2  # passages of a section from under one heading of a source
MAX_PASSAGE_WORDS = 110
MIN_SENTENCE_WORDS = 6  # shorter sentences are usually captions, and are used only if there is nothing else
DUPLICATE_FROM = 0.8  # sentences are duplicates if they share this much of the words of the shorter one
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
        enough = [DUPLICATE_FROM * min(len(own), len(words)) for _, words in self._chosen]
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
        candidates = find_candidates(question, sources, texts)
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
        return measure_coverage(found, subject, range(len(subject))) >= selection.ANSWERS_FROM

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
            source, heading = candidate.rank, (candidate.rank, candidate.sentence.heading)
            is_exhausted = of_source[source] >= limits.of_a_source or of_heading[heading] >= MAX_OF_A_HEADING
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
            order.setdefault(passage[0].rank, len(order))
        ordered = sorted(found, key=lambda passage: (order[passage[0].rank], passage[0].sentence.position))
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


OPENING_SHARE = 0.25  # the opening may have this share of the report's tokens
MIN_SECTION_TOKENS = 120  # each section may have this many, even if the report becomes longer than its limit
LATIN_ONLY_BELOW = 0.02  # sources are in Latin script below this share of other letters
SCRIPT_SAMPLE_CHARS = 3000  # the beginning of each source in which letters are counted

_OTHER_LETTER = re.compile(r"[\u0370-\u03ff\u0400-\u1fff\u2e80-\ud7af]")
_PLACEHOLDER = re.compile(r"<[\w][\w .:/|@-]{0,60}>")


@dataclass(frozen=True, slots=True)
class SectionAnswer:
    """The passages that answer one question, best source first, and two sides that contradict each other, if any."""

    passages: tuple[Passage, ...]
    conflict: tuple[Side, Side] | None


def write_report(
    question: str,
    questions: Sequence[str],
    sources: Sequence[Source],
    language: str,
    messages: Messages,
    max_tokens: int,
    evidence: Sequence[selection.Quote] = (),
) -> str:
    """Return a report in Markdown, of at most about `max_tokens`; empty if no question is answered.

    The report has an introduction, a section for each answered question, and a list of unanswered questions. `evidence` has
    quotes that together answer the main question. If there are any, they are the introduction.
    """
    texts = [read_source_blocks(source.text) for source in sources]
    sample = "".join(source.text[:SCRIPT_SAMPLE_CHARS] for source in sources)
    is_latin = len(_OTHER_LETTER.findall(sample)) < LATIN_ONLY_BELOW * max(1, len(sample))

    def search(text: str) -> PassageSelector:
        read = read_question(text, detect_language(text) or language)
        return PassageSelector(_keep_latin_terms(read) if is_latin else read, sources, texts)

    opening, sections = _answer_questions(search(question), list(map(search, questions)), evidence)
    if not evidence and not any(sections):
        return ""
    return _render_report(opening, list(zip(map(one_line, questions), sections, strict=True)), messages, max_tokens)


def _answer_questions(
    whole: PassageSelector, parts: Sequence[PassageSelector], evidence: Sequence[selection.Quote]
) -> tuple[SectionAnswer, list[SectionAnswer | None]]:
    """Return the opening of the report, and the answer to each question; None for a question without one.

    First each question gets its best passage, then the opening gets its passages, then the questions take turns for further
    passages. If other sections have all passages on a question, its answer has no passages.
    """
    selected = SelectedPassages()
    selected.add_texts(quote.sentence.text for quote in evidence)
    sections = [_Section(part, selected) if part.is_answered() else None for part in parts]
    opening: list[Sequence[Candidate]] = []
    for turn in range(SECTION_LIMITS.passages):
        for section in filter(None, sections):
            section.add_passage()
        if not turn and not evidence and whole.is_answered():
            opening += whole.select_passages(selected, OPENING_LIMITS)
    introduction = (evidence,) if evidence else whole.make_passages(opening)
    return SectionAnswer(introduction, None), [section.make_answer() if section else None for section in sections]


class _Section:
    """The passages on one question, while the sections take turns. `selected` has the passages of all sections."""

    def __init__(self, selector: PassageSelector, selected: SelectedPassages) -> None:
        self._selector = selector
        self._conflict = selector.find_sides(selector.select_conflict(selected))
        self._remaining = selector.select_passages(selected)
        self._passages: list[Sequence[Candidate]] = []

    def add_passage(self) -> None:
        """Add the next passage, if there is one."""
        self._passages += itertools.islice(self._remaining, 1)

    def make_answer(self) -> SectionAnswer:
        return SectionAnswer(self._selector.make_passages(self._passages), self._conflict)


def _keep_latin_terms(question: Question) -> Question:
    """Return the question without terms in other scripts, which sources in Latin script cannot contain."""
    fitting = [number for number, term in enumerate(question.terms) if not _OTHER_LETTER.search(term.word)]
    if len(fitting) == len(question.terms):
        return question
    renumbered = {old: new for new, old in enumerate(fitting)}
    parts = [frozenset(renumbered[number] for number in part if number in renumbered) for part in question.parts]
    terms = tuple(question.terms[number] for number in fitting)
    return replace(question, terms=terms, parts=tuple(filter(None, parts)) or (frozenset(),))


def _render_report(
    opening: SectionAnswer, sections: Sequence[tuple[str, SectionAnswer | None]], messages: Messages, max_tokens: int
) -> str:
    blocks = [messages.quotes_only, *_take_fitting(_render_quotess(opening), round(max_tokens * OPENING_SHARE))]
    missing = [title for title, found in sections if found is None]
    answered = [(title, found) for title, found in sections if found]
    closing = _render_not_found(missing, messages)
    left = max_tokens - count_tokens("\n".join((*blocks, closing)))
    for number, (title, found) in enumerate(answered):
        share = max(MIN_SECTION_TOKENS, left // (len(answered) - number))
        quoted = _take_fitting(_render_quotess(found), share)
        if found.conflict:
            quoted += [f"### {messages.disagreements}", render_conflict(found.conflict, messages)]
        heading = title.lstrip("# ").rstrip("# ") or "…"
        section = [f"## {heading}", *(quoted or [messages.quoted_above])]
        left -= sum(map(count_tokens, section))
        blocks += section
    return "\n\n".join([*blocks, closing] if closing else blocks)


def _render_quotess(found: SectionAnswer) -> list[str]:
    """Return the text of each passage."""
    return ["\n\n".join(map(_mark_placeholders, render_quotes(passage))) for passage in found.passages]


def _mark_placeholders(block: str) -> str:
    """Turn placeholders of manuals, such as `<branch>`, into code, so that they are not read as HTML."""
    return block if "<" not in block or "`" in block else _PLACEHOLDER.sub(r"`\g<0>`", block)


def _take_fitting(blocks: Sequence[str], room: int) -> list[str]:
    """Return the first passages that fit into `room` tokens, and at least one."""
    fitting: list[str] = []
    for block in blocks:
        room -= count_tokens(block)
        if fitting and room < 0:
            break
        fitting.append(block)
    return fitting


def _render_not_found(missing: Sequence[str], messages: Messages) -> str:
    if not missing:
        return ""
    unanswered = [title if is_question(title) else f"{title}?" for title in missing]
    return "\n".join(
        [f"## {messages.not_found}", "", messages.unanswered, "", *(f"- {question}" for question in unanswered)]
    )
