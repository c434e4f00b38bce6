"""The last stage: a writer makes the text, the sanitiser lets through what may be shown, the checker says where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from modules.llm_platform.domain.citations import CheckedAnswer, CitationChecker

from modules.llm_platform.domain.answer_text import AnswerSanitizer, sanitize
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.own_words import own_words
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be written, by whom, until when (event loop time), and who steps in at the end."""

    question: str
    sources: tuple[Source, ...]
    language: str
    max_tokens: int
    writer: ISynthesizer
    last_resort: ISynthesizer
    deadline: float
    offer_deep: bool


@dataclass(frozen=True, slots=True)
class Written:
    """The text as it was shown, what the writer said of it, and where each sentence stands."""

    text: str
    synthesis: Synthesis
    checked: CheckedAnswer
    degraded: tuple[Degraded, ...]


class _Page:
    """What the reader sees of the answer: sanitised pieces that can be taken back only as a whole."""

    def __init__(
        self, sources: Sequence[Source], show: Callable[[str], None], take_back: Callable[[str], None]
    ) -> None:
        self._sources, self._show, self._take_back = sources, show, take_back
        self._sanitizer = AnswerSanitizer(sources)
        self.shown: list[str] = []

    def feed(self, text: str) -> None:
        self._put(self._sanitizer.feed(text))

    def whole(self, text: str) -> None:
        self._put(sanitize(text, self._sources))

    def finish(self) -> None:
        self._put(self._sanitizer.finish())

    def add(self, text: str) -> None:
        """Own words behind the answer."""
        self._put(text)

    def reset(self, reason: str) -> None:
        self._sanitizer = AnswerSanitizer(self._sources)
        if self.shown:
            self.shown.clear()
            self._take_back(reason)

    def _put(self, safe: str) -> None:
        if safe:
            self.shown.append(safe)
            self._show(safe)

    @property
    def text(self) -> str:
        return "".join(self.shown)


async def write(order: Order, streamed: bool, show: Callable[[str], None], take_back: Callable[[str], None]) -> Written:
    """Write, show and check the answer. `streamed` asks the writer for pieces; without it the text is shown at once.

    A writer that is late, or whose text holds nothing that may be shown, is replaced by the last resort.
    """
    page = _Page(order.sources, show, take_back)
    degraded: tuple[Degraded, ...] = ()
    try:
        async with asyncio.timeout_at(order.deadline):
            synthesis = await (_stream if streamed else _at_once)(order, order.writer, page)
    except TimeoutError:
        degraded = (
            Degraded(component=order.writer.name, reason="timeout: not finished before the deadline of the research"),
        )
        synthesis = await _stand_in(order, page, "deadline")
    if not page.text.strip():
        degraded = (
            *degraded,
            Degraded(component=synthesis.synthesizer, reason="its text held nothing that may be shown"),
        )
        spent = synthesis.spent
        synthesis = await _stand_in(order, page, "empty")
        synthesis = synthesis.model_copy(update={"spent": spent + synthesis.spent})
    checked = CitationChecker(order.sources, order.language).check(page.text)
    if order.offer_deep and not (synthesis.answered and checked.cited):
        page.add(f"\n\n{own_words(order.language).go_deeper}")
    return Written(page.text, synthesis, checked, degraded)


async def _stream(order: Order, writer: ISynthesizer, page: _Page) -> Synthesis:
    parts = writer.stream(order.question, order.sources, order.language, max_tokens=order.max_tokens)
    async with aclosing(parts) as stream:  # type: ignore[type-var]  # every implementation is an async generator
        async for part in stream:
            if isinstance(part, SynthesisToken):
                page.feed(part.text)
            elif isinstance(part, SynthesisReset):
                page.reset(part.reason)
            else:
                synthesis = part
    page.finish()
    return synthesis


async def _at_once(order: Order, writer: ISynthesizer, page: _Page) -> Synthesis:
    synthesis = await writer.synthesize(order.question, order.sources, order.language, max_tokens=order.max_tokens)
    page.whole(synthesis.text)
    return synthesis


async def _stand_in(order: Order, page: _Page, reason: str) -> Synthesis:
    page.reset(reason)
    return await _at_once(order, order.last_resort, page)
