"""Single flight between processes: locks in Redis that expire by themselves."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.ports.key_lock import IKeyLock
from modules.llm_platform.infrastructure import redis_client

EXPIRY_S: Final = 5.0  # a lock of a dead holder expires after this time
RENEWALS_PER_EXPIRY: Final = 3
FIRST_POLL_S: Final = 0.02
MAX_POLL_S: Final = 0.25
POLL_GROWTH: Final = 1.5

# Only the holder may prolong or release a lock: it may have expired and belong to another process.
_RENEW: Final = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
)
_RELEASE: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class RedisKeyLock(IKeyLock):
    """Locks of `namespace`. A holder renews its lock. The lock of a dead holder expires after `expiry_s` seconds.

    No caller waits longer than `max_wait_s`. While Redis is away, no caller waits. The callers of one process share one poll.
    """

    def __init__(
        self, client: redis_client.RedisClient, namespace: str, *, max_wait_s: float, expiry_s: float = EXPIRY_S
    ) -> None:
        self._client = client
        self._prefix = f"{redis_client.KEY_PREFIX}lock:{namespace}:"
        self._max_wait_s = max_wait_s
        self._expiry_s = expiry_s
        self._locked_names: set[str] = set()
        self._polls: SingleFlight[None] = SingleFlight()

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[bool]:
        name, token = self._prefix + key, secrets.token_hex(8)
        acquired: bool | None = False
        if name not in self._locked_names and name not in self._polls:
            expiry_ms = int(self._expiry_s * 1000)
            try:
                acquired = bool(
                    await self._client.call("SET", lambda redis: redis.set(name, token, px=expiry_ms, nx=True))
                )
            except (redis_client.RedisUnavailableError, redis_client.ForeignValueError):
                acquired = None
        if acquired is None:  # Redis is away.
            yield False
        elif acquired:
            renewal = asyncio.create_task(self._renew(name, token))
            self._locked_names.add(name)
            try:
                yield False
            finally:
                renewal.cancel()
                self._locked_names.discard(name)
                await self._run(_RELEASE, name, token)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._max_wait_s):
                    await self._polls.run(name, partial(self._poll, name))
            yield True

    async def _renew(self, name: str, token: str) -> None:
        """Renew the lock until it is lost or `max_wait_s` has passed, when nobody waits for it any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._max_wait_s):
                while True:
                    await asyncio.sleep(self._expiry_s / RENEWALS_PER_EXPIRY)
                    if await self._run(_RENEW, name, token, int(self._expiry_s * 1000)) == 0:
                        return

    async def _run(self, script: str, name: str, *arguments: str | int) -> int | None:
        """Return the result of a script, or None if Redis is away."""
        try:
            result: int = await self._client.call("EVAL", lambda redis: redis.eval(script, 1, name, *arguments))
        except (redis_client.RedisUnavailableError, redis_client.ForeignValueError):
            return None
        return result

    async def _poll(self, name: str) -> None:
        """Return when the lock is free, when Redis is away, or after `max_wait_s`."""
        delay_s = FIRST_POLL_S
        with suppress(TimeoutError, redis_client.RedisUnavailableError):
            async with asyncio.timeout(self._max_wait_s):
                while await self._client.call("EXISTS", lambda redis: redis.exists(name)):
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * POLL_GROWTH, MAX_POLL_S)
