"""Limit the calls of one service: circuit breaker, rate limit and retry budget, which all callers share."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.concurrency.deadline import remaining_s
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.ports.health import CircuitState
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.telemetry.metrics import BREAKER_OPEN, RETRIES
from shared.exceptions import AppException

log = logging.getLogger(__name__)

FAILURES_TO_OPEN: Final = 5  # Failures in a row.
CIRCUIT_COOLDOWN_S: Final = 10.0
PROBE_WAIT_S: Final = 1.0  # The wait reported to a refused caller while a probe runs.
MAX_CLOSED_S: Final = 3600.0  # After a longer Retry-After, the service is called again after an hour.

CLOSED = "{name} asked not to be called for the next {seconds:.0f} s: try again later"

MINUTE_S: Final = 60.0
CALL_S: Final = 4.0  # The assumed duration of a call. A high rate needs slots for the calls that start in this time.

LIMITED = "{name} has reached its rate limit for the next {seconds:.0f} s: try later, or raise {setting}"
THE_LIMIT: Final = "the limit"  # This replaces the name of the setting for a service without one.

RETRY_SHARE: Final = 0.1  # The share of the recent calls that may be retries.
MIN_RETRIES: Final = 3  # A program that seldom calls can still replace a dropped connection.
RECENT_S: Final = 60.0  # The time constant of the decay: a call counts half after 42 s.

_FAILURES: Final = (
    exceptions.WebSearchConnectionError,
    exceptions.WebSearchUnavailableError,
    exceptions.LLMConnectionError,
    exceptions.LLMUnavailableError,
    exceptions.PageConnectionError,
)
# After these errors the service works, but its limit is used up.
_REFUSALS: Final = (
    exceptions.WebSearchBlockedError,
    exceptions.LLMBlockedError,
    exceptions.PageBlockedError,
)
# After an error without a Retry-After, another model is called first for so many seconds. The most specific errors come first.
_AVOIDED_S: Final[tuple[tuple[type[AppException], float], ...]] = (
    (exceptions.LLMBlockedError, 60.0),
    (exceptions.LLMConnectionError, 10.0),
    (exceptions.LLMUnavailableError, 10.0),
    (exceptions.LLMConfigError, 60.0),  # An operator has to act first.
    (exceptions.LLMProviderException, 5.0),  # The next request may succeed.
)


class Refused(Exception):  # noqa: N818  The policies catch it and raise an error of their port.
    """The call is not made, because its caller would have to wait.

    - `wait_s` is the wait in seconds.
    - `message` is the template of the error's message.
    - `is_open` is True if an open circuit is the cause, and not a limit.
    """

    def __init__(self, wait_s: float, message: str, *, is_open: bool = False) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s
        self.message = message
        self.is_open = is_open


def is_service_failure(error: BaseException) -> bool:
    """Return whether an error shows that the service fails: no connection, a timeout or a 5xx.

    A wrong request, a missing setting and a rate limit do not.
    """
    return isinstance(error, _FAILURES) and not isinstance(error, _REFUSALS)


class CircuitBreaker:
    """The circuit of one service, shared by all of its callers.

    It opens after `failures_to_open` failures in a row (see `is_service_failure`), and then refuses calls for CIRCUIT_COOLDOWN_S
    seconds. After that it allows one call, the probe, and refuses the others. If the probe succeeds, the circuit closes. If it
    fails, the next cooldown begins. After any other outcome, the next call is the probe.

    After a Retry-After, no call starts until its end. For some seconds after each error, `avoided` says that another service
    should be called first, if there is one.
    """

    def __init__(
        self,
        name: str,
        *,
        failures_to_open: int = FAILURES_TO_OPEN,
        clock: Callable[[], float] = time.monotonic,
        metrics: IMetrics = NO_METRICS,
    ) -> None:
        self.name = name
        self._failures_to_open = failures_to_open
        self._clock = clock
        self._failures = 0
        self._open_until: float | None = None
        self._is_probing = False
        self._generation = 0  # The results of calls that began before the last change of state do not count.
        self._closed_until = -math.inf
        self._avoided_until = -math.inf
        self._cause: Degraded | None = None
        self._metrics = metrics
        metrics.set(BREAKER_OPEN, 0.0, name)

    @property
    def state(self) -> CircuitState:
        """The state of the circuit. It is `half_open` after the cooldown, until the probe decides."""
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half_open"

    @property
    def failures(self) -> int:
        return self._failures

    @property
    def avoided(self) -> Degraded | None:
        """The error that makes another service the first to call, or None."""
        return self._cause if self._clock() < self._avoided_until else None

    def closed_s(self) -> float:
        """Return the seconds for which no call starts after a Retry-After. With 0 or less, calls may start."""
        return self._closed_until - self._clock()

    def check(self, max_closed_s: float = math.inf) -> float:
        """Return `closed_s`. Raises Refused if a call would be refused now, or would wait longer than `max_closed_s`."""
        now = self._clock()
        if self._open_until is not None and (now < self._open_until or self._is_probing):
            wait_s = self._open_until - now
            raise Refused(
                wait_s if wait_s > 0 else PROBE_WAIT_S,
                f"{{name}} failed {self._failures} times in a row and is not called for the next "
                "{seconds:.0f} s: try again after that",
                is_open=True,
            )
        closed_s = self._closed_until - now
        if closed_s > max_closed_s:
            raise Refused(closed_s, CLOSED)
        return closed_s

    def begin(self) -> int:
        """Begin a call, and return the generation that `end` gets with its outcome. Raises Refused if the circuit is open."""
        if self._open_until is not None:
            self.check()
            self._is_probing = True
        return self._generation

    def end(self, generation: int, error: BaseException | None) -> None:
        """Record the outcome of a call. Each call has one."""
        if generation != self._generation:
            return
        if error is not None:
            self._fail(error)
            return
        self._failures = 0
        self._avoided_until = -math.inf
        if self._open_until is not None:
            self._open_until = None
            self._is_probing = False
            self._generation += 1
            self._metrics.set(BREAKER_OPEN, 0.0, self.name)
            log.info("circuit closed", extra={"upstream": self.name})

    def _fail(self, error: BaseException) -> None:
        self._is_probing = False
        if not is_service_failure(error):
            return
        self._failures += 1
        if self._open_until is not None or self._failures >= self._failures_to_open:
            self._open_until = self._clock() + CIRCUIT_COOLDOWN_S
            self._generation += 1
            self._metrics.set(BREAKER_OPEN, 1.0, self.name)
            log.warning("circuit opened", extra={"upstream": self.name, "failures": self._failures})

    def cool_down(self, component: str, error: AppException) -> None:
        """Start no call until the end of a Retry-After, MAX_CLOSED_S at most, and avoid the service for a while."""
        now = self._clock()
        if error.retry_after_s is None:
            seconds = next((seconds for kind, seconds in _AVOIDED_S if isinstance(error, kind)), 0.0)
        else:
            seconds = min(error.retry_after_s, MAX_CLOSED_S)
            if not (isinstance(error, exceptions.WebSearchBlockedError) and error.engines_only):
                # If only some engines refuse, calls with other engines may start.
                self._closed_until = max(self._closed_until, now + seconds)
        if now + seconds >= self._avoided_until:  # a call that began earlier may fail for a shorter time
            self._cause, self._avoided_until = Degraded.of(component, error), now + seconds


def _always_open() -> float:
    return -math.inf


class RateLimiter:
    """The rate limit of one service, shared by all callers.

    Callers start in the order of their arrival, and a cancelled caller loses its position. A limit that is never reached costs
    nothing, however high it is.

    - `rate` calls start in any `per_s` seconds. With 10 a minute, ten may start at once; 0.33 a second is one in any three
      seconds. None means no rate.
    - `max_concurrent` calls run at once, or as many as the rate starts in CALL_S seconds, if that is more.
    - `is_strict` is True if `max_concurrent` is the limit in any case.
    """

    def __init__(
        self,
        rate: float | None,
        per_s: float = 1.0,
        *,
        max_concurrent: int,
        is_strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._burst = max(1, int(rate)) if rate else 0
        self._window_s = per_s * self._burst / rate if rate else 0.0
        slots = 0 if is_strict else math.ceil((rate or 0.0) / per_s * CALL_S)
        self._slots = asyncio.Semaphore(max(max_concurrent, slots))
        self._start_lock = asyncio.Lock()
        self._starts: deque[float] = deque()  # The times of the starts within the window.
        self._waiting = 0
        self._clock = clock
        self._sleep = sleep

    async def acquire(
        self, max_wait_s: float, closed_s: Callable[[], float] = _always_open, *, is_closed: bool = True
    ) -> None:
        """Wait until a call may start, and occupy a slot until `release`.

        - `closed_s` returns for how many seconds no call may start at all. It is not called if `is_closed` is False.
        - `max_wait_s` is the longest wait.

        Raises Refused for a longer wait, or one past the deadline. It does so at once if the wait can be computed beforehand.
        """
        if is_closed or self._burst or self._waiting or self._slots.locked():
            await self._wait(min(max_wait_s, remaining_s()), closed_s)
        else:
            await self._slots.acquire()

    def release(self) -> None:
        self._slots.release()

    def earliest_wait_s(self, closed_s: Callable[[], float] = _always_open) -> float:
        """Return the least wait in seconds of a caller that arrives now. Each `burst` of callers before it takes a window."""
        now = self._clock()
        start = max(self._find_next_start(closed_s), now)
        if not self._burst:
            return start - now
        windows, position = divmod(self._waiting, self._burst)
        previous = len(self._starts) - self._burst + position
        if 0 <= previous < len(self._starts):
            start = max(start, self._starts[previous] + self._window_s)
        return start + windows * self._window_s - now

    async def _wait(self, max_wait_s: float, closed_s: Callable[[], float]) -> None:
        deadline = self._clock() + max_wait_s
        _check(self.earliest_wait_s(closed_s), max_wait_s, closed_s)
        self._waiting += 1
        try:
            await self._acquire_slot(max_wait_s)
            has_started = False
            try:
                # The start is recorded when it happens, so that no two windows overlap.
                async with self._start_lock:
                    while (wait_s := self._find_next_start(closed_s) - self._clock()) > 0:
                        # A Retry-After may arrive during the wait, so the time is computed again.
                        _check(wait_s, deadline - self._clock(), closed_s)
                        await self._sleep(wait_s)
                    if self._burst:
                        self._starts.append(self._clock())
                has_started = True
            finally:
                if not has_started:
                    self._slots.release()
        finally:
            self._waiting -= 1

    async def _acquire_slot(self, max_wait_s: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(max_wait_s):
                await self._slots.acquire()
        except TimeoutError:
            raise Refused(
                CALL_S, "{name} already has the maximum number of concurrent requests: try again in {seconds:.0f} s"
            ) from None

    def _find_next_start(self, closed_s: Callable[[], float]) -> float:
        """Return the time at which the first waiting caller may start, whatever the number of running calls."""
        now = self._clock()
        while self._starts and self._starts[0] + self._window_s <= now:
            self._starts.popleft()
        if not self._burst or len(self._starts) < self._burst:
            return now + closed_s()
        return max(now + closed_s(), self._starts[-self._burst] + self._window_s)


def _check(wait_s: float, max_wait_s: float, closed_s: Callable[[], float]) -> None:
    if wait_s > max_wait_s:
        raise Refused(wait_s, CLOSED if closed_s() > max_wait_s else LIMITED)


class RetryBudget:
    """The retries of one service, shared by all of its callers: RETRY_SHARE of the recent calls, at least MIN_RETRIES.

    Calls and retries are counted with exponential decay, in constant memory.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, name: str = "", metrics: IMetrics = NO_METRICS
    ) -> None:
        self._clock = clock
        self._name = name
        self._metrics = metrics
        self._updated_at = clock()
        self._calls = 0.0
        self._retries = 0.0

    def record_call(self) -> None:
        self._decay()
        self._calls += 1

    def try_spend(self) -> bool:
        """Return whether one more retry is within the budget. If so, count it."""
        self._decay()
        if self._retries + 1 > max(MIN_RETRIES, RETRY_SHARE * self._calls):
            self._metrics.count(RETRIES, self._name, "refused")
            return False
        self._metrics.count(RETRIES, self._name, "allowed")
        self._retries += 1
        return True

    def _decay(self) -> None:
        now = self._clock()
        if now > self._updated_at:
            factor = math.exp((self._updated_at - now) / RECENT_S)
            self._calls *= factor
            self._retries *= factor
            self._updated_at = now
