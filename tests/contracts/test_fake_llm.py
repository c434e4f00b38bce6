"""The scripted model keeps the promises of the port, and the script."""

from __future__ import annotations

import asyncio

import pytest

from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.testing.llm import Death, FakeLLM, LLMProviderContract, collect, question

LONG_S = 30.0


class TestFakeLLM(LLMProviderContract):
    @pytest.fixture
    def provider(self) -> FakeLLM:
        return FakeLLM(["An event loop runs callbacks."])

    @pytest.fixture
    def failing(self) -> FakeLLM:
        return FakeLLM([LLMConnectionError()])

    @pytest.fixture
    def slow(self) -> FakeLLM:
        return FakeLLM(delay_s=LONG_S)

    @pytest.fixture
    def dying(self) -> FakeLLM:
        return FakeLLM([Death("half an ans")])


async def test_answers_come_in_turn_and_the_last_one_stays() -> None:
    """The script is followed in order; its last line serves every later call."""
    llm = FakeLLM(["one", "two"])
    assert [(await llm.generate(question())).content for _ in range(3)] == ["one", "two", "two"]


async def test_requests_are_kept() -> None:
    """Every request can be looked at afterwards, streamed ones too."""
    llm = FakeLLM()
    await llm.generate(question("first"))
    await collect(llm, question("second"))
    assert [request.messages[0].content for request in llm.requests] == ["first", "second"]


async def test_an_exception_of_any_kind_is_raised_as_scripted() -> None:
    """The scripted object itself is raised; what the script says it cost is kept."""
    for error in (LLMBlockedError("later", retry_after_s=7), ZeroDivisionError("a bug")):
        with pytest.raises(type(error)) as caught:
            await FakeLLM([error]).generate(question())
        assert caught.value is error


async def test_chunks_have_the_length_asked_for() -> None:
    """`chunk_chars` cuts the streamed text."""
    parts = await collect(FakeLLM(["abcdefgh"], chunk_chars=3), question())
    assert [part.text for part in parts if isinstance(part, LLMToken)] == ["abc", "def", "gh"]


async def test_a_finished_response_is_given_as_it_is() -> None:
    """A scripted LLMResponse decides its own finish reason."""
    answer = LLMResponse(content="cut", provider="fake", model="fake-1", finish_reason="length")
    assert await FakeLLM([answer]).generate(question()) is answer
    assert (await collect(FakeLLM([answer]), question()))[-1] is answer


async def test_an_empty_text_is_a_failure_that_costs() -> None:
    """The port knows no empty answer, so the fake gives none either."""
    with pytest.raises(LLMProviderException) as caught:
        await FakeLLM([" "]).generate(question())
    assert caught.value.spent.prompt_tokens > 0


async def test_death_costs_the_words_that_were_written() -> None:
    """A death is an error for `generate` as well, and its spending counts the words."""
    with pytest.raises(LLMException) as caught:
        await FakeLLM([Death("some words")]).generate(question())
    assert caught.value.spent.completion_tokens > 0


async def test_nothing_is_left_running() -> None:
    """`running` is 0 again after a cancelled call, so that a test can see a leak."""
    llm = FakeLLM(delay_s=LONG_S)
    task = asyncio.create_task(llm.generate(question()))
    await asyncio.sleep(0)
    assert llm.running == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert llm.running == 0


async def test_it_can_be_asked_how_it_is() -> None:
    """Health checks work on the fake."""
    assert await FakeLLM().ping()


def test_an_empty_script_is_refused() -> None:
    """A fake without a line to say is a mistake of the test."""
    with pytest.raises(ValueError, match="at least one answer"):
        FakeLLM([])
