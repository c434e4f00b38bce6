"""Workers share a PostgreSQL that is killed and stopped under load. `make crash-postgres` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.harness import CrashRun, Plan
from tests.crash.run import as_text, outcomes_in
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import SEARCH, TOPICS, ReferenceClient
from tests.kafka.worker_handle import START_S, WorkerConfig, WorkerHandle
from tests.services.postgres_server import PostgresServer

from modules.llm_platform.infrastructure.stores.database.migrations import migrate
from modules.llm_platform.testing.waiting import becomes_true

GROUP = "contract"
PLAN = Plan(requests=400, kills=10, restarts=2)

pytestmark = pytest.mark.services


async def test_worker_without_its_database_writes_and_commits_nothing(tmp_path: Path) -> None:
    """While PostgreSQL is down there is no outcome and no commit. The worker survives, and later answers every request."""
    ids = [f"away-{number}" for number in range(40)]
    with PostgresServer() as server, MockCluster(TOPICS) as mock:
        url = server.new_database()
        await migrate(url)
        server.down()
        config = WorkerConfig(mock.bootstrap, str(tmp_path), mock.client, GROUP, database_url=url)
        async with ReferenceClient(mock.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "x"}, name.encode()) for name in ids)
            with WorkerHandle(config) as worker:
                worker.ready()
                assert await becomes_true(lambda: "the outcome store fails" in worker.log_tail(), START_S)
                assert await client.outcomes() == {}
                assert await client.lag() == len(ids)
                server.up()
                found = await client.settled()
                assert {name: len(found[name]) for name in ids} == dict.fromkeys(ids, 1)
                assert worker.stop() == 0


def test_killed_workers_and_database_lose_and_contradict_nothing(tmp_path: Path) -> None:
    """The database is killed once and stopped once between kills of workers."""
    with MockCluster(TOPICS) as mock, outcomes_in("postgres") as (database_url, restart):
        run = CrashRun(mock, PLAN, tmp_path, restart, database_url).run()
    assert run.verdict.problems == (), as_text(run)
    assert list(run.ends) == []
    assert run.verdict.requests == run.sent > PLAN.requests
    assert sum(run.kills.values()) == PLAN.kills
