"""When a writer fails the next one writes, and the answer says so."""

from __future__ import annotations

import asyncio

import pytest

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
from modules.llm_platform.infrastructure.policies.fallback_synthesizer import FallbackSynthesizer
from modules.llm_platform.testing.synthesizer import FakeSynthesizer
from shared.exceptions import AppException

SOURCES = (Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water."),)
CALL = Spending(calls=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.5)


def failing(error: AppException | None = None, fail_after: int = 0) -> FakeSynthesizer:
    return FakeSynthesizer(
        "one two three",
        name="model",
        error=error or LLMConnectionError("The model is gone", spent=CALL),
        fail_after=fail_after,
    )


async def write(*writers: FakeSynthesizer) -> Synthesis:
    return await FallbackSynthesizer(writers).synthesize("What?", SOURCES, "en", max_tokens=9, instructions="Short.")


async def collect(*writers: FakeSynthesizer) -> list[SynthesisPart]:
    return [
        part
        async for part in FallbackSynthesizer(writers).stream(
            "What?", SOURCES, "en", max_tokens=9, instructions="Short."
        )
    ]


async def test_the_first_that_can_writes() -> None:
    """Nobody else is asked, and nothing is degraded."""
    first, second = FakeSynthesizer("First.", name="a", spent=CALL), FakeSynthesizer("Second.", name="b")
    written = await write(first, second)
    assert written == Synthesis(text="First.", synthesizer="a", spent=CALL)
    assert second.calls == []
    assert (await collect(first, second))[-1] == written


@pytest.mark.parametrize("error", [LLMConnectionError("gone", spent=CALL), LLMRequestError("too long", spent=CALL)])
async def test_a_failure_is_told_and_paid_for(error: LLMException) -> None:
    """`degraded` names the writer and the error, `spent` holds the failed try; a wrong request falls through as well."""
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


async def test_the_order_is_handed_on_whole() -> None:
    """Question, sources, language, limit and wishes reach the second writer as they reached the first."""
    first, second = failing(), FakeSynthesizer("Second.")
    await write(first, second)
    assert first.calls == second.calls
    assert (second.calls[0].max_tokens, second.calls[0].instructions) == (9, "Short.")


async def test_tokens_of_a_writer_that_died_are_taken_back() -> None:
    """A reset, then the next writer's tokens; the text is what came since."""
    parts = await collect(failing(fail_after=2), FakeSynthesizer("Second text.", name="b"))
    assert [type(part) for part in parts] == [
        SynthesisToken, SynthesisToken, SynthesisReset, SynthesisToken, SynthesisToken, Synthesis,
    ]  # fmt: skip
    assert parts[2] == SynthesisReset(reason="model: llm_connection")
    assert "".join(part.text for part in parts[3:5] if isinstance(part, SynthesisToken)) == "Second text."


async def test_nothing_shown_is_nothing_to_take_back() -> None:
    """A writer that dies before its first token leaves no reset."""
    parts = await collect(failing(), FakeSynthesizer("Second.", name="b"))
    assert [type(part) for part in parts] == [SynthesisToken, Synthesis]


@pytest.mark.parametrize("streamed", [False, True])
async def test_when_all_fail_the_last_error_is_raised(streamed: bool) -> None:
    """It counts what all tries cost."""
    writers = failing(), failing(LLMRequestError("too long", spent=CALL))
    with pytest.raises(LLMRequestError) as raised:
        await (collect(*writers) if streamed else write(*writers))
    assert raised.value.spent.calls == 2


async def test_an_error_without_a_price_is_survived_and_raised_like_any() -> None:
    """Writers may fail with any AppException."""
    assert (await write(failing(WebSearchError("odd")), FakeSynthesizer("Second."))).text == "Second."
    with pytest.raises(WebSearchError):
        await write(failing(WebSearchError("odd")))


async def test_what_is_no_error_of_ours_is_not_survived() -> None:
    """A bug is not a reason to ask somebody else."""
    bug = FakeSynthesizer()
    bug.synthesize = None  # type: ignore[assignment,method-assign]
    with pytest.raises(TypeError):
        await write(bug, FakeSynthesizer("Second."))


async def test_cancelling_asks_nobody_else() -> None:
    """The one who waits has gone."""
    second = FakeSynthesizer("Second.")
    task = asyncio.create_task(write(FakeSynthesizer(delay_s=30), second))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert second.calls == []


def test_there_must_be_a_writer() -> None:
    """An empty list is a mistake of the wiring, found at once."""
    with pytest.raises(ValueError, match="at least one"):
        FallbackSynthesizer([])


def test_its_name_is_that_of_the_first_writer() -> None:
    """`degraded` of an answer that came too late names who was late, not who would have stepped in."""
    assert FallbackSynthesizer([FakeSynthesizer(name="a"), FakeSynthesizer(name="b")]).name == "a"


async def test_every_writer_hears_of_the_sub_questions() -> None:
    """The one that steps in writes the same report; the version names all of them, since any may have written."""
    first, second = failing(), FakeSynthesizer("Second.", name="b")
    first.version, second.version = "p1", "r1"
    writer = FallbackSynthesizer([first, second])
    await writer.synthesize("What?", SOURCES, "en", questions=("Why?",))
    assert [part async for part in writer.stream("What?", SOURCES, "en", questions=("Why?",))]
    assert {call.questions for call in (*first.calls, *second.calls)} == {("Why?",)}
    assert writer.version == "p1|r1"
