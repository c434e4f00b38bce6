"""Write a report without a model: under each question, it quotes the passages of pages that answer it.

The sections take turns: each gets its best passage, then each gets its second one. No sentence is quoted twice.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.independent_sources import Side
from modules.llm_platform.domain.extractive.question import Question, read_question_as_written
from modules.llm_platform.domain.extractive.rendering import render_conflict, render_quotes
from modules.llm_platform.domain.extractive.report_passages import (
    OPENING_LIMITS,
    SECTION_LIMITS,
    Passage,
    PassageSelector,
    SelectedPassages,
)
from modules.llm_platform.domain.extractive.selection import Quote
from modules.llm_platform.domain.extractive.sentences import read_source_blocks
from modules.llm_platform.domain.markdown.markers import NO_MARKERS
from modules.llm_platform.domain.markdown.outline import heading_title
from modules.llm_platform.domain.text.messages import Messages
from modules.llm_platform.domain.text.sentences import is_question
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

OPENING_SHARE = 0.25  # the opening may have this share of the report's tokens
MIN_SECTION_TOKENS = 120  # each section may have this many, even if the report becomes longer than its limit
LATIN_ONLY_BELOW = 0.02  # sources are in Latin script if fewer of their characters than this share are other letters
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
    evidence: Sequence[Quote] = (),
) -> str:
    """Return a report in Markdown, of at most about `max_tokens`; empty if no question is answered.

    The report has an introduction, a section for each answered question, and a list of unanswered questions. `evidence` has
    quotes that together answer the main question. If there are any, they are the introduction.
    """
    texts = [read_source_blocks(source.text) for source in sources]
    is_latin = _are_latin(sources)

    def search(text: str) -> PassageSelector:
        read = read_question_as_written(text, language)
        return PassageSelector(_keep_latin_terms(read) if is_latin else read, sources, texts)

    opening, sections = _answer_questions(search(question), list(map(search, questions)), evidence)
    if not evidence and not any(sections):
        return ""
    return _render_report(opening, list(zip(map(one_line, questions), sections, strict=True)), messages, max_tokens)


def _answer_questions(
    whole: PassageSelector, parts: Sequence[PassageSelector], evidence: Sequence[Quote]
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


def _are_latin(sources: Sequence[Source]) -> bool:
    """Return whether the sources are in Latin script, by the letters at the beginning of each."""
    sample = "".join(source.text[:SCRIPT_SAMPLE_CHARS] for source in sources)
    return len(_OTHER_LETTER.findall(sample)) < LATIN_ONLY_BELOW * max(1, len(sample))


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
    blocks = [messages.quotes_only, *_take_fitting(_render_passages(opening), round(max_tokens * OPENING_SHARE))]
    missing = [title for title, found in sections if found is None]
    answered = [(title, found) for title, found in sections if found]
    closing = render_not_found(missing, messages)
    left = max_tokens - count_tokens("\n".join((*blocks, closing)))
    for number, (title, found) in enumerate(answered):
        share = max(MIN_SECTION_TOKENS, left // (len(answered) - number))
        quoted = _take_fitting(_render_passages(found), share)
        if found.conflict:
            quoted += [f"### {messages.disagreements}", render_conflict(found.conflict, messages)]
        section = [render_section_heading(title), *(quoted or [messages.quoted_above])]
        left -= sum(map(count_tokens, section))
        blocks += section
    return "\n\n".join([*blocks, closing] if closing else blocks)


def _render_passages(found: SectionAnswer) -> list[str]:
    """Return the text of each passage."""
    return ["\n\n".join(map(_mark_placeholders, render_quotes(passage))) for passage in found.passages]


def _mark_placeholders(block: str) -> str:
    """Turn placeholders of manuals, such as `<branch>`, into code, so that they are not read as HTML."""
    return block if "<" not in block or "`" in block else _PLACEHOLDER.sub(r"`\g<0>`", block)


def _take_fitting(blocks: Sequence[str], max_tokens: int) -> list[str]:
    """Return the first passages that fit into `max_tokens`, and at least one."""
    fitting: list[str] = []
    for block in blocks:
        max_tokens -= count_tokens(block)
        if fitting and max_tokens < 0:
            break
        fitting.append(block)
    return fitting


def render_section_heading(question: str) -> str:
    """Return the heading of a section. Brackets are replaced, because a number in them would cite a source."""
    title = heading_title(one_line(question)).translate(NO_MARKERS)
    return f"## {title or '…'}"


def render_not_found(missing: Sequence[str], messages: Messages) -> str:
    """Return the section that lists the unanswered questions; empty if there are none."""
    if not missing:
        return ""
    unanswered = [title if is_question(title) else f"{title}?" for title in missing]
    return "\n".join(
        [f"## {messages.not_found}", "", messages.unanswered, "", *(f"- {question}" for question in unanswered)]
    )
