"""A second try of a model after a short failure."""

from __future__ import annotations

import pytest
from tests.cases import for_each

from modules.llm_platform.domain.deadline import deadline_in
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
from modules.llm_platform.infrastructure.policies.retries import (
    LLM_PAUSE_S,
    MAX_LLM_PAUSE_S,
    MIN_RETRIES,
    RetriedLLM,
    RetryBudget,
)
from modules.llm_platform.testing import BrokenStream, FakeLLM
from modules.llm_platform.testing.llm import collect, question


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


@for_each("streamed", [False, True])
@for_each(
    ("error", "pause_s"),
    [
        (LLMConnectionError(), LLM_PAUSE_S),
        (LLMUnavailableError(), LLM_PAUSE_S),
        (LLMBlockedError(), LLM_PAUSE_S),
        (LLMBlockedError(retry_after_s=1.5), 1.5 + LLM_PAUSE_S),
        (LLMUnavailableError(retry_after_s=0.0), LLM_PAUSE_S),
    ],
)
async def test_a_short_failure_is_retried_once(error: LLMException, pause_s: float, streamed: bool) -> None:
    """After Retry-After and a random part of the pause; the cost covers both tries, and nothing is degraded."""
    pauses = Pauses()
    llm = FakeLLM([error, "It answers now."])
    answer = await _whole(RetriedLLM(llm, sleep=pauses, jitter=lambda: 1.0), streamed)
    assert answer.content == "It answers now."
    assert answer.spent.calls == 2
    assert answer.degraded == ()
    assert pauses == [pause_s]


@for_each("streamed", [False, True])
@for_each(
    "error",
    [
        LLMTimeoutError(),
        LLMQuotaError(),
        LLMBlockedError(retry_after_s=MAX_LLM_PAUSE_S + 1),
        LLMConfigError(),
        LLMRequestError(),
        LLMProviderException(),
    ],
)
async def test_other_failures_are_final(error: LLMException, streamed: bool) -> None:
    """Timeouts, quotas, wrong requests and invalid answers."""
    pauses = Pauses()
    llm = FakeLLM([error, "Too late."])
    with pytest.raises(type(error)) as caught:
        await _whole(RetriedLLM(llm, sleep=pauses), streamed)
    assert caught.value is error
    assert caught.value.spent.calls == 1
    assert (len(llm.requests), pauses) == (1, [])


@pytest.mark.parametrize("streamed", [False, True])
async def test_no_pause_outlasts_the_deadline(streamed: bool) -> None:
    """The first failure says why, and the retry budget keeps its share."""
    error = LLMBlockedError(retry_after_s=1.5)
    pauses, budget = Pauses(), RetryBudget()
    llm = FakeLLM([error, "Too late."])
    async with deadline_in(1.0):
        with pytest.raises(LLMBlockedError) as caught:
            await _whole(RetriedLLM(llm, budget, sleep=pauses), streamed)
    assert caught.value is error
    assert (len(llm.requests), pauses) == (1, [])
    assert all(budget.try_spend() for _ in range(MIN_RETRIES))


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_second_failure_is_final(streamed: bool) -> None:
    """The second error is raised with the cost of both tries."""
    first = LLMConnectionError(spent=Spending(calls=1, prompt_tokens=5))
    llm = FakeLLM([first, LLMUnavailableError(), "Never requested."])
    with pytest.raises(LLMUnavailableError) as caught:
        await _whole(RetriedLLM(llm, sleep=Pauses()), streamed)
    assert (caught.value.spent.calls, caught.value.spent.prompt_tokens) == (2, 5)
    assert len(llm.requests) == 2


async def test_a_stream_that_has_begun_is_not_retried() -> None:
    """Its tokens were already passed on."""
    llm = FakeLLM([BrokenStream("Half an"), "Another answer."])
    with pytest.raises(LLMConnectionError):
        await collect(RetriedLLM(llm, sleep=Pauses()), question())
    assert len(llm.requests) == 1
