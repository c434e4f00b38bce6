"""A request says how many calls it may take in all: retrying and failover keep to it."""

from __future__ import annotations

import pytest

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMStreamPart, Spending
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.retries import RetriedLLM
from modules.llm_platform.testing.llm import Death, FakeLLM, collect, question


async def no_pause(seconds: float) -> None:
    """Nobody waits in a test."""


def bounded(tries: int | None) -> LLMRequest:
    return question().model_copy(update={"max_tries": tries})


async def whole(llm: ILLMProvider, streamed: bool, tries: int | None) -> LLMResponse:
    if not streamed:
        return await llm.generate(bounded(tries))
    answer = (await collect(llm, bounded(tries)))[-1]
    assert isinstance(answer, LLMResponse)
    return answer


def models(*errors: type[LLMException]) -> list[FakeLLM]:
    """One for each error, and a good one behind them."""
    failing = [FakeLLM([error()], name=f"bad-{number}") for number, error in enumerate(errors)]
    return [*failing, FakeLLM(["fine"], name="good")]


@pytest.mark.parametrize("streamed", [False, True])
class TestTries:
    @pytest.mark.parametrize(("tries", "asked"), [(1, 1), (2, 2), (None, 2)])
    async def test_a_second_try_only_where_one_is_left(self, tries: int | None, asked: int, streamed: bool) -> None:
        """One try is one call; without a bound there are two as ever."""
        fake = FakeLLM([LLMConnectionError()])
        with pytest.raises(LLMConnectionError) as caught:
            await whole(RetriedLLM(fake, sleep=no_pause), streamed, tries)
        assert len(fake.requests) == asked
        assert caught.value.spent.calls == asked

    @pytest.mark.parametrize(("tries", "asked"), [(1, 1), (2, 2), (3, 3)])
    async def test_failover_goes_as_far_as_the_tries(self, tries: int, asked: int, streamed: bool) -> None:
        """The last error is raised when they are used up, with what all of them cost."""
        three = models(LLMConnectionError, LLMProviderException, LLMConnectionError)
        with pytest.raises(LLMException) as caught:
            await whole(LLMRouter(LLMRegistry(three)), streamed, tries)
        assert [len(model.requests) for model in three] == [1] * asked + [0] * (4 - asked)
        assert caught.value.spent.calls == asked

    async def test_enough_tries_reach_the_one_that_answers(self, streamed: bool) -> None:
        """As without a bound."""
        answer = await whole(LLMRouter(LLMRegistry(models(LLMConnectionError))), streamed, 2)
        assert (answer.content, answer.spent.calls) == ("fine", 2)

    async def test_what_one_took_the_next_has_not(self, streamed: bool) -> None:
        """A model behind the router that tries twice gets only the tries that are left."""
        first, second = FakeLLM([LLMConnectionError()], name="a"), FakeLLM([LLMConnectionError()], name="b")
        router = LLMRouter(LLMRegistry([RetriedLLM(each, sleep=no_pause) for each in (first, second)]))
        with pytest.raises(LLMConnectionError):
            await whole(router, streamed, 3)
        assert (len(first.requests), len(second.requests)) == (2, 1)

    async def test_who_made_no_call_used_no_try_up(self, streamed: bool) -> None:
        """A model that is busy sends one away before anything is asked: the next one still may be."""

        class Busy(FakeLLM):
            async def generate(self, request: LLMRequest) -> LLMResponse:
                raise LLMBlockedError(spent=Spending())

            async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def]
                raise LLMBlockedError(spent=Spending())
                yield

        answer = await whole(LLMRouter(LLMRegistry([Busy(name="busy"), FakeLLM(["fine"], name="b")])), streamed, 1)
        assert answer.content == "fine"


async def test_a_stream_that_dies_at_its_last_try_is_not_begun_anew() -> None:
    """No reset is told when nobody follows."""
    dying, next_one = FakeLLM([Death("half an ans")], name="a"), FakeLLM(name="b")
    parts: list[LLMStreamPart] = []
    with pytest.raises(LLMConnectionError):
        async for part in LLMRouter(LLMRegistry([dying, next_one])).stream(bounded(1)):
            parts += [part]
    assert parts
    assert not any(isinstance(part, LLMReset) for part in parts)
    assert next_one.requests == []


class TestPreferring:
    async def test_that_one_is_asked_first_and_the_others_after_it(self) -> None:
        """The rest keep their order."""
        failing = [FakeLLM([LLMConnectionError(f"{name} is down")], name=name) for name in ("a", "b", "c")]
        with pytest.raises(LLMConnectionError, match="b is down; a is down; c is down"):
            await LLMRouter(LLMRegistry(failing)).preferring("b").generate(question())

    async def test_who_rests_for_one_rests_for_all(self) -> None:
        """A model that failed one stage is not asked by another before its time."""
        broken, good = FakeLLM([LLMConnectionError()], name="a"), FakeLLM(["fine"], name="b")
        router = LLMRouter(LLMRegistry([broken, good]))
        await router.preferring("a").generate(question())
        await router.preferring("a").generate(question())
        await router.generate(question())
        assert len(broken.requests) == 1
