"""Failover over the configured models: the next one answers on errors, and who has just failed rests for a while."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import (
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    Spending,
)
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMRequestError,
    LLMUnavailableError,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp

# Seconds of rest after an error, most specific first. One that asked for a time of its own gets that.
REST_S: Final[tuple[tuple[type[LLMException], float], ...]] = (
    (LLMBlockedError, 60.0),
    (LLMConnectionError, 10.0),
    (LLMUnavailableError, 10.0),
    (LLMConfigError, 60.0),  # an operator has to act first
    (LLMProviderException, 5.0),  # the next question may suit it better
)
LONGEST_REST_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class _Rest:
    until: float  # on the router's clock
    why: Degraded


@dataclass(frozen=True, slots=True)
class _Candidate:
    provider: ILLMProvider
    skipped: tuple[Degraded, ...] = ()  # who rests and would have been asked before


@dataclass(slots=True)
class _Tries:
    """What one request has met so far."""

    degraded: list[Degraded] = field(default_factory=list)
    errors: list[LLMException] = field(default_factory=list)
    spent: Spending = field(default_factory=Spending)

    def add(self, entry: Degraded, error: LLMException) -> None:
        self.degraded.append(entry)
        self.errors.append(error)
        self.spent = self.spent + error.spent

    def left_of(self, request: LLMRequest) -> LLMRequest | None:
        """The request with the tries that are left to it; None when there is none. Who made no call has used none up."""
        if request.max_tries is None or not self.spent.calls:
            return request
        left = request.max_tries - self.spent.calls
        return request.model_copy(update={"max_tries": left}) if left > 0 else None

    def applied_to(self, answer: LLMResponse, skipped: tuple[Degraded, ...]) -> LLMResponse:
        degraded = (*skipped, *self.degraded)
        return answer.after(self.spent, degraded) if degraded else answer

    def failure(self) -> LLMException:
        """The last error, with what all tries cost; its message names every one when there are several."""
        last = self.errors[-1]
        if len(self.errors) == 1:
            return last
        message = "every model failed: " + "; ".join(error.message for error in self.errors)
        return type(last)(message, retry_after_s=last.retry_after_s, spent=self.spent)


class LLMRouter(ILLMProvider):
    """Asks the models of a registry in order. The caller's own mistake is one everywhere: it is never failed over.

    A model that failed rests, and is asked again meanwhile only when no other is left. A request's `max_tries` bounds the
    calls of all of them together. The answer tells in `degraded` and `spent` what went wrong before it and what that cost.
    """

    name = "llm"

    def __init__(self, registry: LLMRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._resting: dict[str, _Rest] = {}

    def preferring(self, name: str) -> LLMRouter:
        """The same models with that one first; who rests here rests there."""
        in_order = sorted(self._registry.providers, key=lambda provider: provider.name != name)
        other = LLMRouter(LLMRegistry(in_order), self._clock)
        other._resting = self._resting
        return other

    async def generate(self, request: LLMRequest) -> LLMResponse:
        tries = _Tries()
        for candidate in self._in_order(request):
            asked = tries.left_of(request)
            if asked is None:
                break
            try:
                answer = await candidate.provider.generate(asked)
            except LLMRequestError as error:
                error.spent = tries.spent + error.spent
                raise
            except LLMException as error:
                self._failed(candidate, error, tries)
            else:
                self._resting.pop(candidate.provider.name, None)
                return tries.applied_to(answer, candidate.skipped)
        raise tries.failure()

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        tries = _Tries()
        candidates = self._in_order(request)
        for candidate in candidates:
            asked = tries.left_of(request)
            if asked is None:
                break
            told = False  # words of this model are with the reader
            try:
                async with aclosing(self._stream_of(candidate, asked, tries)) as parts:
                    async for part in parts:
                        told = not isinstance(part, LLMReset)
                        yield part
            except LLMRequestError as error:
                error.spent = tries.spent + error.spent
                raise
            except LLMException as error:
                failure = error
            else:
                self._resting.pop(candidate.provider.name, None)
                return
            self._failed(candidate, failure, tries)
            if told and candidate is not candidates[-1] and tries.left_of(request):
                yield LLMReset(error=failure)
        raise tries.failure()

    async def warm_up(self) -> None:
        """Prepare the model that will be asked first."""
        first = self._registry.providers[0]
        if isinstance(first, IWarmUp):
            await first.warm_up()

    async def _stream_of(
        self, candidate: _Candidate, request: LLMRequest, tries: _Tries
    ) -> AsyncGenerator[LLMStreamPart]:
        """One model's stream, its answer with what went wrong before. Raises when it ends without an answer."""
        answered = False
        async with aclosing(candidate.provider.stream(request)) as parts:  # type: ignore[type-var]
            async for part in parts:
                answered = isinstance(part, LLMResponse)
                yield tries.applied_to(part, candidate.skipped) if isinstance(part, LLMResponse) else part
        if not answered:
            raise LLMConnectionError(f"{candidate.provider.name} broke off half-way: try again")

    def _in_order(self, request: LLMRequest) -> list[_Candidate]:
        """Who may serve the request: the rested ones in their order, then the resting ones as a last resort."""
        able = self._registry.resolve(request)
        now = self._clock()
        resting = {name: rest.why for name, rest in self._resting.items() if rest.until > now}
        rested = [
            _Candidate(provider, tuple(resting[p.name] for p in able[:place] if p.name in resting))
            for place, provider in enumerate(able)
            if provider.name not in resting
        ]
        return [*rested, *(_Candidate(p) for p in able if p.name in resting)]

    def _failed(self, candidate: _Candidate, error: LLMException, tries: _Tries) -> None:
        name = candidate.provider.name
        entry = Degraded.of(name, error)
        tries.add(entry, error)
        seconds = next((seconds for kind, seconds in REST_S if isinstance(error, kind)), 0.0)
        if error.retry_after_s is not None:
            seconds = min(error.retry_after_s, LONGEST_REST_S)
        self._resting[name] = _Rest(self._clock() + seconds, entry)
