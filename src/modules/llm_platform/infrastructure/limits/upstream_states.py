"""The state that all callers of one upstream share: its circuit, its retry budget and its limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.infrastructure.limits.upstream_guard import UpstreamGuard, UpstreamKind
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker, RateLimiter, RetryBudget

# Calls in flight to one upstream; reports have their own limit. Its HTTP client opens as many connections.
MAX_CALLS_IN_FLIGHT = 250
MAX_REPORT_WAIT_S = 300.0  # wait of a report for a rate limiter; the limits of a report end it sooner

RateLimiters = Mapping[str, RateLimiter]  # keyed by the name of the adapter


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """The circuit, the retry budget and the limit of concurrent calls that all callers of one upstream share."""

    name: str
    circuit: CircuitBreaker
    retries: RetryBudget
    calls: RateLimiter
    metrics: IMetrics

    def guard(
        self, kind: UpstreamKind, limiter: RateLimiter, *, has_retries: bool = True, **options: Any
    ) -> UpstreamGuard:
        """Return the guard for callers whose calls `limiter` limits. `options` are options of UpstreamGuard."""
        retries = self.retries if has_retries else None
        return UpstreamGuard(kind, self.name, limiter, self.circuit, retries, metrics=self.metrics, **options)


UpstreamStates = Mapping[str, UpstreamState]  # keyed by the name of the adapter


def make_upstream_states(names: Iterable[str], metrics: IMetrics = NO_METRICS) -> UpstreamStates:
    return {
        name: UpstreamState(
            name,
            CircuitBreaker(name, metrics=metrics),
            RetryBudget(name=name, metrics=metrics),
            RateLimiter(None, max_concurrent=MAX_CALLS_IN_FLIGHT),
            metrics,
        )
        for name in names
    }
