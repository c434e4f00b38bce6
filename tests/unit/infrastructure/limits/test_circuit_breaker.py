"""Circuit breakers: when they open, what they refuse, and how a service recovers. The clock is manual."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

import pytest
from tests.fakes.llm_contract import question
from tests.fakes.metrics import MemoryMetrics
from tests.support.cases import for_each
from tests.support.clock import Clock
from tests.support.guards import guarded_model, guarded_reader, guarded_search, retried_model
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMRequestError,
    LLMTimeoutError,
    LLMUnavailableError,
    PageBlockedError,
    PageConnectionError,
    PageError,
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchRequestError,
    WebSearchTimeoutError,
    WebSearchUnavailableError,
)
from modules.llm_platform.domain.telemetry.metrics import BREAKER_OPEN
from modules.llm_platform.infrastructure.limits.upstream_limits import (
    CIRCUIT_COOLDOWN_S,
    FAILURES_TO_OPEN,
    PROBE_WAIT_S,
    CircuitBreaker,
    RateLimiter,
    Refused,
    RetryBudget,
    is_service_failure,
)
from modules.llm_platform.testing import FakeLLM, FakeWebSearch, result_item
from modules.llm_platform.testing.page_reader import FakePageReader
from shared.exceptions import AppException

REQUEST = WebSearchRequest(query="lighthouses")
MAX_REFUSAL_S = 0.005  # seconds of the processor: the promise, for the best of many refusals


@pytest.fixture
def circuit(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("fake", clock=clock)


def end(circuit: CircuitBreaker, error: BaseException | None = None) -> None:
    """One call with this outcome."""
    circuit.end(circuit.begin(), error)


def opened(circuit: CircuitBreaker) -> CircuitBreaker:
    for _ in range(FAILURES_TO_OPEN):
        end(circuit, WebSearchConnectionError())
    return circuit


class TestWhatCounts:
    @for_each(
        "error",
        [
            WebSearchConnectionError(),
            WebSearchTimeoutError(),
            WebSearchUnavailableError(),
            LLMConnectionError(),
            LLMTimeoutError(),
            LLMUnavailableError(),
            PageConnectionError(),
        ],
    )
    def test_a_failure_of_the_service(self, error: AppException) -> None:
        """No connection, no answer in time, 5xx."""
        assert is_service_failure(error)

    @pytest.mark.parametrize(
        "error",
        [
            WebSearchRequestError(),
            WebSearchConfigError(),
            WebSearchBlockedError(retry_after_s=3),
            WebSearchError(),
            LLMRequestError(),
            LLMConfigError(),
            LLMBlockedError(),
            PageBlockedError(),
            PageError(),
            asyncio.CancelledError(),
            RuntimeError(),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_what_says_nothing_about_the_service(self, circuit: CircuitBreaker, error: BaseException) -> None:
        """The caller's mistakes, missing settings, rate limits and cancelled calls never open a circuit."""
        for _ in range(10 * FAILURES_TO_OPEN):
            end(circuit, error)
        assert (circuit.state, circuit.failures) == ("closed", 0)


class TestStates:
    def test_it_opens_after_a_run_of_failures(self, circuit: CircuitBreaker) -> None:
        """A success in between starts the count again."""
        for _ in range(FAILURES_TO_OPEN - 1):
            end(circuit, WebSearchConnectionError())
        end(circuit)
        for _ in range(FAILURES_TO_OPEN - 1):
            end(circuit, WebSearchConnectionError())
        assert circuit.state == "closed"
        end(circuit, WebSearchUnavailableError())
        assert circuit.state == "open"

    def test_the_gauge_follows_the_state(self, clock: Clock) -> None:
        """0 from the start, 1 until the probe succeeds, then 0 again: an alert on it ends."""
        metrics = MemoryMetrics()
        circuit = CircuitBreaker("fake", clock=clock, metrics=metrics)
        series = (BREAKER_OPEN.name, "fake")
        assert metrics.values[series] == 0
        opened(circuit)
        assert metrics.values[series] == 1
        for outcome, value in ((WebSearchConnectionError(), 1), (None, 0)):
            clock.now += CIRCUIT_COOLDOWN_S
            assert metrics.values[series] == 1
            end(circuit, outcome)
            assert metrics.values[series] == value

    def test_an_open_circuit_names_the_rest_of_its_cooldown(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """Callers get the remaining cooldown."""
        opened(circuit)
        clock.now += 3
        with pytest.raises(Refused) as caught:
            circuit.begin()
        assert caught.value.wait_s == pytest.approx(CIRCUIT_COOLDOWN_S - 3)

    def test_one_probe_after_the_cooldown(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """While it runs, all others are refused; its success closes the circuit."""
        opened(circuit)
        clock.now += CIRCUIT_COOLDOWN_S
        assert circuit.state == "half_open"
        probe = circuit.begin()
        for _ in range(20):
            with pytest.raises(Refused) as caught:
                circuit.begin()
            assert caught.value.wait_s == PROBE_WAIT_S
        circuit.end(probe, None)
        assert (circuit.state, circuit.failures) == ("closed", 0)

    def test_a_failed_probe_starts_the_next_cooldown(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """One failure is enough then."""
        opened(circuit)
        clock.now += CIRCUIT_COOLDOWN_S
        end(circuit, WebSearchTimeoutError())
        assert circuit.state == "open"
        clock.now += CIRCUIT_COOLDOWN_S
        end(circuit)
        assert circuit.state == "closed"

    @pytest.mark.parametrize(
        "outcome", [asyncio.CancelledError(), WebSearchRequestError()], ids=["cancelled", "request"]
    )
    def test_a_probe_without_a_verdict_leaves_the_decision_to_the_next(
        self, clock: Clock, circuit: CircuitBreaker, outcome: BaseException
    ) -> None:
        """A cancelled probe neither closes the circuit nor blocks it for ever."""
        opened(circuit)
        clock.now += CIRCUIT_COOLDOWN_S
        end(circuit, outcome)
        assert circuit.state == "half_open"
        end(circuit)
        assert circuit.state == "closed"

    def test_calls_from_before_do_not_decide(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """A call that started before the circuit opened neither closes it nor ends the probe."""
        early, late = circuit.begin(), circuit.begin()
        opened(circuit)
        circuit.end(early, None)
        assert circuit.state == "open"
        clock.now += CIRCUIT_COOLDOWN_S
        probe = circuit.begin()
        circuit.end(late, WebSearchConnectionError())
        assert circuit.state == "half_open"
        circuit.end(probe, None)
        assert circuit.state == "closed"


class TestAvoided:
    @for_each("later", [LLMConnectionError(), LLMRequestError(), LLMBlockedError(retry_after_s=5)])
    def test_a_shorter_wait_does_not_replace_a_longer_one(self, later: AppException) -> None:
        """Calls that began before a Retry-After may fail after it: another model is still called first until its end."""
        clock = Clock()
        circuit = CircuitBreaker("model", clock=clock)
        circuit.cool_down("model", LLMBlockedError(retry_after_s=60))
        circuit.cool_down("model", later)
        clock.now += 59
        assert circuit.avoided
        clock.now += 2
        assert circuit.avoided is None


class TestPolicies:
    async def test_an_open_circuit_is_the_ports_own_error(self, circuit: CircuitBreaker) -> None:
        """Each port raises its connection error with the wait, and the service is not called."""
        opened(circuit)
        search, llm, pages = FakeWebSearch([result_item(1)]), FakeLLM(["Yes."]), FakePageReader({})
        cases: list[tuple[Callable[[], object], type[AppException]]] = [
            (
                lambda: guarded_search(search, circuit=circuit).search(REQUEST),
                WebSearchConnectionError,
            ),
            (lambda: guarded_model(llm, circuit=circuit).generate(question()), LLMConnectionError),
            (
                lambda: guarded_reader(pages, circuit=circuit).read("https://a.test/"),
                PageConnectionError,
            ),
        ]
        for call, expected in cases:
            with pytest.raises(expected, match="5 times in a row") as caught:
                await call()  # type: ignore[misc]
            assert caught.value.retry_after_s == pytest.approx(CIRCUIT_COOLDOWN_S)
            assert caught.value.retryable
        assert (search.requests, llm.requests) == ([], [])

    @in_virtual_time
    async def test_refusals_are_quick(self, circuit: CircuitBreaker) -> None:
        """Less than 5 ms of work through retries and limits, and no wait."""
        opened(circuit)
        policy = guarded_search(FakeWebSearch(), circuit=circuit, retries=RetryBudget())
        durations = []
        for _ in range(51):
            began = time.thread_time()
            with pytest.raises(WebSearchConnectionError):
                await policy.search(REQUEST)
            durations.append(time.thread_time() - began)
        assert min(durations) < MAX_REFUSAL_S
        assert asyncio.get_running_loop().time() == 0.0

    async def test_an_open_circuit_is_not_retried(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """Not even when the cooldown ends within the longest pause."""
        opened(circuit)
        clock.now += CIRCUIT_COOLDOWN_S - 0.1

        async def sleep(seconds: float) -> None:
            raise AssertionError("nothing to wait for")

        with pytest.raises(WebSearchConnectionError):
            await guarded_search(FakeWebSearch(), circuit=circuit, retries=RetryBudget(), sleep=sleep).search(REQUEST)
        with pytest.raises(LLMConnectionError):
            await retried_model(FakeLLM(), circuit=circuit, sleep=sleep).generate(question())

    async def test_a_refusal_does_not_close_the_service(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """The wait of a refused caller is not a Retry-After of the service."""
        opened(circuit)
        policy = guarded_search(FakeWebSearch([result_item(1)]), circuit=circuit)
        with pytest.raises(WebSearchConnectionError):
            await policy.search(REQUEST)
        assert circuit.closed_s() <= 0
        clock.now += CIRCUIT_COOLDOWN_S
        assert (await policy.search(REQUEST)).results

    async def test_callers_in_the_queue_do_not_call_a_service_that_has_failed(self, circuit: CircuitBreaker) -> None:
        """The circuit is checked again when a waiting caller's turn comes."""
        fake = FakeWebSearch(WebSearchConnectionError(), delay_s=0.01)
        policy = guarded_search(fake, RateLimiter(None, max_concurrent=1), circuit=circuit)
        requests = [REQUEST.with_(page=page) for page in range(1, 51)]
        outcomes = await asyncio.gather(*(policy.search(request) for request in requests), return_exceptions=True)
        assert all(isinstance(outcome, WebSearchConnectionError) for outcome in outcomes)
        assert len(fake.requests) == FAILURES_TO_OPEN

    async def test_the_first_part_of_a_stream_closes_the_circuit(self, clock: Clock, circuit: CircuitBreaker) -> None:
        """A long probe does not keep the others waiting to its end."""
        opened(circuit)
        clock.now += CIRCUIT_COOLDOWN_S
        policy = guarded_model(FakeLLM(["A long answer."]), circuit=circuit)
        async with aclosing(policy.stream(question())) as parts:  # type: ignore[type-var]
            await anext(parts)
            assert circuit.state == "closed"
