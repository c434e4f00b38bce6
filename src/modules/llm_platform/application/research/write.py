"""The last stage: a writer makes the text, the sanitiser lets through what may be shown, the checker says where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from modules.llm_platform.domain.answer_text import AnswerSanitizer, sanitize
from modules.llm_platform.domain.citations import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMException, LLMProviderException
from modules.llm_platform.domain.own_words import own_words
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from shared.exceptions import AppException

LATE = "timeout: not finished before the deadline of the research"
NOTHING_TO_SHOW = "its text held nothing that may be shown"
CUT = "length: the answer was cut where it was longest; raise LLM_MAX_TOKENS for a longer one"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be written, by whom, until when (event loop time), and who steps in at the end.

    `by_model`: a language model stands behind the writer, so that one who is late has made a call that is paid for.
    """

    question: str
    sources: tuple[Source, ...]
    language: str
    max_tokens: int
    writer: ISynthesizer
    last_resort: ISynthesizer
    deadline: float
    offer_deep: bool
    by_model: bool = False


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
        self, order: Order, checker: CitationChecker, show: Callable[[str], None], take_back: Callable[[str], None]
    ) -> None:
        self._sources = sources = order.sources
        self._checker, self._show, self._take_back = checker, show, take_back
        self._sanitizer = AnswerSanitizer(sources)
        self.shown: list[str] = []

    def feed(self, text: str) -> None:
        """The next piece of a stream. What it cites is checked at once: the model is still writing, and nobody waits."""
        safe = self._sanitizer.feed(text)
        self._put(safe)
        if safe:
            self._checker.check(safe)

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
    """Write, show and check the answer. `streamed` asks the writer for pieces; without it the text is shown at once."""
    checker = CitationChecker(order.sources, order.language)
    page = _Page(order, checker, show, take_back)
    synthesis, degraded = await _written(order, streamed, page)
    checked = checker.check(page.text)
    own = own_words(order.language)
    stood_in = order.writer is not order.last_resort and synthesis.synthesizer == order.last_resort.name
    if stood_in and synthesis.answered:
        page.add(f"\n\n{own.model_failed}")
    if order.offer_deep and not (synthesis.answered and checked.cited):
        page.add(f"\n\n{own.go_deeper}")
    if synthesis.finish_reason == "length":
        degraded = (*degraded, Degraded(component=synthesis.synthesizer, reason=CUT))
    return Written(page.text, synthesis, checked, degraded)


async def _written(order: Order, streamed: bool, page: _Page) -> tuple[Synthesis, tuple[Degraded, ...]]:
    """The writer's text; the last resort's where the writer is late, fails, or wrote nothing that may be shown."""
    name = order.writer.name
    try:
        async with asyncio.timeout_at(order.deadline):
            synthesis = await (_stream if streamed else _at_once)(order, order.writer, page)
    except TimeoutError:
        late = Degraded(component=name, reason=LATE)
        return await _stand_in(order, page, "deadline", Spending(calls=int(order.by_model))), (late,)
    except AppException as error:
        if order.writer is order.last_resort:
            raise
        spent = error.spent if isinstance(error, LLMException) else NOTHING_SPENT
        return await _stand_in(order, page, error.code, spent), (Degraded.of(name, error),)
    if page.text.strip():
        return synthesis, ()
    empty = Degraded(component=synthesis.synthesizer, reason=NOTHING_TO_SHOW)
    return await _stand_in(order, page, "empty", synthesis.spent), (*synthesis.degraded, empty)


async def _stream(order: Order, writer: ISynthesizer, page: _Page) -> Synthesis:
    synthesis: Synthesis | None = None
    parts = writer.stream(order.question, order.sources, order.language, max_tokens=order.max_tokens)
    async with aclosing(parts) as stream:  # type: ignore[type-var]  # every implementation is an async generator
        async for part in stream:
            if isinstance(part, SynthesisToken):
                page.feed(part.text)
            elif isinstance(part, SynthesisReset):
                page.reset(part.reason)
            else:
                synthesis = part
    if synthesis is None:
        raise LLMProviderException("The writer's stream ended without an answer: ask another one")
    page.finish()
    return synthesis


async def _at_once(order: Order, writer: ISynthesizer, page: _Page) -> Synthesis:
    synthesis = await writer.synthesize(order.question, order.sources, order.language, max_tokens=order.max_tokens)
    page.whole(synthesis.text)
    return synthesis


async def _stand_in(order: Order, page: _Page, reason: str, spent: Spending) -> Synthesis:
    """What the last resort wrote; `spent` is what the writer before it cost."""
    page.reset(reason)
    synthesis = await _at_once(order, order.last_resort, page)
    return synthesis.model_copy(update={"spent": spent + synthesis.spent})
