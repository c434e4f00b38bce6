"""The limits on requests of clients, for servers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter, RateLimit, RateLimits
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.redis_client import RedisClient

GLOBAL_BURST: Final = 50  # burst of RATE_LIMIT_GLOBAL_PER_HOUR


def check_rate_limits(settings: Settings) -> None:
    """Raise ModuleNotFoundError at the start, not at the first request, if there are limits and no package that counts."""
    if _read_limits(settings) == RateLimits():
        return
    # throttled-py imports redis, if it is installed, and redis OpenTelemetry's SDK: an eighth of the CPU time of a start.
    with hide_modules("redis"):
        import modules.llm_platform.infrastructure.limits.memory_rate_limiter  # noqa: F401


@contextmanager
def hide_modules(*names: str) -> Iterator[None]:
    """Make imports of these modules fail inside the block, as if they were not installed. Imported modules stay.

    Use this only at the start of a process, because no other thread may import at the same time.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None makes the import system fail
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def build_rate_limiter(settings: Settings, redis: RedisClient | None) -> IRateLimiter | None:
    """Return the limits, counted in Redis if there is one, or None if all are 0."""
    limits = _read_limits(settings)
    if limits == RateLimits():
        return None
    from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter

    local = MemoryRateLimiter(limits)
    if redis is None:
        return local
    from modules.llm_platform.infrastructure.limits.redis_rate_limiter import RedisRateLimiter

    return RedisRateLimiter(redis, local)


def build_rate_limit_probe(settings: Settings, redis: RedisClient | None) -> IHealthProbe | None:
    """Return the line of the health report about limits in Redis, or None if there are none."""
    if redis is None or _read_limits(settings) == RateLimits():
        return None
    from modules.llm_platform.infrastructure.limits.redis_rate_limiter import RateLimitProbe

    return RateLimitProbe(redis)


def _read_limits(settings: Settings) -> RateLimits:
    per_minute, per_hour = settings.RATE_LIMIT_PER_MINUTE, settings.RATE_LIMIT_GLOBAL_PER_HOUR
    reads = settings.RATE_LIMIT_READS_PER_MINUTE if per_minute else 0  # Who limits no client limits no reads.
    return RateLimits(
        RateLimit("client", per_minute, 60, settings.RATE_LIMIT_BURST) if per_minute else None,
        RateLimit("server", per_hour, 3600, GLOBAL_BURST) if per_hour else None,
        RateLimit("reads", reads, 60, settings.RATE_LIMIT_READS_BURST) if reads else None,
    )
