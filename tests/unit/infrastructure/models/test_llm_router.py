"""Failover over language models: order, cooldown, reported failures and cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.chat_server import DONE, ChatServer, Reply, answer, chunk, stream
from tests.support.clock import Clock
from tests.support.guards import guarded_model

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
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.llm_router import LLMRouter
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
from modules.llm_platform.testing.llm import BrokenStream, FakeLLM
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S

FAILURES = [LLMConnectionError, LLMTimeoutError, LLMBlockedError, LLMProviderException, LLMConfigError]


def _failing(error: LLMException, name: str = "first") -> FakeLLM:
    return FakeLLM([error], name=name)


def _good(name: str = "second") -> FakeLLM:
    return FakeLLM([f"from {name}"], name=name)


def _router(clock: Clock, *models: ILLMProvider) -> LLMRouter:
    return LLMRouter([guarded_model(model, circuit=CircuitBreaker(model.name, clock=clock)) for model in models])


async def _provider_of(router: LLMRouter) -> str:
    return (await router.generate(question())).provider


@pytest.mark.parametrize("kind", FAILURES)
async def test_the_next_model_answers_on_every_kind_of_failure(clock: Clock, kind: type[LLMException]) -> None:
    """The answer lists the failure and includes its cost, streamed or not."""
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


async def test_a_request_error_is_raised_at_once(clock: Clock) -> None:
    """With the cost of the failed calls before it."""
    mistake = LLMRequestError("too long", spent=Spending(calls=1))
    broken, wrong, never = _failing(LLMConnectionError(), "a"), _failing(mistake, "b"), _good("c")
    for call in (lambda r: r.generate(question()), lambda r: collect(r, question())):
        mistake.spent = Spending(calls=1)
        with pytest.raises(LLMRequestError) as caught:
            await call(_router(clock, broken, wrong, never))
        assert caught.value.spent.calls == 2
    assert not never.requests


async def test_an_answer_without_failures_is_not_copied(clock: Clock) -> None:
    """The same object is returned."""
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
async def test_a_failed_model_is_skipped_during_its_cooldown(clock: Clock, error: LLMException, rest_s: float) -> None:
    """The answers list it in `degraded`."""
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


async def test_a_skipped_model_behind_the_answering_one_is_not_listed(clock: Clock) -> None:
    """It would not have been called."""
    flaky = FakeLLM([LLMConnectionError(), "from first"], name="first")
    router = _router(clock, flaky, _failing(LLMConfigError(), "second"), _good("third"))
    await router.generate(question())
    clock.now += 11
    answer = await router.generate(question())
    assert (answer.provider, answer.degraded) == ("first", ())


async def test_a_skipped_model_is_called_when_no_other_is_left(clock: Clock) -> None:
    """Also when all others failed."""
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


async def test_success_closes_the_circuit(clock: Clock) -> None:
    """The model is called first again."""
    first = FakeLLM([LLMBlockedError(), "from first"], name="first")
    router = _router(clock, first, _failing(LLMConnectionError(), "second"))
    with pytest.raises(LLMConnectionError):
        await router.generate(question())
    assert await _provider_of(router) == "first"
    parts = await collect(router, question())
    assert parts[-1].provider == "first"
    assert parts[-1].degraded == ()


async def test_the_error_lists_all_models_when_all_fail(clock: Clock) -> None:
    """Kind and wait of the last failure, all messages, the cost of all calls."""
    first = LLMConfigError("first: set A", spent=Spending(calls=1, completion_tokens=3))
    second = LLMBlockedError("second: wait", retry_after_s=9, spent=Spending(calls=1, completion_tokens=4))
    for call in (lambda r: r.generate(question()), lambda r: collect(r, question())):
        with pytest.raises(LLMBlockedError, match="first: set A; second: wait") as caught:
            await call(_router(clock, _failing(first), _failing(second, "second")))
        assert caught.value.retry_after_s == 9
        assert (caught.value.spent.calls, caught.value.spent.completion_tokens) == (2, 7)


async def test_the_error_of_a_single_model_is_unchanged(clock: Clock) -> None:
    """A configuration error stays readable."""
    error = LLMConfigError("set KIMI_API_KEY")
    with pytest.raises(LLMConfigError) as caught:
        await _router(clock, _failing(error)).generate(question())
    assert caught.value is error


async def test_a_failure_after_tokens_sends_a_reset(clock: Clock) -> None:
    """The next model begins; all tokens are part of the cost."""
    router = _router(clock, FakeLLM([BrokenStream("half an ans")], name="first"), _good())
    parts = await collect(router, question())
    at = next(i for i, part in enumerate(parts) if isinstance(part, LLMReset))
    assert isinstance(parts[at].error, LLMConnectionError)
    assert "".join(part.text for part in parts[at + 1 : -1]) == parts[-1].content == "from second"
    assert parts[-1].spent.calls == 2
    assert parts[-1].degraded[0].component == "first"
    assert await _provider_of(router) == "second"


async def test_a_failure_of_the_last_model_is_an_error(clock: Clock) -> None:
    """Without a reset before it."""
    streamed: list[LLMStreamPart] = []
    with pytest.raises(LLMConnectionError) as caught:
        async for part in _router(clock, FakeLLM([BrokenStream("half an ans")])).stream(question()):
            streamed.append(part)  # noqa: PERF401  the parts before the error
    assert all(isinstance(part, LLMToken) for part in streamed)
    assert caught.value.spent.completion_tokens > 0


class Silent(FakeLLM):
    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        self.requests.append(request)
        yield LLMToken(text="and then nothing")


async def test_a_stream_without_an_answer_is_a_failure(clock: Clock) -> None:
    """The next model is called."""
    parts = await collect(_router(clock, Silent(name="first"), _good()), question())
    assert [type(part) for part in parts[:2]] == [LLMToken, LLMReset]
    assert parts[-1].content == "from second"


async def test_a_request_can_name_model_or_provider(clock: Clock) -> None:
    """Only matching models are called, also when they fail."""
    first, second = FakeLLM(name="first", model="small"), FakeLLM(name="second", model="large")
    router = _router(clock, first, second)
    assert (await router.generate(question(model="large"))).provider == "second"
    assert (await router.generate(question(provider="second"))).provider == "second"
    broken = _router(clock, first, FakeLLM([LLMConnectionError()], name="second", model="large"))
    with pytest.raises(LLMConnectionError):
        await broken.generate(question(model="large"))


async def test_no_model_is_a_config_error(clock: Clock) -> None:
    """It names the settings and what works without a model."""
    for call in (lambda r: r.generate(question()), lambda r: collect(r, question())):
        with pytest.raises(LLMConfigError, match=r"LLM_API_KEY.*KIMI_API_KEY.*extractive"):
            await call(_router(clock))


async def test_other_exceptions_are_raised(clock: Clock) -> None:
    """A bug is not treated as an outage."""
    second = _good()
    with pytest.raises(ZeroDivisionError):
        await _router(clock, FakeLLM([ZeroDivisionError()], name="first"), second).generate(question())
    assert not second.requests


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_closes_the_connection_and_calls_no_other_model(clock: Clock, streamed: bool) -> None:
    """The circuit stays closed."""
    reply = stream(chunk("a"), ending="hang") if streamed else Reply(ending="hang")
    second = _good()
    async with ChatServer(reply).running() as server:
        real = OpenAIProvider(LLMConnection(name="first", kind="vllm", model="m", base_url=server.url))
        router = _router(clock, real, second)
        task = asyncio.create_task(collect(router, question()) if streamed else router.generate(question()))
        while not server.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait_for(server.gone.wait(), CLOSE_TIMEOUT_S)
        with pytest.raises(asyncio.CancelledError):
            await task
        await real.aclose()
    assert not second.requests
    assert not any(model.circuit.avoided for model in router._models)


async def test_closing_a_stream_closes_that_of_the_model(clock: Clock) -> None:
    """Nothing is left running."""
    model = FakeLLM(["some words to read"], chunk_chars=4)
    parts = _router(clock, model).stream(question())
    assert isinstance(await anext(parts), LLMToken)
    await parts.aclose()
    assert model.running == 0


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_model_that_closes_after_its_stream_keeps_its_calls(streamed: bool) -> None:
    """The prompt goes to no other model, and the closed connection is no failure of this one."""
    whole = stream(chunk("An answer.", "stop"), DONE, ending="close") if streamed else answer(ending="close")
    async with AsyncExitStack() as stack:
        local, cloud = [await stack.enter_async_context(ChatServer(whole).running()) for _ in range(2)]
        models = [
            OpenAIProvider(LLMConnection(name=name, kind="vllm", model="m", base_url=server.url))
            for name, server in (("local", local), ("cloud", cloud))
        ]
        for model in models:
            stack.push_async_callback(model.aclose)
        router = _router(Clock(), *models)
        for _ in range(4):
            response = (await collect(router, question()))[-1] if streamed else await router.generate(question())
            assert isinstance(response, LLMResponse)
            assert (response.provider, response.degraded, response.spent.calls) == ("local", (), 1)
    assert (len(local.asked), local.connections, cloud.asked) == (4, 4, [])
