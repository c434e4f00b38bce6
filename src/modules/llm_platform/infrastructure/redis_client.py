"""One connection pool to Redis (redis-py) that fails at once while Redis is away.

Nothing here is essential to an answer: callers of `RedisClient.call` catch `RedisUnavailableError` and do without Redis.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.tracing import database_call
from modules.llm_platform.domain.telemetry.metrics import REDIS_UP
from shared.exceptions import AppException

if TYPE_CHECKING:
    RedisConnection = Redis
else:
    RedisConnection = Any

log = logging.getLogger(__name__)

Result = TypeVar("Result")

REDIS_TIMEOUT_S: Final = 0.5  # limit for connecting, and for each reply
CALL_TIMEOUT_S: Final = 2 * REDIS_TIMEOUT_S  # limit for a whole call: a new connection sends several commands
REDIS_COOLDOWN_S: Final = 1.0  # calls fail without a connection attempt for this long after a failure
MAX_CONNECTIONS: Final = 32
KEY_PREFIX: Final = "llm-platform:"  # prefix of every key that the platform writes
PROBE_TTL_MS: Final = 1000

_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (  # the first match counts
    (AuthenticationError, "refuses the user name or password: check REDIS_URL"),
    (AuthorizationError, "refuses the user name or password: check REDIS_URL"),
    (NoPermissionError, "does not permit this user a command that is needed: check its access control list"),
    (BusyLoadingError, "is loading its data"),
    (ReadOnlyError, "is a read-only replica: set REDIS_URL to the primary"),
    (OutOfMemoryError, "is out of memory: raise maxmemory, and set maxmemory-policy to volatile-lru"),
    (ResponseError, "refuses a command"),
    (RedisTimeoutError, f"does not answer within {REDIS_TIMEOUT_S:g} s"),
    (TimeoutError, f"does not answer within {REDIS_TIMEOUT_S:g} s"),
)
READS: Final = ("GETRANGE", "EXISTS")  # operations that a Redis without memory still carries out
_UNREACHABLE: Final = "cannot be reached: start it, or check REDIS_URL"


class RedisUnavailableError(AppException, code="redis_unavailable", status_code=503, retryable=True):
    """Redis is not available: this process works without it until it is back."""


class ForeignValueError(Exception):
    """A key holds a value of another Redis type, so another program has written it."""


@dataclass(frozen=True, slots=True)
class RedisStatus:
    """The outcome of the last call. Before the first call `connected` is False and `away_since` is None."""

    connected: bool = False
    away_since: datetime | None = None
    reason: str = ""  # why Redis is away, without its address
    is_full: bool = False  # it refuses writes for want of memory; reads succeed


class RedisClient:
    """A connection pool with a circuit breaker, and an IHealthProbe.

    After a failure, calls fail at once for `cooldown_s` seconds. Then one call tries again, while others still fail at once. A
    Redis without memory counts as away for writes, but not for READS. Nothing is connected before the first call.
    """

    name = "redis"

    def __init__(
        self,
        url: str,
        *,
        metrics: IMetrics = NO_METRICS,
        cooldown_s: float = REDIS_COOLDOWN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = display_address(url)
        self.status = RedisStatus()
        self._metrics = metrics
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._retry_at = 0.0
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._redis: RedisConnection = Redis.from_url(
            url,
            protocol=2,  # understood by every version of Redis
            socket_connect_timeout=REDIS_TIMEOUT_S,
            socket_timeout=REDIS_TIMEOUT_S,
            max_connections=MAX_CONNECTIONS,
            retry=Retry(NoBackoff(), 0),
        )

    def __repr__(self) -> str:
        return f"RedisClient({self.address})"

    async def call(self, operation: str, command: Callable[[RedisConnection], Awaitable[Result]]) -> Result:
        """Return the result of `command`, which gets the connection pool and may send one command or one pipeline.

        `operation` names it in traces, such as GET.

        Raises RedisUnavailableError within about a second, and at once during the cooldown. Raises ForeignValueError if the
        key has another type of value.
        """
        is_read = operation in READS
        self._check_circuit(is_read=is_read)
        async with self._slots:
            self._check_circuit(is_read=is_read)  # the call that freed the slot may have failed
            if self.status.away_since is not None and not (self.status.is_full and is_read):
                self._retry_at = self._clock() + self._cooldown_s  # this call tries, the others wait for its result
            return await self._send(operation, command)

    async def ping(self) -> str:
        """Return a short status after writing one key, also during the cooldown. Raises RedisUnavailableError."""
        await self._send("SET", lambda redis: redis.set(f"{KEY_PREFIX}probe", b"", px=PROBE_TTL_MS))
        return f"connected to {self.address}"

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _send(self, operation: str, command: Callable[[RedisConnection], Awaitable[Result]]) -> Result:
        try:
            with database_call("redis", operation):
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    result = await command(self._redis)
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            if isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE"):
                raise ForeignValueError from None
            reason = next((text for kind, text in _REASONS if isinstance(error, kind)), _UNREACHABLE)
            self._set_away(reason, is_full=isinstance(error, OutOfMemoryError))
            raise self._make_unavailable_error() from None  # The error's text may quote what Redis sent.
        if not (self.status.is_full and operation in READS):  # a read says nothing about its memory
            self._set_connected()
        return result

    def _check_circuit(self, *, is_read: bool) -> None:
        is_there = self.status.away_since is None or (self.status.is_full and is_read)
        if not is_there and self._clock() < self._retry_at:
            raise self._make_unavailable_error()

    def _make_unavailable_error(self) -> RedisUnavailableError:
        since = "" if self.status.away_since is None else f" (since {self.status.away_since:%Y-%m-%d %H:%M:%S} UTC)"
        return RedisUnavailableError(f"Redis at {self.address} {self.status.reason}{since}")

    def _set_away(self, reason: str, *, is_full: bool) -> None:
        self._retry_at = self._clock() + self._cooldown_s
        if self.status.away_since is None:
            log.warning("Redis is away", extra={"address": self.address, "reason": reason})
            self._metrics.set(REDIS_UP, 0)
        since = self.status.away_since or datetime.now(UTC)
        self.status = RedisStatus(away_since=since, reason=reason, is_full=is_full)

    def _set_connected(self) -> None:
        if self.status.away_since is not None:
            away_s = (datetime.now(UTC) - self.status.away_since).total_seconds()
            log.info("Redis is back", extra={"address": self.address, "away_s": round(away_s, 1)})
        if not self.status.connected:
            self.status = RedisStatus(connected=True)
            self._metrics.set(REDIS_UP, 1)


def display_address(url: str) -> str:
    """Return the host and port, or the path of the socket, without user name, password and options."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2]
