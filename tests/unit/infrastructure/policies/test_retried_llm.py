"""A model whose service stumbles is asked once more, and never for nothing."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse, LLMToken, Spending
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMQuotaError,
    LLMRequestError,
    LLMTimeoutError,
    LLMUnavailableError,
)
from modules.llm_platform.infrastructure.policies.retries import LLM_PAUSE_S, LONGEST_PAUSE_S, RetriedLLM
from modules.llm_platform.testing import Death, FakeLLM
from modules.llm_platform.testing.llm import LLMProviderContract, collect, question


class Pauses(list[float]):
    """A sleep that takes no time and remembers how long it was to be."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def _whole(model: RetriedLLM, streamed: bool) -> LLMResponse:
    if not streamed:
        return await model.generate(question())
    *tokens, answer = await collect(model, question())
    assert isinstance(answer, LLMResponse)
    assert answer.content == "".join(part.text for part in tokens if isinstance(part, LLMToken))
    return answer


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("error", "pause_s"),
    [
        (LLMConnectionError(), LLM_PAUSE_S),
        (LLMUnavailableError(), LLM_PAUSE_S),
        (LLMBlockedError(), LLM_PAUSE_S),
        (LLMBlockedError(retry_after_s=1.5), 1.5),
        (LLMUnavailableError(retry_after_s=0.0), 0.0),
    ],
)
async def test_a_stumble_is_tried_once_more(error: LLMException, pause_s: float, streamed: bool) -> None:
    """After a short pause, or the one that was asked for; both tries are accounted, and nothing is degraded."""
    pauses = Pauses()
    llm = FakeLLM([error, "It answers now."])
    answer = await _whole(RetriedLLM(llm, sleep=pauses), streamed)
    assert answer.content == "It answers now."
    assert answer.spent.calls == 2
    assert answer.degraded == ()
    assert pauses == [pause_s]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        LLMTimeoutError(),
        LLMQuotaError(),
        LLMBlockedError(retry_after_s=LONGEST_PAUSE_S + 1),
        LLMConfigError(),
        LLMRequestError(),
        LLMProviderException(),
    ],
)
async def test_what_a_second_try_cannot_help_is_final(error: LLMException, streamed: bool) -> None:
    """A timeout has used up its time, a quota stays empty, a wrong request stays wrong, nonsense was paid for."""
    pauses = Pauses()
    llm = FakeLLM([error, "Too late."])
    with pytest.raises(type(error)) as caught:
        await _whole(RetriedLLM(llm, sleep=pauses), streamed)
    assert caught.value is error
    assert caught.value.spent.calls == 1
    assert (len(llm.requests), pauses) == (1, [])


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_second_failure_is_final_and_tells_what_both_cost(streamed: bool) -> None:
    """Two tries, not three; the error of the second, the cost of both."""
    first = LLMConnectionError(spent=Spending(calls=1, prompt_tokens=5))
    llm = FakeLLM([first, LLMUnavailableError(), "Never asked for."])
    with pytest.raises(LLMUnavailableError) as caught:
        await _whole(RetriedLLM(llm, sleep=Pauses()), streamed)
    assert (caught.value.spent.calls, caught.value.spent.prompt_tokens) == (2, 5)
    assert len(llm.requests) == 2


async def test_a_stream_that_has_begun_is_not_begun_again() -> None:
    """Its words are with the reader: who takes them back is a matter of failover."""
    llm = FakeLLM([Death("Half an"), "Another answer."])
    with pytest.raises(LLMConnectionError):
        await collect(RetriedLLM(llm, sleep=Pauses()), question())
    assert len(llm.requests) == 1


async def test_it_warms_up_what_it_wraps() -> None:
    """The power of the model behind it is not lost; one that has none is left alone."""

    class Warm(FakeLLM):
        warmed = 0

        async def warm_up(self) -> None:
            self.warmed += 1

    warm = Warm()
    await RetriedLLM(warm).warm_up()
    await RetriedLLM(FakeLLM()).warm_up()
    assert warm.warmed == 1


class TestRetriedLLM(LLMProviderContract):
    """The policy is the port."""

    @pytest.fixture
    def provider(self) -> RetriedLLM:
        return RetriedLLM(FakeLLM())

    @pytest.fixture
    def failing(self) -> RetriedLLM:
        return RetriedLLM(FakeLLM([LLMUnavailableError()]), sleep=Pauses())

    @pytest.fixture
    def slow(self) -> RetriedLLM:
        return RetriedLLM(FakeLLM(delay_s=10))

    @pytest.fixture
    def dying(self) -> RetriedLLM:
        return RetriedLLM(FakeLLM([Death("A few words")]))
