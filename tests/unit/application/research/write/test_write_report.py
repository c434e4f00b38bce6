"""The writing stage of a report: its input, and the check of citations against whole pages."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Collection, Iterator
from typing import ClassVar

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.written_answers import shown_text, write_answer

from modules.llm_platform.application.research.write.draft import Draft
from modules.llm_platform.application.research.write.draft_comparison import PREPARED_IN_THREAD_CHARS, DraftComparison
from modules.llm_platform.application.research.write.writing import CUT, CUT_LATE, REPEATED
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMException, LLMProviderException, LLMTimeoutError
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S, START_TIMEOUT_S, becomes_true

QUESTIONS = ("What moves water?", "What does it cost?")
CLAIM = "Pump 77 moves forty litres of water a minute"


def source(text: str, index: int = 1) -> Source:
    return Source(index=index, title="Pumps", url=f"https://a.example/{index}", text=text)


SHORT = (source(f"{CLAIM}. It costs nine hundred crowns."),)
LONG = tuple(
    source("".join(f"Valve {n} of machine {index} was opened on day {n}. " for n in range(1200)) + f"{CLAIM}.", index)
    for index in range(1, 5)
)


@pytest.mark.parametrize("streamed", [True, False])
async def test_writer_gets_sub_questions_and_instructions(streamed: bool) -> None:
    """A report's order reaches the writer whole."""
    writer = FakeSynthesizer(f"{CLAIM} [1].")
    await write_answer(writer, SHORT, questions=QUESTIONS, instructions="Be brief.", streamed=streamed)
    assert (writer.calls[0].questions, writer.calls[0].instructions) == (QUESTIONS, "Be brief.")


class OldWriter(ISynthesizer):
    """A custom writer from a version without reports."""

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        assert not request.questions
        return Synthesis(text=f"{CLAIM} [1].", synthesizer="old")


class OldStreamer(OldWriter):
    """One that streams by itself."""

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        yield SynthesisToken(text=f"{CLAIM} [1].")
        yield await self.synthesize(request)


@for_each("writer", [OldWriter(), OldStreamer()])
@for_each("streamed", [True, False])
@for_each("questions", [(), QUESTIONS])
async def test_a_writer_that_knows_no_reports_still_writes(
    writer: ISynthesizer, streamed: bool, questions: tuple[str, ...]
) -> None:
    """It gets no sub-questions, and its answer to the whole question is the report."""
    done = await write_answer(writer, SHORT, questions=questions, streamed=streamed)
    assert done.text == f"{CLAIM} [1]."
    assert [citation.verdict for citation in done.checked.citations] == ["supported"]


@for_each("error", [DailyBudgetError("spent"), LLMProviderException("broken")])
async def test_answer_without_the_model_says_why(error: LLMException) -> None:
    """A model that a budget did not allow has not failed; the text of quotes does not say so."""
    texts = get_messages("en")
    sources = (source("How do pumps work? Pumps work with two valves."),)
    text = (await write_answer(FakeSynthesizer(error=error), sources)).text
    is_budget = isinstance(error, DailyBudgetError)
    assert text.endswith(texts.quotes_only if is_budget else texts.model_failed)


async def test_report_without_citations_is_degraded() -> None:
    """An uncited report or answer is degraded, whatever the instructions. A cited one is not."""
    plain = FakeSynthesizer("Pumps are nice machines that everybody likes.")
    for questions in (QUESTIONS, ()):
        done = await write_answer(plain, SHORT, questions=questions)
        assert [degradation.reason for degradation in done.degraded] == [
            "uncited: the model cited nothing: 0 of its sentences match a source, 1 was not checked"
        ]
        assert done.text.endswith(get_messages("en").cited_nothing)
    assert (await write_answer(FakeSynthesizer(f"{CLAIM} [1]."), SHORT, questions=QUESTIONS)).degraded == ()


@pytest.mark.parametrize("streamed", [True, False])
async def test_long_pages_are_checked_like_short_ones(streamed: bool) -> None:
    """Prepared in a thread while the writer writes, they give the very same citations."""
    assert sum(len(source.text) for source in LONG) > PREPARED_IN_THREAD_CHARS
    text = f"{CLAIM} [1][4]. Valve 7 of machine 2 was opened on day 7 [2]. Pump 77 moves ninety litres [3]."
    done = await write_answer(FakeSynthesizer(text), LONG, questions=QUESTIONS, streamed=streamed)
    assert done.checked == CitationChecker(LONG, "en").check(done.text)
    assert [citation.verdict for citation in done.checked.citations] == [
        "supported",
        "supported",
        "supported",
        "unsupported",
    ]


class Watched(CitationChecker):
    """Tells which thread prepares and which one checks."""

    threads: ClassVar[list[int]] = []

    def prepare(self) -> None:
        self.threads.append(threading.get_ident())
        super().prepare()

    def check(self, answer: str, added: Collection[int] = ()) -> CheckedAnswer:
        self.threads.append(threading.get_ident())
        return super().check(answer, added)


@pytest.mark.parametrize(("sources", "apart"), [(SHORT, False), (LONG, True)])
async def test_long_pages_do_not_hold_up_other_researches(
    monkeypatch: pytest.MonkeyPatch, sources: tuple[Source, ...], apart: bool
) -> None:
    """They are prepared and checked off the event loop, short ones on it, where no thread need be waited for."""
    monkeypatch.setattr(Watched, "threads", [])
    monkeypatch.setattr(f"{DraftComparison.__module__}.CitationChecker", Watched)
    # A text that no other test writes: the verdict on one that was checked before is remembered.
    text = f"{CLAIM} [1]. Nobody else says so."
    await write_answer(FakeSynthesizer(text), sources, questions=QUESTIONS)
    assert [thread != threading.get_ident() for thread in Watched.threads] == ([True, True] if apart else [False])


class SlowPreparation(CitationChecker):
    """Prepares the sources when the test lets it, or fails with `error`."""

    begun: ClassVar[threading.Event]
    let_go: ClassVar[threading.Event]
    error: ClassVar[Exception | None]

    def prepare(self) -> None:
        self.begun.set()
        assert self.let_go.wait(60)
        if self.error is not None:
            raise self.error
        super().prepare()


@pytest.fixture
def preparation(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[SlowPreparation]]:
    """The checker of the drafts, whose thread waits for `let_go`."""
    for name in ("begun", "let_go"):
        monkeypatch.setattr(SlowPreparation, name, threading.Event(), raising=False)
    monkeypatch.setattr(SlowPreparation, "error", None, raising=False)
    monkeypatch.setattr(f"{DraftComparison.__module__}.CitationChecker", SlowPreparation)
    yield SlowPreparation
    SlowPreparation.let_go.set()


@pytest.mark.parametrize("delay_s", [0.0, 60.0])
@pytest.mark.parametrize("error", [None, ValueError("unusable page")])
async def test_cancelling_does_not_wait_for_long_pages(
    preparation: type[SlowPreparation], delay_s: float, error: Exception | None
) -> None:
    """A research run that is cancelled while its pages are prepared ends at once, without an event about them."""
    preparation.error = error
    unheard: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    writer = FakeSynthesizer(f"{CLAIM} [1].", delay_s=delay_s)
    task = asyncio.create_task(write_answer(writer, LONG, questions=QUESTIONS, streamed=True))
    assert await becomes_true(preparation.begun.is_set, START_TIMEOUT_S)
    task.cancel()
    await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
    gone = task.cancelled()
    preparation.let_go.set()
    assert gone
    del task
    await loop.shutdown_default_executor()
    await asyncio.sleep(0)
    gc.collect()
    assert not unheard


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_deadline_while_long_pages_are_prepared_is_no_cancellation(
    preparation: type[SlowPreparation], monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    """The preparation continues after the deadline. The text written so far is kept, and checked against the pages."""
    finish = Draft.finish

    async def finish_late(draft: Draft) -> None:
        if asyncio.get_running_loop().time() >= draft.run.deadline:
            preparation.let_go.set()
        await finish(draft)

    monkeypatch.setattr(Draft, "finish", finish_late)
    text = f"{CLAIM} [1]. It costs {int(streamed)}"  # a text that was checked before would be remembered
    answer = await write_answer(FakeSynthesizer(text), LONG, seconds=0.5, streamed=streamed)
    assert answer.text.startswith(text)
    assert answer.text.count(CLAIM) == 1
    assert [degradation.reason for degradation in answer.degraded] == [CUT_LATE]
    assert [citation.verdict for citation in answer.checked.citations] == ["supported"]


class _SlowWriter(StreamingSynthesizer):
    """Writes `text`, then waits for ever or fails with `error`."""

    name = "slow"

    def __init__(self, text: str, error: LLMException | None = None) -> None:
        self._text, self._error = text, error

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        yield SynthesisToken(text=self._text)
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


@for_each("streamed", [True, False])
@for_each("error", [None, LLMTimeoutError("slow stopped half-way")])
async def test_what_a_late_writer_has_written_is_kept(streamed: bool, error: LLMException | None) -> None:
    """Its citations are checked; the text and `degraded` say that it is cut off."""
    shown: list[str] = []
    writer = _SlowWriter(f"{CLAIM} [1]. It also", error)
    answer = await write_answer(writer, SHORT, seconds=0.3, streamed=streamed, emit=shown_text(shown))
    assert answer.text.startswith(f"{CLAIM} [1]. It also")
    assert get_messages("en").cut_off in answer.text
    assert "".join(shown) == answer.text
    assert [citation.verdict for citation in answer.checked.citations] == ["supported"]
    assert answer.synthesis.finish_reason == CUT
    assert [degradation.reason.partition(":")[0] for degradation in answer.degraded] == ["timeout"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_late_writer_without_a_sentence_is_replaced(streamed: bool) -> None:
    """By quotes."""
    answer = await write_answer(_SlowWriter("Pump 77"), SHORT, seconds=0.3, streamed=streamed)
    assert CLAIM in answer.text
    assert answer.synthesis.synthesizer == "extractive"


async def test_a_text_that_repeats_itself_is_reported() -> None:
    """By the reader's text and by `degraded`."""
    answer = await write_answer(FakeSynthesizer(f"{CLAIM} [1].", finish_reason="repetition"), SHORT, streamed=True)
    assert get_messages("en").cut_off in answer.text
    assert REPEATED in [degradation.reason for degradation in answer.degraded]
