"""The limits that settings ask for."""

from __future__ import annotations

from modules.llm_platform import Settings
from modules.llm_platform.infrastructure.limits.from_settings import build_rate_limiter


def test_who_limits_no_client_limits_no_reads() -> None:
    """With RATE_LIMIT_PER_MINUTE=0 an operator has switched limits off, and a later default brings none back."""
    limited = build_rate_limiter(Settings.without_environment(RATE_LIMIT_GLOBAL_PER_HOUR=0), None)
    assert limited is not None
    assert limited.limits.reads is not None
    off = Settings.without_environment(RATE_LIMIT_GLOBAL_PER_HOUR=0, RATE_LIMIT_PER_MINUTE=0)
    assert build_rate_limiter(off, None) is None
