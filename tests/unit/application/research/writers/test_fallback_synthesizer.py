"""When a writer fails the next one writes, and the answer says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.fakes.synthesizer import FakeSynthesizer

from modules.llm_platform.application.research.writers.fallback_synthesizer import FallbackSynthesizer
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.research_dtos import (
    Source,
    Synthesis,
    SynthesisPart,
    SynthesisReset,
    SynthesisToken,
)
from modules.llm_platform.domain.exceptions import LLMConnectionError, LLMException, LLMRequestError, WebSearchError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from shared.exceptions import AppException

SOURCES = (Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water."),)
REQUEST = SynthesisRequest("What?", SOURCES, "en", max_tokens=9, instructions="Short.")
CALL = Spending(calls=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.5)


def failing(error: AppException | None = None, fail_after: int = 0) -> FakeSynthesizer:
    return FakeSynthesizer(
        "one two three",
        name="model",
        error=error or LLMConnectionError("The model is gone", spent=CALL),
        fail_after=fail_after,
    )


async def write(*writers: FakeSynthesizer) -> Synthesis:
    return await FallbackSynthesizer(writers).synthesize(REQUEST)


async def collect(*writers: FakeSynthesizer) -> list[SynthesisPart]:
    return [part async for part in FallbackSynthesizer(writers).stream(REQUEST)]


async def test_the_first_writer_that_succeeds_writes() -> None:
    """No other writer is called, and nothing is degraded."""
    first, second = FakeSynthesizer("First.", name="a", spent=CALL), FakeSynthesizer("Second.", name="b")
    written = await write(first, second)
    assert written == Synthesis(text="First.", synthesizer="a", spent=CALL)
    assert second.calls == []
    assert (await collect(first, second))[-1] == written


@pytest.mark.parametrize("error", [LLMConnectionError("gone", spent=CALL), LLMRequestError("too long", spent=CALL)])
async def test_a_failed_writer_is_listed_and_its_cost_included(error: LLMException) -> None:
    """A wrong request leads to the next writer, too."""
    for streamed in (False, True):
        writers = (
            failing(error),
            FakeSynthesizer("Second.", name="b", spent=CALL, degraded=(Degraded(component="x", reason="y"),)),
        )
        written = (await collect(*writers))[-1] if streamed else await write(*writers)
        assert isinstance(written, Synthesis)
        assert (written.text, written.synthesizer) == ("Second.", "b")
        assert [(entry.component, entry.reason) for entry in written.degraded] == [
            ("model", f"{error.code}: {error.message}"),
            ("x", "y"),
        ]
        assert (written.spent.calls, written.spent.cost_usd) == (2, 1.0)


async def test_the_request_reaches_the_next_writer_unchanged() -> None:
    """Question, sources, language, limit and instructions."""
    first, second = failing(), FakeSynthesizer("Second.")
    await write(first, second)
    assert first.calls == second.calls
    assert (second.calls[0].max_tokens, second.calls[0].instructions) == (9, "Short.")


async def test_tokens_of_a_failed_writer_are_reset() -> None:
    """A reset, then the next writer's tokens; the text is what followed the reset."""
    parts = await collect(failing(fail_after=2), FakeSynthesizer("Second text.", name="b"))
    assert [type(part) for part in parts] == [
        SynthesisToken,
        SynthesisToken,
        SynthesisReset,
        SynthesisToken,
        SynthesisToken,
        Synthesis,
    ]
    assert parts[2] == SynthesisReset(reason="model: llm_connection")
    assert "".join(part.text for part in parts[3:5] if isinstance(part, SynthesisToken)) == "Second text."


async def test_a_failure_before_the_first_token_needs_no_reset() -> None:
    """The next writer's tokens are the first parts."""
    parts = await collect(failing(), FakeSynthesizer("Second.", name="b"))
    assert [type(part) for part in parts] == [SynthesisToken, Synthesis]


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_last_error_is_raised_when_all_fail(streamed: bool) -> None:
    """It carries the cost of all writers."""
    writers = failing(), failing(LLMRequestError("too long", spent=CALL))
    with pytest.raises(LLMRequestError) as raised:
        await (collect(*writers) if streamed else write(*writers))
    assert raised.value.spent.calls == 2


async def test_errors_without_a_cost_lead_to_the_next_writer() -> None:
    """Writers may fail with any AppException."""
    assert (await write(failing(WebSearchError("odd")), FakeSynthesizer("Second."))).text == "Second."
    with pytest.raises(WebSearchError):
        await write(failing(WebSearchError("odd")))


async def test_other_exceptions_are_raised() -> None:
    """A bug does not lead to the next writer."""
    bug = FakeSynthesizer()
    bug.stream = None  # type: ignore[assignment,method-assign]
    with pytest.raises(TypeError):
        await write(bug, FakeSynthesizer("Second."))


async def test_cancelling_calls_no_other_writer() -> None:
    """The caller is gone."""
    second = FakeSynthesizer("Second.")
    task = asyncio.create_task(write(FakeSynthesizer(delay_s=30), second))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert second.calls == []


def test_an_empty_list_is_a_value_error() -> None:
    """It is a mistake of the wiring."""
    with pytest.raises(ValueError, match="at least one"):
        FallbackSynthesizer([])


def test_the_name_is_that_of_the_first_writer() -> None:
    """An answer that is too late is reported under this name."""
    assert FallbackSynthesizer([FakeSynthesizer(name="a"), FakeSynthesizer(name="b")]).name == "a"


async def test_sub_questions_reach_every_writer() -> None:
    """The version lists all writers, because any of them may have written."""
    first, second = failing(), FakeSynthesizer("Second.", name="b")
    first.version, second.version = "p1", "r1"
    writer = FallbackSynthesizer([first, second])
    request = replace(REQUEST, questions=("Why?",))
    await writer.synthesize(request)
    assert [part async for part in writer.stream(request)]
    assert {call.questions for call in (*first.calls, *second.calls)} == {("Why?",)}
    assert writer.version == "p1|r1"
