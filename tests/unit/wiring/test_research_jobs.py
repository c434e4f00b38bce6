"""How background researches are wired to their store and queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules.llm_platform.application.services.research_job_worker import JobOptions
from modules.llm_platform.container import build_platform
from shared.config import Settings


@pytest.mark.parametrize("url", [None, "postgresql://user:password@127.0.0.1:9/database"])
async def test_expired_leases_are_looked_for_every_two_seconds(tmp_path: Path, url: str | None) -> None:
    """A queue hands out what is new; the research of a killed server is found by a look into the store."""
    platform = build_platform(Settings(DATABASE_URL=url, LLM_PLATFORM_DATA_DIR=tmp_path))
    worker = platform.research_jobs._worker
    assert worker is not None
    assert (worker._queue is None) == (url is None)
    assert worker._options.poll_s == JobOptions().poll_s == 2.0
    await platform.aclose()
