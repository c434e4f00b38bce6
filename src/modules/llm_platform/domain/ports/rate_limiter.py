"""The port of the rate limiter for requests of clients (docs/howto/serve-safely.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`quota` requests in `window_s` seconds on average, and at most `burst` at once."""

    name: str
    quota: int
    window_s: int
    burst: int

    @property
    def interval_s(self) -> float:
        """Seconds in which one request becomes available."""
        return self.window_s / self.quota


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limit of each client, and the limit of all clients together. None means no limit.

    `reads` is the limit of a client's searches and reads. If it is None, the limit of the client applies to them.
    """

    client: RateLimit | None = None
    server: RateLimit | None = None
    reads: RateLimit | None = None


@dataclass(frozen=True, slots=True)
class LimitState:
    """The state of one limit after a request.

    - `remaining` is the number of requests that it allows now.
    - `next_s` is the time in seconds until it allows one more.
    """

    limit: RateLimit
    is_exceeded: bool
    remaining: int
    next_s: float

    @classmethod
    def of(cls, limit: RateLimit, is_exceeded: bool, remaining: int, full_after_s: float) -> LimitState:
        """Return the state of a limit that allows `burst` requests again after `full_after_s` seconds."""
        pending = limit.burst - remaining
        next_s = full_after_s - (pending - 1) * limit.interval_s if pending > 0 else 0.0
        return cls(limit, is_exceeded, remaining, min(max(0.0, next_s), limit.interval_s))  # rounding


@dataclass(frozen=True, slots=True)
class RateLimitDecision:
    """The decision whether a request may proceed.

    - `client` is the limit of the client, or the limit of its reads if the request counts as one.
    - `server` is None if there is no limit of all clients, if it does not apply, or if the client's limit refused first.
    """

    client: LimitState | None = None
    server: LimitState | None = None

    @property
    def exceeded(self) -> LimitState | None:
        """The limit that refuses the request."""
        for state in (self.client, self.server):
            if state is not None and state.is_exceeded:
                return state
        return None


class IRateLimiter(ABC):
    """Counts requests. A request that its client's limit refuses does not count for the limit of all clients."""

    @property
    @abstractmethod
    def limits(self) -> RateLimits:
        """The limits that apply."""

    @abstractmethod
    async def take(self, client: str, *, counts_for_all: bool = True, only_reads: bool = False) -> RateLimitDecision:
        """Count one request of `client` (an identifier, not a secret), and decide on it. Never raises.

        With `counts_for_all` False, the limit of all clients neither counts the request nor decides on it. With `only_reads`,
        only the limit of reads counts it, if there is one.
        """
