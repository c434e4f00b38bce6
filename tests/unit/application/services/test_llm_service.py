"""Language models as doors and modules use them: answers, errors, and a log without words."""

from __future__ import annotations

import logging

import pytest
from tests.fakes.llm_contract import question
from tests.support.guards import router

from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMConnectionError, LLMException
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM

SECRET_WORDS = "what nobody may read"


async def _streamed(service: LLMService) -> list[LLMToken | LLMResponse]:
    return [part async for part in service.stream(question(SECRET_WORDS))]


async def test_answers_come_through_whole_and_streamed() -> None:
    """The service changes nothing about an answer."""
    service = LLMService(FakeLLM(["An answer."]))
    whole = await service.generate(question())
    parts = await _streamed(service)
    assert whole.content == parts[-1].content == "".join(part.text for part in parts[:-1])


async def test_without_a_model_it_says_what_to_set() -> None:
    """Every call names the variables, and that research run works without."""
    service = LLMService(None)
    for call in (lambda: service.generate(question()), lambda: _streamed(service)):
        with pytest.raises(LLMConfigError, match=r"LLM_API_KEY.*KIMI_API_KEY"):
            await call()


async def test_a_chat_is_not_begun_twice() -> None:
    """A model that dies after its first word ends the stream with its error; the next one is not asked."""
    next_one = FakeLLM(name="second")
    dying = FakeLLM([BrokenStream("half an ans")], name="first")
    service = LLMService(router(dying, next_one))
    with pytest.raises(LLMConnectionError):
        await _streamed(service)
    assert not next_one.requests


async def test_a_failure_before_the_first_word_goes_unnoticed() -> None:
    """The next model answers, streamed too."""
    service = LLMService(router(FakeLLM([LLMConnectionError()], name="first"), FakeLLM(name="second")))
    assert (await _streamed(service))[-1].provider == "second"


async def test_the_log_has_time_and_cost_but_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """Each answer and each failure has one log line with figures, without the question or the answer."""
    caplog.set_level(logging.INFO)
    service = LLMService(
        FakeLLM([SECRET_WORDS, SECRET_WORDS, LLMConnectionError("the line is down"), BrokenStream(SECRET_WORDS)])
    )
    await service.generate(question(SECRET_WORDS))
    await _streamed(service)
    for call in (lambda: service.generate(question(SECRET_WORDS)), lambda: _streamed(service)):
        with pytest.raises(LLMException):
            await call()
    answered, streamed, failed, died = (vars(record) for record in caplog.records)
    for record in (answered, streamed):
        assert (record["provider"], record["model"], record["llm_calls"]) == ("fake", "fake-1", 1)
        assert record["completion_tokens"] > 0
        assert record["duration_ms"] >= 0
    assert (failed["levelname"], failed["code"], failed["reason"]) == ("WARNING", "llm_connection", "the line is down")
    assert died["tokens"] > 0
    assert SECRET_WORDS not in caplog.text + repr([answered, streamed, failed, died])


async def test_a_reader_that_leaves_leaves_nothing_running() -> None:
    """Closing the stream closes the model's."""
    model = FakeLLM(["some words to read"], chunk_chars=4)
    parts = LLMService(model).stream(question())
    assert isinstance(await anext(parts), LLMToken)
    await parts.aclose()
    assert model.running == 0
