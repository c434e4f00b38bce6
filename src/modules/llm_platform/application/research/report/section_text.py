"""The text of a report while its sections are written one by one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.application.research.write.writing import UNFINISHED
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.degraded import deduplicate_degraded
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.report import render_not_found, render_section_heading
from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.markdown.markers import renumber_markers
from modules.llm_platform.domain.markdown.outline import heading_title, read_outline
from modules.llm_platform.domain.markdown.unwrapping import FenceRemover
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.tokens import fold
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

COMPLETE: Final = "stop"  # the finish reason of a whole text
MIN_HEADING_LEVEL: Final = 3  # of headings inside a section, whose own heading has level 2
_SENTENCE_SIGNS: Final = " ?.!:;؟।。¿¡"
_EMPHASIS: Final = "*_# "


class Section(NamedTuple):
    """The answer to a question of the report. `is_quoted` is True if it consists of quotes."""

    question: str
    answer: Synthesis
    is_quoted: bool


class SectionedText:
    """Joins the answers to the main question and to its sub-questions.

    The answer to the main question has no heading. Questions without an answer are listed at the end. If no question has one,
    the text only says so.
    """

    def __init__(self, question: str, sources: Sequence[Source], language: str) -> None:
        self._question = question
        self._numbers = [source.index for source in sources]
        self._messages = get_messages(language)
        self._answers: list[Synthesis] = []
        self._by_model: list[Synthesis] = []
        self._parts: list[str] = []
        self._known: set[str] = set()
        self._unanswered: list[str] = []

    def add(self, section: Section) -> str:
        """Return what the text gains; empty without an answer. An answer that was written before is not repeated."""
        question, answer, is_quoted = section
        self._answers.append(answer)
        if not is_quoted:
            self._by_model.append(answer)
        text = self._clean(question, answer.text) if answer.answered else ""
        if not text:
            self._unanswered.append(one_line(question))
            return ""
        known = fold_text(renumber_markers(text, {}))
        if known in self._known:
            text = self._messages.quoted_above
        elif is_quoted:
            text = f"{self._messages.quotes_only}\n\n{text}"
        self._known.add(known)
        return self._append([text] if question == self._question else [render_section_heading(question), text])

    def finish(self) -> str:
        """Return the end of the text: the questions without an answer, or that there is none."""
        if not self._parts:
            return self._append([self._messages.not_answered])
        return self._append(filter(None, [render_not_found(self._unanswered, self._messages)]))

    def make_synthesis(self) -> Synthesis:
        """Return the finished text. What its answers cost is in the budget of the report."""
        first = self._answers[0]
        reasons = [answer.finish_reason for answer in self._answers if answer.finish_reason != COMPLETE]
        return Synthesis(
            text="".join(self._parts),
            synthesizer=(self._by_model or self._answers)[0].synthesizer,
            answered=len(self._unanswered) < len(self._answers),
            closest=first.closest,
            truncated_tokens=sum(answer.truncated_tokens for answer in self._answers),
            finish_reason=min(reasons, key=lambda reason: reason not in UNFINISHED, default=COMPLETE),
            degraded=deduplicate_degraded(entry for answer in self._answers for entry in answer.degraded),
        )

    def _append(self, blocks: Iterable[str]) -> str:
        text = "".join(f"\n\n{block}" for block in blocks)
        text = text if self._parts else text.lstrip("\n")
        if text:
            self._parts.append(text)
        return text

    def _clean(self, question: str, text: str) -> str:
        """Return an answer that can stand below a heading, and above another one.

        It is in no fence of its own, it does not begin with its question, its headings are below the heading of the section,
        and its code ends.
        """
        remover = FenceRemover(self._numbers)
        unwrapped = (remover.feed(text) + remover.finish()).strip()
        first, _, rest = unwrapped.partition("\n")
        if fold_text(renumber_markers(first, {}).strip(_EMPHASIS)) == fold_text(question):
            unwrapped = rest
        return _close_code("".join(_lower_headings(unwrapped)).strip())


def fold_text(text: str) -> str:
    """Return the text for a comparison of whole texts: folded, without the signs of a sentence around it."""
    return " ".join(fold(text).split()).strip(_SENTENCE_SIGNS)


def _lower_headings(text: str) -> Iterator[str]:
    end = 0
    for block in read_outline(text):
        yield text[end : block.start]
        end = block.end
        written = text[block.start : end]
        if block.kind == "heading":
            yield f"{'#' * max(block.level, MIN_HEADING_LEVEL)} {heading_title(written)}\n"
        else:
            yield written
    yield text[end:]


def _close_code(text: str) -> str:
    """Return the text with an end for a fence at the margin. What follows ends a list or a quote, and the fence in it."""
    blocks = BlockTracker()
    for line in text.split("\n"):
        blocks.take(expand_tabs(line))
    fence = blocks.fence
    return text if fence is None or fence.depth else f"{text}\n{fence.run}"
