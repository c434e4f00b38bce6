"""Workers killed under load, on librdkafka's mock cluster; `make crash` is the long run, services/ has Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from tests.crash.fates import POINTS
from tests.crash.harness import Conductor, Plan
from tests.crash.run import as_text
from tests.kafka.foreign import TOPICS
from tests.kafka.mock_cluster import MockCluster

PLAN = Plan(requests=300, kills=10)


def test_nothing_is_lost_or_contradicted_however_workers_die(tmp_path: Path) -> None:
    """At every named point, at any time, and while one leaves: each request has its outcome, and one only."""
    with MockCluster(TOPICS) as mock:
        run = Conductor(mock, PLAN, tmp_path).run()
    assert run.verdict.problems == (), as_text(run)
    assert list(run.ends) == []
    assert run.verdict.requests == run.sent > PLAN.requests
    assert sum(run.kills.values()) == PLAN.kills
    assert len(run.kills.keys() & set(POINTS)) >= len(POINTS) - 1, "a point that nobody passes proves nothing"
