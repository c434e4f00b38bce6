"""A second try of a model after a short failure."""

from __future__ import annotations

import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.cases import for_each
from tests.support.guards import retried_model

from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.llm_dtos import LLMReset, LLMResponse, LLMToken, Spending
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
from modules.llm_platform.infrastructure.limits.upstream_guard import MODEL
from modules.llm_platform.infrastructure.limits.upstream_limits import MIN_RETRIES, RetryBudget
from modules.llm_platform.infrastructure.models.upstream_model import UpstreamModel
from modules.llm_platform.testing import BrokenStream, FakeLLM


class Pauses(list[float]):
    """A sleep that takes no time and remembers how long it was to be."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def _whole(model: UpstreamModel, streamed: bool) -> LLMResponse:
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
        (LLMConnectionError(), MODEL.pause_s),
        (LLMUnavailableError(), MODEL.pause_s),
        (LLMBlockedError(), MODEL.pause_s),
        (LLMBlockedError(retry_after_s=1.5), 1.5 + MODEL.pause_s),
        (LLMUnavailableError(retry_after_s=0.0), MODEL.pause_s),
    ],
)
async def test_a_short_failure_is_retried_once(error: LLMException, pause_s: float, streamed: bool) -> None:
    """After Retry-After and a random part of the pause; the cost covers both tries, and nothing is degraded."""
    pauses = Pauses()
    llm = FakeLLM([error, "It answers now."])
    answer = await _whole(retried_model(llm, sleep=pauses, jitter=lambda: 1.0), streamed)
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
        LLMBlockedError(retry_after_s=MODEL.max_pause_s + 1),
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
        await _whole(retried_model(llm, sleep=pauses), streamed)
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
            await _whole(retried_model(llm, budget, sleep=pauses), streamed)
    assert caught.value is error
    assert (len(llm.requests), pauses) == (1, [])
    assert all(budget.try_spend() for _ in range(MIN_RETRIES))


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_second_failure_is_final(streamed: bool) -> None:
    """The second error is raised with the cost of both tries."""
    first = LLMConnectionError(spent=Spending(calls=1, prompt_tokens=5))
    llm = FakeLLM([first, LLMUnavailableError(), "Never requested."])
    with pytest.raises(LLMUnavailableError) as caught:
        await _whole(retried_model(llm, sleep=Pauses()), streamed)
    assert (caught.value.spent.calls, caught.value.spent.prompt_tokens) == (2, 5)
    assert len(llm.requests) == 2


async def test_a_stream_that_breaks_half_way_begins_again_after_a_reset() -> None:
    """The tokens that were passed on are void; the answer is complete, and its cost covers both tries."""
    llm = FakeLLM([BrokenStream("Half an"), "Another answer."])
    parts = await collect(retried_model(llm, sleep=Pauses()), question())
    at = next(position for position, part in enumerate(parts) if isinstance(part, LLMReset))
    answer = parts[-1]
    assert isinstance(answer, LLMResponse)
    assert "".join(part.text for part in parts[:at] if isinstance(part, LLMToken)) == "Half an"
    assert "".join(part.text for part in parts[at + 1 :] if isinstance(part, LLMToken)) == answer.content
    assert (answer.content, answer.spent.calls) == ("Another answer.", 2)


async def test_a_stream_that_is_not_retried_has_no_reset() -> None:
    """Its reader keeps the tokens that were passed on."""
    llm = FakeLLM([BrokenStream("Half an", LLMTimeoutError()), "Another answer."])
    parts = []
    with pytest.raises(LLMTimeoutError):
        async for part in retried_model(llm, sleep=Pauses()).stream(question()):
            parts.append(part)  # noqa: PERF401  the parts before the error
    assert parts
    assert all(isinstance(part, LLMToken) for part in parts)
    assert len(llm.requests) == 1
