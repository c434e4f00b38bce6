"""Failover over language models: who is asked when, what is told of failures, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.chat_server import ChatServer, Reply, chunk, stream

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.dtos.llm_dtos import (
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
)
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMRequestError,
    LLMTimeoutError,
)
from modules.llm_platform.infrastructure.adapters.openai import OpenAIProvider
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.testing.llm import Death, FakeLLM, collect, question
from modules.llm_platform.testing.patience import CLOSES_WITHIN_S

FAILURES = [LLMConnectionError, LLMTimeoutError, LLMBlockedError, LLMProviderException, LLMConfigError]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _failing(error: LLMException, name: str = "first") -> FakeLLM:
    return FakeLLM([error], name=name)


def _good(name: str = "second") -> FakeLLM:
    return FakeLLM([f"from {name}"], name=name)


def _router(clock: Clock, *models: FakeLLM) -> LLMRouter:
    return LLMRouter(LLMRegistry(models), clock)


async def _provider_of(router: LLMRouter) -> str:
    return (await router.generate(question())).provider


@pytest.mark.parametrize("kind", FAILURES)
async def test_the_next_one_answers_on_every_kind_of_failure(clock: Clock, kind: type[LLMException]) -> None:
    """Whole and streamed: the answer is the second one's and names the first one's failure and cost."""
    for streamed in (False, True):
        failed = kind("gone", spent=Spending(calls=1, prompt_tokens=5, cost_usd=0.5))
        router = _router(clock, _failing(failed), _good())
        if streamed:
            parts = await collect(router, question())
            assert not [part for part in parts if isinstance(part, LLMReset)]
            answer = parts[-1]
            assert isinstance(answer, LLMResponse)
        else:
            answer = await router.generate(question())
        assert answer.content == "from second"
        assert [(entry.component, entry.reason) for entry in answer.degraded] == [("first", f"{kind.code}: gone")]
        assert answer.spent.calls == 2
        assert answer.spent.prompt_tokens == 5 + answer.usage.prompt_tokens
        assert answer.spent.cost_usd == 0.5


async def test_the_callers_mistake_is_a_mistake_everywhere(clock: Clock) -> None:
    """An LLMRequestError is raised at once, whole and streamed, with what failed tries before it cost."""
    mistake = LLMRequestError("too long", spent=Spending(calls=1))
    broken, wrong, never = _failing(LLMConnectionError(), "a"), _failing(mistake, "b"), _good("c")
    for call in (lambda r: r.generate(question()), lambda r: collect(r, question())):
        mistake.spent = Spending(calls=1)
        with pytest.raises(LLMRequestError) as caught:
            await call(_router(clock, broken, wrong, never))
        assert caught.value.spent.calls == 2
    assert not never.requests


async def test_an_answer_without_failures_is_given_as_it_is(clock: Clock) -> None:
    """Nothing is copied where nothing went wrong."""
    answer = LLMResponse(content="a", provider="first", model="fake-1")
    assert await _router(clock, FakeLLM([answer], name="first")).generate(question()) is answer


@pytest.mark.parametrize(
    ("error", "rest_s"),
    [
        (LLMConnectionError(), 10),
        (LLMTimeoutError(), 10),
        (LLMConnectionError(retry_after_s=25), 25),
        (LLMBlockedError(), 60),
        (LLMBlockedError(retry_after_s=7), 7),
        (LLMBlockedError(retry_after_s=1e9), 3600),
        (LLMConfigError(), 60),
        (LLMProviderException(), 5),
    ],
)
async def test_who_failed_rests(clock: Clock, error: LLMException, rest_s: float) -> None:
    """Until its rest is over it is not asked, and the answers tell that it was passed over."""
    first = FakeLLM([error, "from first"], name="first")
    router = _router(clock, first, _good())
    assert await _provider_of(router) == "second"
    clock.now += rest_s - 0.001
    answer = await router.generate(question())
    assert (answer.provider, len(first.requests)) == ("second", 1)
    assert [entry.component for entry in answer.degraded] == ["first"]
    assert answer.spent.calls == 1
    clock.now += 0.002
    answer = await router.generate(question())
    assert (answer.provider, answer.degraded) == ("first", ())


async def test_who_is_asked_later_anyway_is_not_missed(clock: Clock) -> None:
    """A resting model that stands behind the one that answers is nothing to tell."""
    flaky = FakeLLM([LLMConnectionError(), "from first"], name="first")
    router = _router(clock, flaky, _failing(LLMConfigError(), "second"), _good("third"))
    await router.generate(question())
    clock.now += 11
    answer = await router.generate(question())
    assert (answer.provider, answer.degraded) == ("first", ())


async def test_a_resting_one_is_the_last_resort(clock: Clock) -> None:
    """When every other one failed, or none is left, it is asked all the same."""
    first = FakeLLM([LLMBlockedError(), "from first"], name="first")
    second = FakeLLM(["from second", LLMConnectionError()], name="second")
    router = _router(clock, first, second)
    assert await _provider_of(router) == "second"
    answer = await router.generate(question())
    assert answer.provider == "first"
    assert [entry.component for entry in answer.degraded] == ["second"]
    alone = _router(clock, FakeLLM([LLMBlockedError(), "from alone"], name="alone"))
    with pytest.raises(LLMBlockedError):
        await alone.generate(question())
    assert await _provider_of(alone) == "alone"


async def test_success_ends_a_rest(clock: Clock) -> None:
    """One that answered as the last resort is asked first again."""
    first = FakeLLM([LLMBlockedError(), "from first"], name="first")
    router = _router(clock, first, _failing(LLMConnectionError(), "second"))
    with pytest.raises(LLMConnectionError):
        await router.generate(question())
    assert await _provider_of(router) == "first"
    parts = await collect(router, question())
    assert parts[-1].provider == "first"
    assert parts[-1].degraded == ()


async def test_when_all_fail_the_error_names_them_and_their_cost(clock: Clock) -> None:
    """The last failure's kind and wait, every model's message, all that was spent."""
    first = LLMConfigError("first: set A", spent=Spending(calls=1, completion_tokens=3))
    second = LLMBlockedError("second: wait", retry_after_s=9, spent=Spending(calls=1, completion_tokens=4))
    for call in (lambda r: r.generate(question()), lambda r: collect(r, question())):
        with pytest.raises(LLMBlockedError, match="first: set A; second: wait") as caught:
            await call(_router(clock, _failing(first), _failing(second, "second")))
        assert caught.value.retry_after_s == 9
        assert (caught.value.spent.calls, caught.value.spent.completion_tokens) == (2, 7)


async def test_the_error_of_the_only_one_is_given_as_it_is(clock: Clock) -> None:
    """A single model's configuration error surfaces."""
    error = LLMConfigError("set KIMI_API_KEY")
    with pytest.raises(LLMConfigError) as caught:
        await _router(clock, _failing(error)).generate(question())
    assert caught.value is error


async def test_dying_after_words_resets_and_goes_on(clock: Clock) -> None:
    """The reader is told that the words are void, then the next model begins; all words are paid for."""
    router = _router(clock, FakeLLM([Death("half an ans")], name="first"), _good())
    parts = await collect(router, question())
    at = next(i for i, part in enumerate(parts) if isinstance(part, LLMReset))
    assert isinstance(parts[at].error, LLMConnectionError)
    assert "".join(part.text for part in parts[at + 1 : -1]) == parts[-1].content == "from second"
    assert parts[-1].spent.calls == 2
    assert parts[-1].degraded[0].component == "first"
    assert await _provider_of(router) == "second"


async def test_dying_with_no_other_left_is_an_error(clock: Clock) -> None:
    """Words of the last one are not reset: the error follows them."""
    told: list[LLMStreamPart] = []
    with pytest.raises(LLMConnectionError) as caught:
        async for part in _router(clock, FakeLLM([Death("half an ans")])).stream(question()):
            told.append(part)  # noqa: PERF401  what came before the error is what matters
    assert all(isinstance(part, LLMToken) for part in told)
    assert caught.value.spent.completion_tokens > 0


class Silent(FakeLLM):
    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        self.requests.append(request)
        yield LLMToken(text="and then nothing")


async def test_a_stream_without_an_end_is_a_death(clock: Clock) -> None:
    """A provider that ends without its answer has failed."""
    parts = await collect(_router(clock, Silent(name="first"), _good()), question())
    assert [type(part) for part in parts[:2]] == [LLMToken, LLMReset]
    assert parts[-1].content == "from second"


async def test_a_model_or_provider_can_be_asked_for(clock: Clock) -> None:
    """Only those that fit are asked, also when they fail."""
    first, second = FakeLLM(name="first", model="small"), FakeLLM(name="second", model="large")
    router = _router(clock, first, second)
    assert (await router.generate(question(model="large"))).provider == "second"
    assert (await router.generate(question(provider="second"))).provider == "second"
    broken = _router(clock, first, FakeLLM([LLMConnectionError()], name="second", model="large"))
    with pytest.raises(LLMConnectionError):
        await broken.generate(question(model="large"))


async def test_none_configured_says_what_to_set(clock: Clock) -> None:
    """Without a model the error names the variables and what works without."""
    for call in (lambda r: r.generate(question()), lambda r: collect(r, question())):
        with pytest.raises(LLMConfigError, match=r"LLM_API_KEY.*KIMI_API_KEY.*extractive"):
            await call(_router(clock))


async def test_a_bug_is_not_failed_over(clock: Clock) -> None:
    """What is no LLMException is nobody's outage."""
    second = _good()
    with pytest.raises(ZeroDivisionError):
        await _router(clock, FakeLLM([ZeroDivisionError()], name="first"), second).generate(question())
    assert not second.requests


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_asks_nobody_else_and_closes_the_connection(clock: Clock, streamed: bool) -> None:
    """The service, which would never have ended, sees us go; nothing rests because of it."""
    reply = stream(chunk("a"), ending="hang") if streamed else Reply(ending="hang")
    second = _good()
    async with ChatServer(reply).running() as server:
        real = OpenAIProvider(LLMConnection(name="first", kind="vllm", model="m", base_url=server.url))
        router = LLMRouter(LLMRegistry((real, second)), clock)
        task = asyncio.create_task(collect(router, question()) if streamed else router.generate(question()))
        while not server.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait_for(server.gone.wait(), CLOSES_WITHIN_S)
        with pytest.raises(asyncio.CancelledError):
            await task
        await real.aclose()
    assert not second.requests
    assert not router._resting


async def test_closing_a_stream_closes_the_model(clock: Clock) -> None:
    """A reader that leaves early leaves nothing running."""
    model = FakeLLM(["some words to read"], chunk_chars=4)
    parts = _router(clock, model).stream(question())
    assert isinstance(await anext(parts), LLMToken)
    await parts.aclose()
    assert model.running == 0
