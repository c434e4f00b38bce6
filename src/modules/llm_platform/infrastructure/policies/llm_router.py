"""Failover over the configured models, with a circuit breaker: a model that failed is skipped for a while."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMStreamPart, Spending
from modules.llm_platform.domain.exceptions import (
    DailyBudgetError,
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMRequestError,
    LLMUnavailableError,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider, LLMRegistry

# Seconds for which a model is skipped after an error without a Retry-After, most specific error first.
COOLDOWN_S: Final[tuple[tuple[type[LLMException], float], ...]] = (
    (LLMBlockedError, 60.0),
    (LLMConnectionError, 10.0),
    (LLMUnavailableError, 10.0),
    (LLMConfigError, 60.0),  # an operator has to act first
    (LLMProviderException, 5.0),  # the next request may succeed
)
MAX_COOLDOWN_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class _OpenCircuit:
    """A model that is skipped, until when (on the router's clock), and the error that caused it."""

    until: float
    cause: Degraded


@dataclass(frozen=True, slots=True)
class _Candidate:
    provider: ILLMProvider
    skipped: tuple[Degraded, ...] = ()  # models before it in the order whose circuit is open


@dataclass(slots=True)
class _Failures:
    """The failed calls of one request."""

    degraded: list[Degraded] = field(default_factory=list)
    errors: list[LLMException] = field(default_factory=list)
    spent: Spending = field(default_factory=Spending)

    def add(self, entry: Degraded, error: LLMException) -> None:
        self.degraded.append(entry)
        self.errors.append(error)
        self.spent = self.spent + error.spent

    def remaining_request(self, request: LLMRequest) -> LLMRequest | None:
        """The request with the rest of its `max_tries`; None when none is left. A failure without a call uses none up."""
        if request.max_tries is None or not self.spent.calls:
            return request
        left = request.max_tries - self.spent.calls
        return request.model_copy(update={"max_tries": left}) if left > 0 else None

    def added_to(self, answer: LLMResponse, skipped: tuple[Degraded, ...]) -> LLMResponse:
        degraded = (*skipped, *self.degraded)
        return answer.after(self.spent, degraded) if degraded else answer

    def error(self) -> LLMException:
        """The last error with the cost of all calls; with several errors, its message lists them all."""
        last = self.errors[-1]
        if len(self.errors) == 1:
            return last
        messages = list(dict.fromkeys(error.message for error in self.errors))
        message = messages[0] if len(messages) == 1 else "every model failed: " + "; ".join(messages)
        return type(last)(message, retry_after_s=last.retry_after_s, spent=self.spent)


class LLMRouter(ILLMProvider):
    """Calls the models of a registry in order until one answers.

    An LLMRequestError is raised at once, because the request is wrong for every model. A model that failed is skipped
    during its cooldown unless no other one is left. A request's `max_tries` bounds the calls to all models together. The
    answer lists earlier failures in `degraded` and includes their cost in `spent`.
    """

    name = "llm"

    def __init__(self, registry: LLMRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._open_circuits: dict[str, _OpenCircuit] = {}

    def preferring(self, name: str) -> LLMRouter:
        """A router over the same models with that one first; both share the state of the circuits."""
        ordered = sorted(self._registry.providers, key=lambda provider: provider.name != name)
        router = LLMRouter(LLMRegistry(ordered), self._clock)
        router._open_circuits = self._open_circuits
        return router

    async def generate(self, request: LLMRequest) -> LLMResponse:
        failures = _Failures()
        for candidate in self._candidates(request):
            remaining = failures.remaining_request(request)
            if remaining is None:
                break
            try:
                answer = await candidate.provider.generate(remaining)
            except LLMRequestError as error:
                error.spent = failures.spent + error.spent
                raise
            except LLMException as error:
                self._record_failure(candidate, error, failures)
            else:
                self._open_circuits.pop(candidate.provider.name, None)
                return failures.added_to(answer, candidate.skipped)
        raise failures.error()

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        failures = _Failures()
        candidates = self._candidates(request)
        for candidate in candidates:
            remaining = failures.remaining_request(request)
            if remaining is None:
                break
            has_tokens = False  # of this model
            try:
                async with aclosing(self._stream_of(candidate, remaining, failures)) as parts:
                    async for part in parts:
                        has_tokens = not isinstance(part, LLMReset)
                        yield part
            except LLMRequestError as error:
                error.spent = failures.spent + error.spent
                raise
            except LLMException as error:
                failure = error
            else:
                self._open_circuits.pop(candidate.provider.name, None)
                return
            self._record_failure(candidate, failure, failures)
            if has_tokens and candidate is not candidates[-1] and failures.remaining_request(request):
                yield LLMReset(error=failure)
        raise failures.error()

    async def _stream_of(
        self, candidate: _Candidate, request: LLMRequest, failures: _Failures
    ) -> AsyncGenerator[LLMStreamPart]:
        """The stream of one model. Raises LLMConnectionError when it ends without an answer."""
        has_answer = False
        async with aclosing(candidate.provider.stream(request)) as parts:  # type: ignore[type-var]
            async for part in parts:
                has_answer = isinstance(part, LLMResponse)
                yield failures.added_to(part, candidate.skipped) if isinstance(part, LLMResponse) else part
        if not has_answer:
            raise LLMConnectionError(f"{candidate.provider.name} broke off half-way: try again")

    def _candidates(self, request: LLMRequest) -> list[_Candidate]:
        """The models that may serve the request: first those with a closed circuit, then the others."""
        providers = self._registry.resolve(request)
        now = self._clock()
        causes = {name: circuit.cause for name, circuit in self._open_circuits.items() if circuit.until > now}
        available = [
            _Candidate(provider, tuple(causes[each.name] for each in providers[:place] if each.name in causes))
            for place, provider in enumerate(providers)
            if provider.name not in causes
        ]
        return [*available, *(_Candidate(each) for each in providers if each.name in causes)]

    def _record_failure(self, candidate: _Candidate, error: LLMException, failures: _Failures) -> None:
        name = candidate.provider.name
        entry = Degraded.of(name, error)
        failures.add(entry, error)
        if isinstance(error, DailyBudgetError):  # the model works, and other API keys may have a budget
            return
        if error.retry_after_s is not None:
            seconds = min(error.retry_after_s, MAX_COOLDOWN_S)
        else:
            seconds = next((seconds for kind, seconds in COOLDOWN_S if isinstance(error, kind)), 0.0)
        self._open_circuits[name] = _OpenCircuit(self._clock() + seconds, entry)
