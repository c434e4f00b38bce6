"""Synthesis by a language model, streamed or not."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each

from modules.llm_platform.application.research.write.llm_synthesizer import WHOLE_TEXT_STEP_S, LLMSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import (
    READER_STEP_S,
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
)
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM

SOURCES = (Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water."),)
QUESTION = "What does a pump do?"


class Replay(FakeLLM):
    """Streams exactly these parts."""

    def __init__(self, *parts: LLMStreamPart) -> None:
        super().__init__()
        self._parts = parts

    async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def]
        for part in self._parts:
            yield part


async def collect(writer: LLMSynthesizer, language: str = "en") -> list[SynthesisPart]:
    return [part async for part in writer.stream(SynthesisRequest(QUESTION, SOURCES, language))]


def response(content: str) -> LLMResponse:
    return LLMResponse(content=content, provider="p", model="m")


async def test_the_synthesis_has_all_fields_of_the_response() -> None:
    """Provider, finish reason, cost and earlier failures."""
    answer = LLMResponse(
        content="Water [1].",
        provider="kimi",
        model="k2",
        finish_reason="length",
        spent=Spending(calls=2, prompt_tokens=5, completion_tokens=3, cost_usd=None),
        degraded=(Degraded(component="other", reason="down"),),
    )
    written = await LLMSynthesizer(FakeLLM([answer])).synthesize(SynthesisRequest(QUESTION, SOURCES, "en"))
    assert written == Synthesis(
        text="Water [1].", synthesizer="kimi/k2", finish_reason="length", spent=answer.spent, degraded=answer.degraded
    )


async def test_the_model_is_called_once_with_the_callers_limit() -> None:
    """It is the default model of the provider."""
    llm = FakeLLM(["Water [1]."])
    await LLMSynthesizer(llm).synthesize(
        SynthesisRequest(QUESTION, SOURCES, "en", max_tokens=77, instructions="Be brief.")
    )
    (request,) = llm.requests
    assert request.max_tokens == 77
    assert request.provider is None
    assert "Be brief." in request.messages[1].content


async def test_an_unstreamed_text_is_written_in_larger_parts() -> None:
    """The parts of the model's stream are larger. Both requests have the same key for merging equal requests."""
    llm = FakeLLM(["Water [1]."])
    for is_streamed in (True, False):
        await LLMSynthesizer(llm).synthesize(SynthesisRequest(QUESTION, SOURCES, "en", is_streamed=is_streamed))
    streamed, whole = llm.requests
    assert (streamed.step_s, whole.step_s) == (READER_STEP_S, WHOLE_TEXT_STEP_S)
    assert streamed.model_dump_json() == whole.model_dump_json()


async def test_a_text_without_markers_is_returned_unchanged() -> None:
    """The caller checks citations."""
    written = await LLMSynthesizer(FakeLLM(["Pumps move water."])).synthesize(SynthesisRequest(QUESTION, SOURCES, "en"))
    assert written.text == "Pumps move water."
    assert written.answered


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("NO_ANSWER\nThe sources only name pumps.", "The sources only name pumps."),
        ("NO_ANSWER", "Die gefundenen Quellen beantworten das nicht."),
    ],
)
async def test_no_answer_is_a_sentence(content: str, text: str) -> None:
    """That of the model without the mark, else ours, streamed or not."""
    written = await LLMSynthesizer(FakeLLM([content])).synthesize(SynthesisRequest(QUESTION, SOURCES, "de"))
    assert (written.text, written.answered) == (text, False)
    *tokens, last = await collect(LLMSynthesizer(FakeLLM([content])), "de")
    assert "".join(token.text for token in tokens if isinstance(token, SynthesisToken)) == text
    assert isinstance(last, Synthesis)
    assert (last.text, last.answered) == (text, False)


async def test_a_reset_discards_the_text_before_it() -> None:
    """Also a NO_ANSWER mark before it."""
    parts = await collect(
        LLMSynthesizer(
            Replay(
                LLMToken(text="NO_ANSWER no"),
                LLMReset(error=LLMConnectionError("The model is gone")),
                LLMToken(text="Water"),
                LLMToken(text=" [1]."),
                response("Water [1]."),
            )
        )
    )
    assert [type(part) for part in parts] == [SynthesisToken, SynthesisReset, SynthesisToken, SynthesisToken, Synthesis]
    assert parts[1] == SynthesisReset(reason="llm_connection: The model is gone")
    assert isinstance(parts[-1], Synthesis)
    assert (parts[-1].text, parts[-1].answered) == ("Water [1].", True)


async def test_a_reset_names_only_the_type_of_other_errors() -> None:
    """Their text is untrusted."""
    parts = await collect(
        LLMSynthesizer(Replay(LLMReset(error=ValueError("sk-secret")), LLMToken(text="x"), response("x")))
    )
    assert parts[0] == SynthesisReset(reason="ValueError")


async def test_a_stream_without_an_answer_is_an_error() -> None:
    """Tokens alone are not enough."""
    with pytest.raises(LLMProviderException):
        await collect(LLMSynthesizer(Replay(LLMToken(text="Water"))))


@for_each("error", [LLMBlockedError(retry_after_s=3), LLMProviderException(), BrokenStream("Wat")])
async def test_errors_of_the_model_are_raised(error: LLMException | BrokenStream) -> None:
    """With their cost."""
    for streamed in (False, True):
        writer = LLMSynthesizer(FakeLLM([error]))
        with pytest.raises(LLMException) as raised:
            await (collect(writer) if streamed else writer.synthesize(SynthesisRequest(QUESTION, SOURCES, "en")))
        assert raised.value.spent.calls == 1


async def test_closing_the_stream_closes_that_of_the_model() -> None:
    """The call ends."""
    llm = FakeLLM(["Water and so on for a long while [1]."])
    parts = LLMSynthesizer(llm).stream(SynthesisRequest(QUESTION, SOURCES, "en"))
    await anext(parts)
    assert llm.running == 1
    await parts.aclose()  # type: ignore[attr-defined]
    assert llm.running == 0


async def test_without_sources_no_model_is_called() -> None:
    """Nothing is spent."""
    llm = FakeLLM()
    parts = [part async for part in LLMSynthesizer(llm, name="writer").stream(SynthesisRequest(QUESTION, (), "de"))]
    assert [part.text for part in parts if not isinstance(part, SynthesisReset)] == ["Es wurde nichts gefunden."] * 2
    assert llm.requests == []


@for_each("written", ["No answer.", "No_ANSWER", f"Question: {QUESTION}", "<|im_start|>assistant\n<|im_end|>"])
async def test_an_empty_text_is_no_answer(written: str) -> None:
    """Streamed or not, the text says that the sources do not answer the question."""
    done = await LLMSynthesizer(FakeLLM([written])).synthesize(SynthesisRequest(QUESTION, SOURCES, "en"))
    parts = await collect(LLMSynthesizer(FakeLLM([written], chunk_chars=3)))
    for synthesis in (done, parts[-1]):
        assert isinstance(synthesis, Synthesis)
        assert (synthesis.text, synthesis.answered) == (get_messages("en").not_answered, False)


async def test_tokens_of_a_chat_template_are_removed_from_a_stream() -> None:
    """However the stream cuts them."""
    parts = await collect(LLMSynthesizer(FakeLLM(["Water [1].<|im_end|>\n<|im_start|>user\nWhy?"], chunk_chars=3)))
    assert "".join(part.text for part in parts if isinstance(part, SynthesisToken)) == "Water [1].\n"
