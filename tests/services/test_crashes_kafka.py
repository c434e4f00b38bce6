"""Workers and the broker are killed under load on Apache Kafka. test_crashes_mock.py covers every crash point."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest
from tests.crash.harness import CrashRun, Plan
from tests.crash.run import as_text
from tests.kafka.real_broker import RealBroker
from tests.kafka.reference_client import TOPICS

PLAN = Plan(requests=400, kills=10, restarts=2)

pytestmark = pytest.mark.services


def test_killed_workers_and_broker_lose_and_contradict_nothing(tmp_path: Path) -> None:
    """The broker is killed and restarted between kills of workers."""
    with RealBroker(TOPICS) as kafka:
        ways = cycle((kafka.down, kafka.stop))

        def restart() -> None:
            next(ways)()
            kafka.up()

        run = CrashRun(kafka, PLAN, tmp_path, restart).run()
    assert run.verdict.problems == (), as_text(run)
    assert list(run.ends) == []
    assert run.verdict.requests == run.sent > PLAN.requests
    assert sum(run.kills.values()) == PLAN.kills
