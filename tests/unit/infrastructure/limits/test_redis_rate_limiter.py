"""The health report of rate limits that servers share."""

from __future__ import annotations

from modules.llm_platform.infrastructure.limits.redis_rate_limiter import RateLimitProbe
from modules.llm_platform.infrastructure.redis_client import RedisClient


async def test_first_report_without_redis_says_that_this_process_counts() -> None:
    """A process that has counted nothing yet does not claim a Redis that cannot be reached."""
    redis = RedisClient("redis://127.0.0.1:1")
    assert await RateLimitProbe(redis).ping() == "counted in this process, because Redis is away"
    await redis.aclose()
