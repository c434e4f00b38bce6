"""Workers are killed under load on librdkafka's mock cluster. `make crash` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.harness import CrashRun, Plan
from tests.crash.planned_ends import POINTS
from tests.crash.run import as_text
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS

PLAN = Plan(requests=300, kills=10)

pytestmark = pytest.mark.services


def test_killed_workers_lose_and_contradict_nothing(tmp_path: Path) -> None:
    """Workers are killed at every crash point, at any time and during a stop. Each request has exactly one outcome."""
    with MockCluster(TOPICS) as mock:
        run = CrashRun(mock, PLAN, tmp_path).run()
    assert run.verdict.problems == (), as_text(run)
    assert list(run.ends) == []
    assert run.verdict.requests == run.sent > PLAN.requests
    assert sum(run.kills.values()) == PLAN.kills
    assert len(run.kills.keys() & set(POINTS)) >= len(POINTS) - 1, "a point that nobody passes proves nothing"
