"""A fake synthesizer, and the contract of `ISynthesizer`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.testing.waiting import is_cancelled_promptly
from shared.exceptions import AppException

_MARKER = re.compile(r"\[(\d+)\]")
_WORD = re.compile(r"\S+\s*|\s+")


class FakeSynthesizer(StreamingSynthesizer):
    """Returns `text`, or one sentence per source; streams it word by word.

    `error` is raised instead, after `fail_after` words of a stream. `delay_s`: seconds before each result. `calls` records
    the calls.
    """

    writes_reports = True

    def __init__(
        self,
        text: str | None = None,
        *,
        name: str = "fake",
        answered: bool = True,
        is_doubtful: bool = False,
        is_small: bool = False,
        finish_reason: str = "stop",
        error: AppException | None = None,
        fail_after: int = 0,
        delay_s: float = 0.0,
        spent: Spending | None = None,
        degraded: tuple[Degraded, ...] = (),
    ) -> None:
        self.name, self.is_small = name, is_small
        self.calls: list[SynthesisRequest] = []
        self._text = text
        self._answered = answered
        self._is_doubtful = is_doubtful
        self._finish_reason = finish_reason
        self._error = error
        self._fail_after = fail_after
        self._delay_s = delay_s
        self._spent = spent or Spending()
        self._degraded = degraded

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        self.calls.append(request)
        await asyncio.sleep(self._delay_s)
        synthesis = self._synthesis(request.sources)
        for count, word in enumerate(_WORD.findall(synthesis.text)):
            if self._error is not None and count >= self._fail_after:
                break
            yield SynthesisToken(text=word, is_doubtful=self._is_doubtful)
        if self._error is not None:
            raise self._error
        yield synthesis

    def _synthesis(self, sources: Sequence[Source]) -> Synthesis:
        return Synthesis(
            text=self._text if self._text is not None else _sentence_per_source(sources),
            synthesizer=self.name,
            answered=self._answered and bool(sources),
            is_doubtful=self._is_doubtful,
            finish_reason=self._finish_reason,
            spent=self._spent,
            degraded=self._degraded,
        )


def _sentence_per_source(sources: Sequence[Source]) -> str:
    if not sources:
        return "There is nothing to write from."
    return " ".join(f"{source.title or source.url} [{source.index}]." for source in sources)


class SlowWords(FakeSynthesizer):
    """Takes a hundredth of a second for each word."""

    def __init__(self, text: str, fail_after: int = 0, error: LLMException | None = None) -> None:
        super().__init__(text, fail_after=fail_after, error=error)
        self.seconds = len(text.split()) / 100

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        async for part in super().stream(request):
            if isinstance(part, SynthesisToken):
                await asyncio.sleep(0.01)
            yield part


class SynthesizerContract:
    """Subclass it and add these fixtures.

    writer: an ISynthesizer that can answer `QUESTION` from `SOURCES` · slow: a function that starts a synthesis of several
    seconds.
    """

    QUESTION = "How long does a session token stay valid, and who may renew it?"
    LANGUAGE = "en"
    SOURCES: tuple[Source, ...] = (
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

    def request(self, sources: Sequence[Source] | None = None, **fields: Any) -> SynthesisRequest:
        """Return the request for an answer to `QUESTION`."""
        return SynthesisRequest(self.QUESTION, self.SOURCES if sources is None else sources, self.LANGUAGE, **fields)

    async def test_synthesis_has_text_and_synthesizer(self, writer: ISynthesizer) -> None:
        """A synthesis has a text and the name of its synthesizer."""
        written = await writer.synthesize(self.request())
        assert written.text.strip()
        assert written.synthesizer
        assert written.answered

    async def test_without_sources_there_is_no_answer(self, writer: ISynthesizer) -> None:
        """Without sources the text says so and `answered` is false."""
        written = await writer.synthesize(self.request(()))
        assert written.text.strip()
        assert not written.answered

    async def test_streamed_tokens_are_the_text(self, writer: ISynthesizer) -> None:
        """The joined tokens since the last reset are the text of the Synthesis that ends the stream."""
        text, parts = "", []
        async for part in writer.stream(self.request()):
            parts.append(part)
            if isinstance(part, SynthesisReset):
                text = ""
            elif isinstance(part, SynthesisToken):
                text += part.text
        last = parts[-1]
        assert isinstance(last, Synthesis)
        assert text == last.text
        assert sum(isinstance(part, Synthesis) for part in parts) == 1

    async def test_instructions_and_max_tokens_are_accepted(self, writer: ISynthesizer) -> None:
        """A small limit with instructions returns a text, not an error."""
        written = await writer.synthesize(self.request(max_tokens=64, instructions="Keep it short."))
        assert written.text.strip()

    async def test_report_is_written_for_sub_questions(self, writer: ISynthesizer) -> None:
        """Sub-questions are accepted, streamed or not; the version is a string for cache keys."""
        questions = ("How long is a session token valid?", "Who may renew a session token?")
        written = await writer.synthesize(self.request(questions=questions))
        assert written.text.strip()
        parts = writer.stream(self.request(questions=questions))
        *_, last = [part async for part in parts]
        assert isinstance(last, Synthesis)
        assert isinstance(writer.version, str)
        assert writer.writes_reports

    async def test_cancelled_synthesis_ends_promptly(self, slow: Callable[[], Awaitable[Synthesis]]) -> None:
        """A cancelled synthesis ends promptly."""
        task = asyncio.ensure_future(slow())
        await asyncio.sleep(0.01)
        assert not task.done()
        assert await is_cancelled_promptly(task)


class QuotingSynthesizerContract(SynthesizerContract):
    """For synthesizers that only quote: their markers are correct as well."""

    async def test_markers_are_source_indexes(self, writer: ISynthesizer) -> None:
        """Each marker is the `index` of a source, not its position in the list."""
        renumbered = tuple(source.model_copy(update={"index": source.index + 6}) for source in self.SOURCES)
        written = await writer.synthesize(self.request(renumbered))
        markers = {int(found) for found in _MARKER.findall(written.text)}
        assert markers
        assert markers <= {source.index for source in renumbered}
