"""The scripted model fulfils the contract of the port, and follows its script."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.llm_contract import LLMProviderContract, collect, question

from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM

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
        return FakeLLM([BrokenStream("half an ans")])


async def test_answers_follow_the_script() -> None:
    """The last answer is repeated."""
    llm = FakeLLM(["one", "two"])
    assert [(await llm.generate(question())).content for _ in range(3)] == ["one", "two", "two"]


async def test_requests_are_recorded() -> None:
    """Also streamed ones."""
    llm = FakeLLM()
    await llm.generate(question("first"))
    await collect(llm, question("second"))
    assert [request.messages[0].content for request in llm.requests] == ["first", "second"]


async def test_a_scripted_exception_is_raised() -> None:
    """The same object, with its cost."""
    for error in (LLMBlockedError("later", retry_after_s=7), ZeroDivisionError("a bug")):
        with pytest.raises(type(error)) as caught:
            await FakeLLM([error]).generate(question())
        assert caught.value is error


async def test_chunks_have_the_requested_length() -> None:
    """`chunk_chars` of the streamed text."""
    parts = await collect(FakeLLM(["abcdefgh"], chunk_chars=3), question())
    assert [part.text for part in parts if isinstance(part, LLMToken)] == ["abc", "def", "gh"]


async def test_a_scripted_response_is_returned_unchanged() -> None:
    """With its finish reason."""
    answer = LLMResponse(content="cut", provider="fake", model="fake-1", finish_reason="length")
    assert await FakeLLM([answer]).generate(question()) is answer
    assert (await collect(FakeLLM([answer]), question()))[-1] is answer


async def test_an_empty_text_is_an_error_with_a_cost() -> None:
    """The port has no empty answers."""
    with pytest.raises(LLMProviderException) as caught:
        await FakeLLM([" "]).generate(question())
    assert caught.value.spent.prompt_tokens > 0


async def test_a_failure_costs_the_written_tokens() -> None:
    """`generate` raises it too."""
    with pytest.raises(LLMException) as caught:
        await FakeLLM([BrokenStream("some words")]).generate(question())
    assert caught.value.spent.completion_tokens > 0


async def test_running_is_zero_after_cancelling() -> None:
    """A test can detect a leak."""
    llm = FakeLLM(delay_s=LONG_S)
    task = asyncio.create_task(llm.generate(question()))
    await asyncio.sleep(0)
    assert llm.running == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert llm.running == 0


async def test_the_fake_has_a_ping() -> None:
    """For health checks."""
    assert await FakeLLM().ping()


def test_an_empty_script_is_a_value_error() -> None:
    """It is a mistake of the test."""
    with pytest.raises(ValueError, match="at least one answer"):
        FakeLLM([])
