"""Rate limits that servers share in Redis, counted by throttled-py's script (docs/adr/0032-throttled-py.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.ports import rate_limiter
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.infrastructure import redis_client

if TYPE_CHECKING:
    from redis.commands.core import AsyncScript

# All limits in one round trip, each by the library's script, up to the first that refuses. A value that the script cannot
# read is deleted first. An error of the script itself reaches the caller: a Redis that is full refuses its SET, but obeys
# every command that comes after a DEL, so deleting the count there would allow all requests.
# KEYS: one for each limit. ARGV: for each limit the seconds between two requests, and the burst.
SCRIPT: Final = """
local function take(KEYS, ARGV)
%s
end
local states = {}
for number, key in ipairs(KEYS) do
    local arguments = {ARGV[2 * number - 1], ARGV[2 * number], 1}
    local stored = redis.pcall("GET", key)
    if type(stored) == "table" or (stored and not tonumber(stored)) then
        redis.call("DEL", key)
    end
    local state = take({key}, arguments)
    states[number] = state
    if state[1] == 1 then
        break
    end
end
return states
"""
KEYS: Final = f"{redis_client.KEY_PREFIX}rate-limit:"


def rate_limit_key(limit: rate_limiter.RateLimit, client: str = "") -> str:
    """Return the key of a count. It names the limit: what is stored is a time, which has a meaning for one rate only."""
    return f"{KEYS}{limit.name}:{limit.quota}/{limit.window_s}s/{limit.burst}:{client}"


class RedisRateLimiter(rate_limiter.IRateLimiter):
    """Exact for all servers of one Redis that have the same limits. While Redis is away or full, `local` counts the requests
    of this process.
    """

    def __init__(self, redis: redis_client.RedisClient, local: rate_limiter.IRateLimiter) -> None:
        self._redis = redis
        self._local = local
        self._script: AsyncScript | None = None

    @property
    def limits(self) -> rate_limiter.RateLimits:
        return self._local.limits

    async def take(
        self, client: str, *, counts_for_all: bool = True, only_reads: bool = False
    ) -> rate_limiter.RateLimitDecision:
        limits = self.limits
        if only_reads and limits.reads:
            counted = [(limits.reads, client)]
        else:
            counted = [(limits.client, client)] if limits.client else []
            counted += [(limits.server, "")] if limits.server and counts_for_all else []
        try:
            found = await self._redis.call("EVALSHA", lambda redis: self._run(redis, counted)) if counted else ()
        except (redis_client.RedisUnavailableError, redis_client.ForeignValueError):
            return await self._local.take(client, counts_for_all=counts_for_all, only_reads=only_reads)
        return _make_decision([limit for limit, _ in counted], found)

    async def _run(
        self, redis: redis_client.RedisConnection, counted: Sequence[tuple[rate_limiter.RateLimit, str]]
    ) -> Sequence[Sequence[Any]]:
        if self._script is None:
            from throttled.rate_limiter.gcra import RedisLimitAtomicActionSpec

            self._script = redis.register_script(SCRIPT % RedisLimitAtomicActionSpec.SCRIPTS)
        keys = [rate_limit_key(limit, client) for limit, client in counted]
        arguments = [value for limit, _ in counted for value in (limit.interval_s, limit.burst)]
        states: Sequence[Sequence[Any]] = await self._script(keys, arguments)
        return states


def _make_decision(
    limits: Sequence[rate_limiter.RateLimit], states: Sequence[Sequence[Any]]
) -> rate_limiter.RateLimitDecision:
    found = [
        rate_limiter.LimitState.of(limit, bool(refused), int(remaining), float(full_after_s))
        for limit, (refused, remaining, full_after_s, _) in zip(limits, states, strict=False)  # none after a refusal
    ]
    server = next((state for state in found if state.limit.name == "server"), None)
    return rate_limiter.RateLimitDecision(next((state for state in found if state is not server), None), server)


class RateLimitProbe(IHealthProbe):
    """Shows in the health report where requests are counted."""

    name = "rate_limits"

    def __init__(self, redis: redis_client.RedisClient) -> None:
        self._redis = redis

    async def ping(self) -> str:
        """Return where requests are counted. Never raises: requests are limited either way."""
        try:
            await self._redis.ping()
        except redis_client.RedisUnavailableError:
            why = "full" if self._redis.status.is_full else "away"
            return f"counted in this process, because Redis is {why}"
        return "counted in Redis, with all servers that use it"
