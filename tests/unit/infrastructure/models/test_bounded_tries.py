"""A request bounds the number of calls: retries and failover keep to it."""

from __future__ import annotations

import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.guards import retried_model, router

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMStreamPart, Spending
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM


async def no_pause(seconds: float) -> None:
    """No pause in tests."""


def bounded(tries: int | None) -> LLMRequest:
    return question().model_copy(update={"max_tries": tries})


async def call(llm: ILLMProvider, streamed: bool, tries: int | None) -> LLMResponse:
    if not streamed:
        return await llm.generate(bounded(tries))
    answer = (await collect(llm, bounded(tries)))[-1]
    assert isinstance(answer, LLMResponse)
    return answer


def models(*errors: type[LLMException]) -> list[FakeLLM]:
    """Return one failing model for each error, followed by a working one."""
    failing = [FakeLLM([error()], name=f"bad-{number}") for number, error in enumerate(errors)]
    return [*failing, FakeLLM(["fine"], name="good")]


@pytest.mark.parametrize("streamed", [False, True])
class TestTries:
    @pytest.mark.parametrize(("tries", "calls"), [(1, 1), (2, 2), (None, 2)])
    async def test_a_retry_needs_a_remaining_try(self, tries: int | None, calls: int, streamed: bool) -> None:
        """One try is one call; without a bound there are two."""
        fake = FakeLLM([LLMConnectionError()])
        with pytest.raises(LLMConnectionError) as caught:
            await call(retried_model(fake, sleep=no_pause), streamed, tries)
        assert len(fake.requests) == calls
        assert caught.value.spent.calls == calls

    @pytest.mark.parametrize(("tries", "calls"), [(1, 1), (2, 2), (3, 3)])
    async def test_failover_stops_when_the_tries_are_used_up(self, tries: int, calls: int, streamed: bool) -> None:
        """The last error is raised with the cost of all calls."""
        three = models(LLMConnectionError, LLMProviderException, LLMConnectionError)
        with pytest.raises(LLMException) as caught:
            await call(router(*three), streamed, tries)
        assert [len(model.requests) for model in three] == [1] * calls + [0] * (4 - calls)
        assert caught.value.spent.calls == calls

    async def test_enough_tries_reach_the_model_that_answers(self, streamed: bool) -> None:
        """Same as without a bound."""
        answer = await call(router(*models(LLMConnectionError)), streamed, 2)
        assert (answer.content, answer.spent.calls) == ("fine", 2)

    async def test_tries_of_one_model_count_for_the_next(self, streamed: bool) -> None:
        """A retrying model after the router gets only the remaining attempts."""
        first, second = FakeLLM([LLMConnectionError()], name="a"), FakeLLM([LLMConnectionError()], name="b")
        both = router(*(retried_model(side, sleep=no_pause) for side in (first, second)))
        with pytest.raises(LLMConnectionError):
            await call(both, streamed, 3)
        assert (len(first.requests), len(second.requests)) == (2, 1)

    async def test_a_failure_without_a_call_uses_no_try(self, streamed: bool) -> None:
        """A rate-limited model refuses before any call: the next one is still called."""

        class Busy(FakeLLM):
            async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def]
                raise LLMBlockedError(spent=Spending())
                yield

        answer = await call(router(Busy(name="busy"), FakeLLM(["fine"], name="b")), streamed, 1)
        assert answer.content == "fine"


async def test_a_stream_that_fails_at_its_last_try_is_not_restarted() -> None:
    """No reset is sent when no other model follows."""
    failing, next_model = FakeLLM([BrokenStream("half an ans")], name="a"), FakeLLM(name="b")
    parts: list[LLMStreamPart] = []
    with pytest.raises(LLMConnectionError):
        async for part in router(failing, next_model).stream(bounded(1)):
            parts += [part]
    assert parts
    assert not any(isinstance(part, LLMReset) for part in parts)
    assert next_model.requests == []


class TestPreferring:
    async def test_the_preferred_model_is_called_first(self) -> None:
        """The others keep their order."""
        failing = [FakeLLM([LLMConnectionError(f"{name} is down")], name=name) for name in ("a", "b", "c")]
        with pytest.raises(LLMConnectionError, match="b is down; a is down; c is down"):
            await router(*failing).prefer("b").generate(question())

    async def test_routers_share_open_circuits(self) -> None:
        """A model that failed in one stage is skipped by the others."""
        broken, good = FakeLLM([LLMConnectionError()], name="a"), FakeLLM(["fine"], name="b")
        routed = router(broken, good)
        await routed.prefer("a").generate(question())
        await routed.prefer("a").generate(question())
        await routed.generate(question())
        assert len(broken.requests) == 1
