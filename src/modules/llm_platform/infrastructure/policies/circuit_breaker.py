"""Circuit breakers: a service that fails again and again is not called for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConnectionError,
    LLMUnavailableError,
    PageBlockedError,
    PageConnectionError,
    WebSearchBlockedError,
    WebSearchConnectionError,
    WebSearchUnavailableError,
)
from modules.llm_platform.domain.metrics import BREAKER_OPEN
from modules.llm_platform.domain.ports.health import CircuitState
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from shared.exceptions import AppException

log = logging.getLogger(__name__)

FAILURES_TO_OPEN: Final = 5  # in a row
COOLDOWN_S: Final = 10.0
PROBE_WAIT_S: Final = 1.0  # what a caller is told to wait while a probe runs

OPEN = "{name} failed {failures} times in a row and is not called for the next {seconds:.0f} s: try again after that"

_FAILURES: Final = (
    WebSearchConnectionError,
    WebSearchUnavailableError,
    LLMConnectionError,
    LLMUnavailableError,
    PageConnectionError,
)
_REFUSALS: Final = (WebSearchBlockedError, LLMBlockedError, PageBlockedError)  # the service works; its limit is used up


class CircuitOpenError(Exception):
    """Base of the ports' errors for a call that was not made because the circuit is open."""


class WebSearchCircuitOpenError(CircuitOpenError, WebSearchConnectionError):
    """The search provider failed several times in a row and is not called for now."""


class LLMCircuitOpenError(CircuitOpenError, LLMConnectionError):
    """The language model failed several times in a row and is not called for now."""


class PageCircuitOpenError(CircuitOpenError, PageConnectionError):
    """The page reader failed several times in a row and is not called for now."""


class CircuitOpen(Exception):  # noqa: N818  it never leaves the policies, which raise an error of their port
    """The call is not made; a later one may be after `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


def is_service_failure(error: AppException) -> bool:
    """Whether an error speaks against the service: no connection, a timeout or a 5xx.

    A wrong request, a missing setting and a rate limit say nothing about it.
    """
    return isinstance(error, _FAILURES) and not isinstance(error, _REFUSALS)


class CircuitCall:
    """One permitted call; `succeed` reports the first sign of life, and later reports change nothing."""

    __slots__ = ("_circuit", "_generation", "_is_open")

    def __init__(self, circuit: CircuitBreaker, generation: int) -> None:
        self._circuit = circuit
        self._generation = generation
        self._is_open = True

    def succeed(self) -> None:
        if self._is_open:
            self._is_open = False
            self._circuit._record_success(self._generation)

    def fail(self, error: AppException) -> None:
        if self._is_open:
            self._is_open = False
            self._circuit._record_end(self._generation, is_failure=is_service_failure(error))

    def cancel(self) -> None:
        """The call ended without a sign for or against the service."""
        if self._is_open:
            self._is_open = False
            self._circuit._record_end(self._generation, is_failure=False)


class CircuitBreaker:
    """The circuit of one service, shared by all of its callers.

    It opens after `failures_to_open` failures in a row (see `is_service_failure`). Open, it refuses calls for `cooldown_s`
    seconds. After that one call, the probe, is let through while the others are refused: success closes the circuit, a
    failure starts the next cooldown, and after any other outcome the next call is the probe.
    """

    def __init__(
        self,
        name: str,
        *,
        failures_to_open: int = FAILURES_TO_OPEN,
        cooldown_s: float = COOLDOWN_S,
        clock: Callable[[], float] = time.monotonic,
        metrics: IMetrics = NO_METRICS,
    ) -> None:
        self.name = name
        self._failures_to_open = failures_to_open
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._failures = 0
        self._open_until: float | None = None
        self._is_probing = False
        self._generation = 0  # results of calls that began before the last change of state do not count
        self._metrics = metrics
        metrics.set(BREAKER_OPEN, 0.0, name)

    @property
    def state(self) -> CircuitState:
        """`half_open`: the cooldown is over, and the probe decides."""
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half_open"

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    def check(self) -> None:
        """Raise CircuitOpen if a call would be refused now."""
        if self._open_until is None:
            return
        wait_s = self._open_until - self._clock()
        if wait_s > 0:
            raise CircuitOpen(wait_s)
        if self._is_probing:
            raise CircuitOpen(PROBE_WAIT_S)

    @contextmanager
    def call(self) -> Iterator[CircuitCall]:
        """Record the outcome of the block as that of one call. Raises CircuitOpen if it is refused."""
        self.check()
        self._is_probing = self._open_until is not None
        call = CircuitCall(self, self._generation)
        try:
            yield call
        except AppException as error:
            call.fail(error)
            raise
        else:
            call.succeed()
        finally:
            call.cancel()  # for any other exception

    def _record_success(self, generation: int) -> None:
        if generation != self._generation:
            return
        self._failures = 0
        if self._open_until is not None:
            self._open_until = None
            self._is_probing = False
            self._generation += 1
            self._metrics.set(BREAKER_OPEN, 0.0, self.name)
            log.info("circuit closed", extra={"upstream": self.name})

    def _record_end(self, generation: int, *, is_failure: bool) -> None:
        if generation != self._generation:
            return
        self._is_probing = False
        if not is_failure:
            return
        self._failures += 1
        if self._open_until is not None or self._failures >= self._failures_to_open:
            self._open_until = self._clock() + self._cooldown_s
            self._generation += 1
            self._metrics.set(BREAKER_OPEN, 1.0, self.name)
            log.warning("circuit opened", extra={"upstream": self.name, "failures": self._failures})
