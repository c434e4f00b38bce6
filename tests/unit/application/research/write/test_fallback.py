"""If the writer fails, the fallback writes, and the answer says so."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.support_model import FakeSupportModel
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time
from tests.support.written_answers import judge_of, write_answer

from modules.llm_platform.application.research.events import ResearchEvent, Reset, Token
from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.research.write.writing import EMPTY_TEXT, REFUSED, UNSUPPORTED
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import (
    LLMConnectionError,
    LLMException,
    LLMRequestError,
    SupportModelError,
    WebSearchError,
)
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM
from shared.exceptions import AppException

SOURCES = (Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water."),)
TEXT = "A pump moves water [1]."
CALL = Spending(calls=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.5)


def failing(error: AppException | None = None, fail_after: int = 0) -> FakeSynthesizer:
    error = error or LLMConnectionError("The model is gone", spent=CALL)
    return FakeSynthesizer(
        "One pump is here.\n\nAnother one is there.", name="model", error=error, fail_after=fail_after
    )


async def test_the_fallback_is_not_called_when_the_writer_succeeds() -> None:
    """Nothing is degraded."""
    fallback = FakeSynthesizer("Second.", name="b")
    draft = await write_answer(FakeSynthesizer(TEXT, name="a", spent=CALL), SOURCES, fallback=fallback)
    assert (draft.text, draft.synthesis.synthesizer, draft.spent, draft.degraded) == (TEXT, "a", CALL, ())
    assert fallback.calls == []


@for_each("error", [LLMConnectionError("gone", spent=CALL), LLMRequestError("too long", spent=CALL)])
@for_each("streamed", [True, False])
async def test_a_failed_writer_is_listed_and_its_cost_included(error: LLMException, streamed: bool) -> None:
    """A rejected request also leads to the fallback."""
    degraded = (Degraded(component="x", reason="y"),)
    fallback = FakeSynthesizer(TEXT, name="b", spent=CALL, degraded=degraded)
    draft = await write_answer(failing(error), SOURCES, fallback=fallback, streamed=streamed)
    assert (draft.text.partition("\n")[0], draft.synthesis.synthesizer) == (TEXT, "b")
    assert [(entry.component, entry.reason) for entry in draft.degraded] == [
        ("model", f"{error.code}: {error.message}")
    ]
    assert draft.synthesis.degraded == degraded
    assert (draft.spent.calls, draft.spent.cost_usd) == (2, 1.0)


@for_each("text", ["[1]", "[1][2].", "- [1]\n", " \n", "**", "The power of the pump is [1][2]."])
async def test_a_text_without_words_is_no_answer(text: str) -> None:
    """A small model may write nothing but a marker, or end before it has said anything."""
    fallback = FakeSynthesizer(TEXT, name="b")
    draft = await write_answer(FakeSynthesizer(text, name="small"), SOURCES, fallback=fallback)
    assert draft.text.startswith(TEXT)
    assert [(entry.component, entry.reason) for entry in draft.degraded] == [("small", EMPTY_TEXT)]


@for_each("text", ["5", "\N{WHITE HEAVY CHECK MARK} [1]", "`&&` [1]", "水 [1]", "```\n+\n```"])
async def test_a_text_without_letters_may_be_an_answer(text: str) -> None:
    fallback = FakeSynthesizer(TEXT)
    await write_answer(FakeSynthesizer(text), SOURCES, fallback=fallback)
    assert fallback.calls == []


DOUBTFUL = "Pumps were invented in 1712 [1]."


@for_each("streamed", [True, False])
async def test_a_doubtful_text_that_no_source_supports_is_replaced(streamed: bool) -> None:
    """Nobody sees it. The answer says why, and includes its cost."""
    emitted: list[ResearchEvent] = []
    writer = FakeSynthesizer(DOUBTFUL, name="small", is_doubtful=True, spent=CALL)
    fallback = FakeSynthesizer("The sources found do not answer this.", name="b", answered=False)
    draft = await write_answer(writer, SOURCES, fallback=fallback, streamed=streamed, emit=emitted.append)
    shown = "".join(event.text for event in emitted if isinstance(event, Token))
    assert (draft.text, draft.spent.calls) == (shown, 1)
    assert draft.text.startswith("The sources found do not answer this.")
    assert "1712" not in shown
    assert [event for event in emitted if isinstance(event, Reset)] == []
    assert [(entry.component, entry.reason) for entry in draft.degraded] == [("small", UNSUPPORTED)]


@for_each("streamed", [True, False])
@for_each(
    "text, answered",
    [(f"{TEXT} {DOUBTFUL}", True), ("The sources do not say when.", False)],
)
async def test_a_doubtful_text_is_kept_if_a_source_supports_a_sentence(
    text: str, answered: bool, streamed: bool
) -> None:
    """It is shown whole, once. A text that says itself that the sources do not answer is kept, too."""
    emitted: list[ResearchEvent] = []
    writer, fallback = FakeSynthesizer(text, is_doubtful=True, answered=answered), FakeSynthesizer("Second.")
    draft = await write_answer(writer, SOURCES, fallback=fallback, streamed=streamed, emit=emitted.append)
    tokens = [event.text for event in emitted if isinstance(event, Token)]
    assert tokens[0] == text
    assert "".join(tokens) == draft.text
    assert fallback.calls == []


@for_each("streamed", [True, False])
async def test_quotes_take_the_place_of_a_refusal(streamed: bool) -> None:
    """A small model does not find every answer that the quotes have."""
    writer = FakeSynthesizer("The sources do not say.", name="small", answered=False, is_small=True)
    draft = await write_answer(writer, SOURCES, fallback=FakeSynthesizer(TEXT, name="quotes"), streamed=streamed)
    assert draft.text == f"{TEXT}\n\n{get_messages('en').quotes_only}"
    assert [(entry.component, entry.reason) for entry in draft.degraded] == [("small", REFUSED)]


async def test_a_refusal_stays_if_the_quotes_have_no_answer() -> None:
    """Nothing has failed. A larger model, and one that was given wishes, is not overruled."""
    refusal = "The sources do not say."
    fallback = FakeSynthesizer("The sources found do not answer this.", name="quotes", answered=False)
    writer = FakeSynthesizer(refusal, answered=False, is_small=True)
    draft = await write_answer(writer, SOURCES, fallback=fallback)
    assert (draft.text.startswith("The sources found do not answer this."), draft.degraded) == (True, ())
    for is_small, instructions in ((False, None), (True, "In one word.")):
        fallback = FakeSynthesizer(TEXT)
        writer = FakeSynthesizer(refusal, answered=False, is_small=is_small)
        draft = await write_answer(writer, SOURCES, fallback=fallback, instructions=instructions)
        assert (draft.text.startswith(refusal), fallback.calls) == (True, [])


@for_each("streamed", [True, False])
async def test_a_writer_without_a_fallback_keeps_its_doubtful_text(streamed: bool) -> None:
    """It is not asked again."""
    writer = FakeSynthesizer(DOUBTFUL, is_doubtful=True)
    draft = await write_answer(writer, SOURCES, fallback=writer, streamed=streamed)
    assert draft.text.startswith(DOUBTFUL)
    assert len(writer.calls) == 1


async def test_a_doubtful_text_is_kept_if_not_all_was_compared() -> None:
    """A judge has the last word, and a support model that fails has none."""
    failing = FakeSupportModel(error=SupportModelError("install it"))
    said = "A pump transports liquids [1]."
    for fields in (
        {"support_model": failing},
        {"judge_task": judge_of(FakeCitationJudge(), "How do pumps work?", SOURCES)},
    ):
        fallback = FakeSynthesizer("Second.")
        draft = await write_answer(FakeSynthesizer(said, is_doubtful=True), SOURCES, fallback=fallback, **fields)
        assert draft.text.startswith(said)
        assert fallback.calls == []


async def test_quotes_in_place_of_a_doubtful_text_say_what_they_are() -> None:
    """The model did not fail."""
    fallback = FakeSynthesizer(TEXT, name="quotes")
    draft = await write_answer(FakeSynthesizer(DOUBTFUL, is_doubtful=True), SOURCES, fallback=fallback)
    assert draft.text == f"{TEXT}\n\n{get_messages('en').quotes_only}"


async def test_the_fallback_gets_the_request_of_the_writer() -> None:
    """Question, sources, language, limit, sub-questions and instructions."""
    writer, fallback = failing(), FakeSynthesizer(TEXT)
    await write_answer(writer, SOURCES, fallback=fallback, questions=("Why?",), instructions="Short.")
    assert writer.calls == fallback.calls
    assert (fallback.calls[0].questions, fallback.calls[0].instructions) == (("Why?",), "Short.")


@pytest.mark.parametrize(("fail_after", "resets"), [(5, ["model: llm_connection"]), (0, [])])
async def test_tokens_of_a_failed_writer_are_reset(fail_after: int, resets: list[str]) -> None:
    """The text is what followed the reset. A failure before the first token needs none."""
    emitted: list[ResearchEvent] = []
    fallback = FakeSynthesizer(TEXT, name="b")
    draft = await write_answer(
        failing(fail_after=fail_after), SOURCES, fallback=fallback, streamed=True, emit=emitted.append
    )
    assert [event.reason for event in emitted if isinstance(event, Reset)] == resets
    last = max((at for at, event in enumerate(emitted) if isinstance(event, Reset)), default=-1)
    assert "".join(event.text for event in emitted[last + 1 :] if isinstance(event, Token)) == draft.text


async def test_any_error_of_ours_leads_to_the_fallback() -> None:
    """Writers may fail with any AppException."""
    draft = await write_answer(failing(WebSearchError("odd")), SOURCES, fallback=FakeSynthesizer(TEXT))
    assert draft.text.startswith(TEXT)


@for_each("streamed", [True, False])
async def test_an_error_without_a_fallback_is_raised(streamed: bool) -> None:
    """It carries the cost of the writer."""
    writer = failing(LLMRequestError("too long", spent=CALL))
    with pytest.raises(LLMRequestError) as raised:
        await write_answer(writer, SOURCES, fallback=writer, streamed=streamed)
    assert raised.value.spent == CALL
    assert len(writer.calls) == 1  # a failed fallback is not its own fallback


async def test_a_refusal_in_the_place_of_a_model_does_not_call_itself_quotes() -> None:
    draft = await write_answer(failing(), SOURCES, fallback=FakeSynthesizer("Nothing answers.", answered=False))
    assert get_messages("en").model_failed not in draft.text
    assert get_messages("en").model_failed in (await write_answer(failing(), SOURCES)).text


@for_each("has_llm, calls", [(True, 1), (False, 0)])
@in_virtual_time
async def test_only_a_late_model_has_cost_a_call(has_llm: bool, calls: int) -> None:
    late = FakeSynthesizer(TEXT, delay_s=60.0)
    draft = await write_answer(late, SOURCES, has_llm=has_llm, seconds=5.0)
    assert draft.spent.calls == calls


async def test_a_bug_does_not_lead_to_the_fallback() -> None:
    bug = FakeSynthesizer()
    bug.stream = None  # type: ignore[assignment,method-assign]
    with pytest.raises(TypeError):
        await write_answer(bug, SOURCES, fallback=FakeSynthesizer("Second."))


async def test_cancelling_does_not_call_the_fallback() -> None:
    """The caller is gone."""
    fallback = FakeSynthesizer("Second.")
    task = asyncio.create_task(write_answer(FakeSynthesizer(delay_s=30), SOURCES, fallback=fallback))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fallback.calls == []


@for_each("failure", [LLMConnectionError(), BrokenStream("A pump")])
async def test_quotes_take_the_place_of_a_model_that_fails(failure: LLMConnectionError | BrokenStream) -> None:
    """Before or within its stream. The answer lists the model and counts its call."""
    draft = await write_answer(LLMSynthesizer(FakeLLM([failure])), SOURCES, question="What moves a pump?")
    assert draft.synthesis.synthesizer == "extractive"
    assert [entry.component for entry in draft.degraded] == ["llm"]
    assert draft.spent.calls == 1
