"""The text of a report while its sections are written one by one."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from modules.llm_platform.application.research.write.writing import UNFINISHED
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.degraded import deduplicate_degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.report import render_not_found, render_section_heading
from modules.llm_platform.domain.markdown.blocks import Fence
from modules.llm_platform.domain.markdown.markers import renumber_markers
from modules.llm_platform.domain.markdown.outline import heading_title, read_outline
from modules.llm_platform.domain.markdown.unwrapping import FenceRemover
from modules.llm_platform.domain.ports.synthesizer import EXTRACTIVE
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.tokens import fold
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

COMPLETE: Final = "stop"  # the finish reason of a whole text
LEAST_LEVEL: Final = 3  # of headings inside a section, whose own heading has level 2
_QUESTION_ENDS: Final = " ?？.。!:："
_OPENING_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")


class SectionedText:
    """Joins the answers to the main question and to its sub-questions.

    The answer to the main question has no heading. Questions without an answer are listed at the end. If no question has one,
    the text only says so.
    """

    def __init__(self, question: str, sources: Sequence[Source], language: str) -> None:
        self._question = question
        self._numbers = [source.index for source in sources]
        self._messages = get_messages(language)
        self._written: list[Synthesis] = []
        self._parts: list[str] = []
        self._known: set[str] = set()
        self._unanswered: list[str] = []

    def add(self, question: str, answer: Synthesis) -> str:
        """Return what the text gains; empty without an answer. An answer that was written before is not repeated."""
        self._written.append(answer)
        if not answer.answered:
            self._unanswered.append(question)
            return ""
        text = self._clean(question, answer.text)
        known = fold_text(renumber_markers(text, {}))
        if known in self._known:
            text = self._messages.quoted_above
        elif answer.synthesizer == EXTRACTIVE:
            text = f"{self._messages.quotes_only}\n\n{text}"
        self._known.add(known)
        return self._append([text] if question == self._question else [render_section_heading(question), text])

    def finish(self) -> str:
        """Return the end of the text: the questions without an answer, or that there is none."""
        if not self._parts:
            return self._append([self._messages.not_answered])
        return self._append(filter(None, [render_not_found(list(map(one_line, self._unanswered)), self._messages)]))

    def make_synthesis(self) -> Synthesis:
        """Return the finished text with the costs and failures of all answers."""
        first = self._written[0]
        by_model = [answer for answer in self._written if answer.synthesizer != EXTRACTIVE]
        reasons = sorted({answer.finish_reason for answer in self._written} - {COMPLETE}, key=_order_reasons)
        return Synthesis(
            text="".join(self._parts),
            synthesizer=(by_model or self._written)[0].synthesizer,
            answered=any(answer.answered for answer in self._written),
            closest=first.closest,
            truncated_tokens=sum(answer.truncated_tokens for answer in self._written),
            finish_reason=next(iter(reasons), COMPLETE),
            spent=sum((answer.spent for answer in self._written), NOTHING_SPENT),
            degraded=deduplicate_degraded(entry for answer in self._written for entry in answer.degraded),
        )

    def _append(self, blocks: Iterator[str] | Sequence[str]) -> str:
        text = "".join(f"\n\n{block}" for block in blocks)
        text = text if self._parts else text.lstrip("\n")
        if text:
            self._parts.append(text)
        return text

    def _clean(self, question: str, text: str) -> str:
        """Return an answer that can stand below a heading, and above another one.

        It is in no fence of its own, its code ends, its headings are below the heading of the section, and it does not begin
        with its question.
        """
        remover = FenceRemover(self._numbers)
        unwrapped = (remover.feed(text) + remover.finish()).strip()
        return "".join(_clean_blocks(unwrapped, fold_text(question))).strip()


def fold_text(text: str) -> str:
    """Return the text for a comparison of whole texts: folded, without the sign at its end. Other signs count (`-5 °C`)."""
    return " ".join(fold(text).split()).rstrip(_QUESTION_ENDS)


def _clean_blocks(text: str, question: str) -> Iterator[str]:
    end = 0
    for block in read_outline(text):
        written = text[block.start : block.end]
        yield text[end : block.start]
        end = block.end
        if block.kind == "heading":
            title = heading_title(written)
            is_question = not text[: block.start].strip() and fold_text(title.strip("*_ ")) == question
            yield "" if is_question else f"{'#' * max(block.level, LEAST_LEVEL)} {title}\n"
        elif block.kind == "code":
            yield written + _close_code(written)
        else:
            yield written
    yield text[end:]


def _close_code(written: str) -> str:
    """Return the line that ends this code; empty if it ends."""
    opening = _OPENING_FENCE.match(written)
    _, *lines = written.rstrip("\n").split("\n")
    if opening is None or (lines and Fence(opening[1]).is_closed_by(lines[-1].lstrip(" \t>"))):
        return ""
    return f"\n{opening[1]}\n"


def _order_reasons(reason: str) -> tuple[bool, str]:
    """Order the reasons so that one of an unfinished text is first."""
    return reason not in UNFINISHED, reason
