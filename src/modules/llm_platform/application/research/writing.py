"""The last stage: a writer makes the text, the sanitiser lets through what may be shown, the checker says where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypedDict

from modules.llm_platform.application.research.verification import Verification, Verified, verify
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.exceptions import LLMException, LLMProviderException
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer, sanitize
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer, report_arguments
from modules.llm_platform.domain.text.messages import messages_for
from shared.exceptions import AppException

LATE = "timeout: not finished before the deadline of the research"
NOTHING_TO_SHOW = "its text held nothing that may be shown"
UNCITED = "uncited: the report names no source for what it says, so that nothing of it was checked"
PREPARED_APART_CHARS = (
    150_000  # of all sources together: the checker takes some 15 ms to prepare them, more goes to a thread
)
CUT = "length: the answer was cut where it was longest; raise LLM_MAX_TOKENS for a longer one"


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """What is to be written, by whom, until when (event loop time), and who steps in at the end.

    `by_model`: a language model stands behind the writer, so that one who is late has made a call that is paid for.
    `questions` are the sub-questions of a report, none of another answer; `instructions` the person's own wishes.
    `verification`: who judges the citations after their words were compared; None leaves it at that.
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
    questions: tuple[str, ...] = ()
    instructions: str | None = None
    verification: Verification | None = None


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """The text as it was shown, what the writer said of it, and where each sentence stands. `spent`: by writers and judge."""

    text: str
    synthesis: Synthesis
    checked: CheckedAnswer
    degraded: tuple[Degraded, ...]
    spent: Spending


class _Page:
    """What the reader sees of the answer: sanitised pieces that can be taken back only as a whole."""

    def __init__(
        self, order: WritingRequest, checker: _Checking, show: Callable[[str], None], take_back: Callable[[str], None]
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
            self._checker.look_at(safe)

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


class _Checking:
    """The checker, which gets long sources ready in a thread while the writer begins."""

    def __init__(self, order: WritingRequest) -> None:
        self._checker = CitationChecker(order.sources, order.language)
        apart = sum(len(source.text) for source in order.sources) > PREPARED_APART_CHARS
        self._ready = asyncio.get_running_loop().run_in_executor(None, self._checker.prepare) if apart else None

    def look_at(self, text: str) -> None:
        """Find out about a piece of the answer what can be known already."""
        if self._ready is None or self._ready.done():
            self._checker.check(text)

    async def check(self, text: str) -> CheckedAnswer:
        """What is known of the whole answer."""
        if self._ready is None:
            return self._checker.check(text)
        await self._ready
        return await asyncio.to_thread(self._checker.check, text)


async def write(
    order: WritingRequest, streamed: bool, show: Callable[[str], None], take_back: Callable[[str], None]
) -> WrittenAnswer:
    """Write, show and check the answer. `streamed` asks the writer for pieces; without it the text is shown at once."""
    checker = _Checking(order)
    page = _Page(order, checker, show, take_back)
    synthesis, degraded = await _written(order, streamed, page)
    text = page.text
    checked = await checker.check(text)
    own = messages_for(order.language)
    stood_in = order.writer is not order.last_resort and synthesis.synthesizer == order.last_resort.name
    if stood_in and synthesis.answered:
        page.add(f"\n\n{own.model_failed}")
    if order.offer_deep and not (synthesis.answered and checked.cited):
        page.add(f"\n\n{own.go_deeper}")
    if order.questions and synthesis.answered and not checked.cited:
        degraded = (*degraded, Degraded(component=synthesis.synthesizer, reason=UNCITED))
    if synthesis.finish_reason == "length":
        degraded = (*degraded, Degraded(component=synthesis.synthesizer, reason=CUT))
    # All that can be read is with the reader by now: the judge holds up the verdicts alone.
    verified = Verified(checked) if stood_in else await _verified(order, text, checked)
    return WrittenAnswer(
        page.text, synthesis, verified.checked, (*degraded, *verified.degraded), synthesis.spent + verified.spent
    )


async def _verified(order: WritingRequest, text: str, checked: CheckedAnswer) -> Verified:
    if order.verification is None:
        return Verified(checked)
    return await verify(order.verification, order.question, text, order.language, order.sources, checked)


async def _written(order: WritingRequest, streamed: bool, page: _Page) -> tuple[Synthesis, tuple[Degraded, ...]]:
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


async def _stream(order: WritingRequest, writer: ISynthesizer, page: _Page) -> Synthesis:
    synthesis: Synthesis | None = None
    parts = writer.stream(
        order.question, order.sources, order.language, **_wanted(order), **report_arguments(writer, order.questions)
    )
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


async def _at_once(order: WritingRequest, writer: ISynthesizer, page: _Page) -> Synthesis:
    synthesis = await writer.synthesize(
        order.question, order.sources, order.language, **_wanted(order), **report_arguments(writer, order.questions)
    )
    page.whole(synthesis.text)
    return synthesis


class _Expected(TypedDict, total=False):
    max_tokens: int
    instructions: str


def _wanted(order: WritingRequest) -> _Expected:
    """Wishes are passed on when there are some: a writer may know nothing of them."""
    wanted = _Expected(max_tokens=order.max_tokens)
    if order.instructions and order.instructions.strip():
        wanted["instructions"] = order.instructions
    return wanted


async def _stand_in(order: WritingRequest, page: _Page, reason: str, spent: Spending) -> Synthesis:
    """What the last resort wrote; `spent` is what the writer before it cost."""
    page.reset(reason)
    synthesis = await _at_once(order, order.last_resort, page)
    return synthesis.model_copy(update={"spent": spent + synthesis.spent})


# A text that was written before, given again.


class StoredTextWriter(ISynthesizer):
    """Stands where the writer stood: the same question from the same sources has the same answer, and costs nothing."""

    writes_reports = True

    def __init__(self, synthesis: Synthesis) -> None:
        self.name = synthesis.synthesizer
        self._synthesis = synthesis

    async def synthesize(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> Synthesis:
        return self._synthesis
