"""A scripted writer, and the promises of `ISynthesizer` as tests that every writer's suite subclasses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.research_dtos import (
    Source,
    Synthesis,
    SynthesisPart,
    SynthesisReset,
    SynthesisToken,
)
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.testing.patience import RETURNS_WITHIN_S
from shared.exceptions import AppException

_MARKER = re.compile(r"\[(\d+)\]")
_PIECE = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class WriterCall:
    """What a fake writer was asked."""

    question: str
    sources: tuple[Source, ...]
    language: str
    max_tokens: int
    instructions: str | None
    questions: tuple[str, ...] = ()


class FakeSynthesizer(ISynthesizer):
    """Writes `text`, or one sentence for each source; word by word when streamed.

    `error` is raised instead, after `fail_after` words of a stream (0: before the first). `delay_s` passes before it writes.
    `calls` keeps what was asked.
    """

    writes_reports = True

    def __init__(
        self,
        text: str | None = None,
        *,
        name: str = "fake",
        answered: bool = True,
        finish_reason: str = "stop",
        error: AppException | None = None,
        fail_after: int = 0,
        delay_s: float = 0.0,
        spent: Spending | None = None,
        degraded: tuple[Degraded, ...] = (),
    ) -> None:
        self.name = name
        self.calls: list[WriterCall] = []
        self._text = text
        self._answered = answered
        self._finish_reason = finish_reason
        self._error = error
        self._fail_after = fail_after
        self._delay_s = delay_s
        self._spent = spent or Spending()
        self._degraded = degraded

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
        self.calls.append(WriterCall(question, tuple(sources), language, max_tokens, instructions, tuple(questions)))
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            raise self._error
        return self._written(sources)

    async def stream(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> AsyncIterator[SynthesisPart]:
        self.calls.append(WriterCall(question, tuple(sources), language, max_tokens, instructions, tuple(questions)))
        await asyncio.sleep(self._delay_s)
        written = self._written(sources)
        for count, piece in enumerate(_PIECE.findall(written.text)):
            if self._error is not None and count >= self._fail_after:
                break
            yield SynthesisToken(text=piece)
        if self._error is not None:
            raise self._error
        yield written

    def _written(self, sources: Sequence[Source]) -> Synthesis:
        return Synthesis(
            text=self._text if self._text is not None else _one_sentence_each(sources),
            synthesizer=self.name,
            answered=self._answered and bool(sources),
            finish_reason=self._finish_reason,
            spent=self._spent,
            degraded=self._degraded,
        )


def _one_sentence_each(sources: Sequence[Source]) -> str:
    if not sources:
        return "There is nothing to write from."
    return " ".join(f"{source.title or source.url} [{source.index}]." for source in sources)


class SynthesizerContract:
    """Subclass, give these fixtures, and the port's promises are checked.

    writer: ready to answer `QUESTION` from `SOURCES` · slow: starts a synthesis that takes seconds.
    """

    QUESTION = "How long does a session token stay valid, and who may renew it?"
    LANGUAGE = "en"
    SOURCES = (
        Source(
            index=1,
            title="Sessions",
            url="https://docs.example.org/sessions",
            text="A session token stays valid for thirty minutes after the last request. Expired tokens are deleted.",
        ),
        Source(
            index=2,
            title="Roles",
            url="https://docs.example.org/roles",
            text="Only the owner of an account may renew a session token. Guests have to sign in again.",
        ),
    )

    async def test_writes_a_text_and_signs_it(self, writer: ISynthesizer) -> None:
        """A synthesis holds text and the name of whoever wrote it."""
        written = await writer.synthesize(self.QUESTION, self.SOURCES, self.LANGUAGE)
        assert written.text.strip()
        assert written.synthesizer
        assert written.answered

    async def test_no_sources_are_no_answer(self, writer: ISynthesizer) -> None:
        """Without a source there is a plain word, no answer and no marker."""
        written = await writer.synthesize(self.QUESTION, (), self.LANGUAGE)
        assert written.text.strip()
        assert not written.answered

    async def test_the_stream_is_the_text(self, writer: ISynthesizer) -> None:
        """The tokens since the last reset, joined, are the text of the one Synthesis that ends the stream."""
        text, parts = "", []
        async for part in writer.stream(self.QUESTION, self.SOURCES, self.LANGUAGE):
            parts.append(part)
            if isinstance(part, SynthesisReset):
                text = ""
            elif isinstance(part, SynthesisToken):
                text += part.text
        last = parts[-1]
        assert isinstance(last, Synthesis)
        assert text == last.text
        assert sum(isinstance(part, Synthesis) for part in parts) == 1

    async def test_wishes_and_limits_are_accepted(self, writer: ISynthesizer) -> None:
        """A small limit and the person's own wishes give a text, not an error."""
        written = await writer.synthesize(
            self.QUESTION, self.SOURCES, self.LANGUAGE, max_tokens=64, instructions="Keep it short."
        )
        assert written.text.strip()

    async def test_a_report_is_written_on_request(self, writer: ISynthesizer) -> None:
        """A writer says that it takes sub-questions, and writes with them, streamed or not; its version can be in a key."""
        questions = ("How long is a session token valid?", "Who may renew a session token?")
        written = await writer.synthesize(self.QUESTION, self.SOURCES, self.LANGUAGE, questions=questions)
        assert written.text.strip()
        parts = writer.stream(self.QUESTION, self.SOURCES, self.LANGUAGE, questions=questions)
        *_, last = [part async for part in parts]
        assert isinstance(last, Synthesis)
        assert isinstance(writer.version, str)
        assert writer.writes_reports

    async def test_cancelling_is_prompt(self, slow: Callable[[], Awaitable[Synthesis]]) -> None:
        """A cancelled writer is gone at once, whatever it waits for."""
        task = asyncio.ensure_future(slow())
        await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=RETURNS_WITHIN_S)
        assert done, "a cancelled writer must return"
        assert task.cancelled()


class QuotingSynthesizerContract(SynthesizerContract):
    """For writers that make their text of nothing but the sources: their markers can be trusted, too."""

    async def test_cites_sources_by_their_index(self, writer: ISynthesizer) -> None:
        """Each marker is the `index` of a source, wherever that stands in the list."""
        moved = tuple(source.model_copy(update={"index": source.index + 6}) for source in self.SOURCES)
        written = await writer.synthesize(self.QUESTION, moved, self.LANGUAGE)
        markers = {int(found) for found in _MARKER.findall(written.text)}
        assert markers
        assert markers <= {source.index for source in moved}
