"""Rate limits that are counted in this process, by throttled-py (docs/adr/0032-throttled-py.md)."""

from datetime import timedelta

from throttled.rate_limiter import Quota, Rate
from throttled.rate_limiter.gcra import GCRARateLimiter
from throttled.store import MemoryStore

from modules.llm_platform.domain.ports import rate_limiter

MAX_CLIENTS = 50_000  # a client takes about 450 bytes; the least recently seen client is forgotten first


class MemoryRateLimiter(rate_limiter.IRateLimiter):
    """Exact in one event loop: counting does not await. A forgotten client begins with a full bucket."""

    def __init__(self, limits: rate_limiter.RateLimits, max_clients: int = MAX_CLIENTS) -> None:
        self._limits = limits
        self._client = _Counter(limits.client, max_clients) if limits.client else None
        self._reads = _Counter(limits.reads, max_clients) if limits.reads else None
        self._server = _Counter(limits.server, 1) if limits.server else None  # clients do not evict it

    @property
    def limits(self) -> rate_limiter.RateLimits:
        return self._limits

    async def take(
        self, client: str, *, counts_for_all: bool = True, only_reads: bool = False
    ) -> rate_limiter.RateLimitDecision:
        if only_reads and self._reads:
            return rate_limiter.RateLimitDecision(self._reads.take(client))
        own = self._client.take(client) if self._client else None
        if own is not None and own.is_exceeded:
            return rate_limiter.RateLimitDecision(own)
        return rate_limiter.RateLimitDecision(own, self._server.take("") if self._server and counts_for_all else None)


class _Counter:
    """One limit by the generic cell rate algorithm (GCRA)."""

    def __init__(self, limit: rate_limiter.RateLimit, max_keys: int) -> None:
        self._limit = limit
        quota = Quota(Rate(timedelta(seconds=limit.window_s), limit.quota), limit.burst)
        self._limiter = GCRARateLimiter(quota, MemoryStore(options={"MAX_SIZE": max_keys}))

    def take(self, key: str) -> rate_limiter.LimitState:
        result = self._limiter.limit(key)
        state = result.state
        return rate_limiter.LimitState.of(self._limit, result.limited, state.remaining, state.reset_after)
