"""Three brokers, one of which is killed at a time. `make crash` is the long run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.checker import committed_too_early, judge, read_topics
from tests.crash.commit_log import going_back, last_of_each, read_commits
from tests.crash.harness import CrashRun, Plan
from tests.crash.run import as_text, restart_of
from tests.integration.test_worker_dependencies import QUESTION, Running, environment, index, until, worker
from tests.kafka.broker_cluster import BrokerCluster
from tests.kafka.reference_client import SEARCH, TOPICS, ReferenceClient

pytestmark = pytest.mark.services

PLAN = Plan(requests=200, kills=4, restarts=2, moves=0)
GROUP = "rag-core"  # group of the command
REQUESTS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[BrokerCluster]:
    with BrokerCluster(TOPICS) as brokers:
        yield brokers


async def ask(cluster: BrokerCluster, names: list[str]) -> None:
    async with ReferenceClient(cluster.bootstrap, GROUP) as client:
        await client.send_all((SEARCH, {"request_id": name, "query": QUESTION}, name.encode()) for name in names)


def is_ready(running: Running) -> bool:
    return running.ready()[0] == 200


async def settled(cluster: BrokerCluster) -> None:
    """Wait until every request is answered and committed, and the checker reports no fault."""
    await ReferenceClient(cluster.bootstrap, GROUP).settled()
    verdict = judge(await read_topics(cluster.bootstrap))
    assert verdict.problems == ()


async def test_one_worker_outlives_each_broker(cluster: BrokerCluster, tmp_path: Path) -> None:
    """The worker is never restarted. With two of three brokers it answers.

    With one broker nothing can be acknowledged, so it writes and commits nothing, and continues when a second one is
    back.
    """
    variables = environment(cluster, tmp_path)
    index(variables, tmp_path)
    with worker(variables, tmp_path) as running:
        until(lambda: is_ready(running))
        for number in range(len(cluster.nodes)):
            await ask(cluster, [f"before-{number}-{request}" for request in range(REQUESTS)])
            cluster.down()
            await ask(cluster, [f"without-{number}-{request}" for request in range(REQUESTS)])
            await settled(cluster)
            until(lambda: is_ready(running))
            cluster.up()
        await ask(cluster, [f"alone-{request}" for request in range(REQUESTS)])
        first, second = cluster.nodes[:2]
        first.down()
        second.down()
        await asyncio.sleep(3)  # it might acknowledge something meanwhile
        second.launch()  # a single broker does not answer, so the other one starts concurrently
        first.launch()
        for node in (first, second):
            node.wait_until_up()
        await settled(cluster)
        until(lambda: is_ready(running))
        assert running.child.poll() is None


async def test_no_offset_is_ahead_of_its_outcome_or_goes_back(cluster: BrokerCluster, tmp_path: Path) -> None:
    """Offsets are checked repeatedly while brokers are killed under load, because a later outcome would hide a gap.

    Whether offsets go back is read from the log of commits, because a new coordinator may return an older state.
    """
    variables = environment(cluster, tmp_path, KAFKA_CONFIG='{"group.protocol": "consumer"}')
    index(variables, tmp_path)
    client = ReferenceClient(cluster.bootstrap, GROUP)
    with worker(variables, tmp_path):
        for number in range(2):
            await ask(cluster, [f"looked-at-{number}-{request}" for request in range(500)])
            cluster.down()
            for _ in range(3):
                committed = await client.committed()
                assert list(committed_too_early(await read_topics(cluster.bootstrap), committed)) == []
            cluster.up()
        await settled(cluster)
    commits = await read_commits(cluster.bootstrap, GROUP)
    assert sum(commit.offset for commit in last_of_each(commits)) >= 2 * 500
    assert list(going_back(commits)) == []


def test_killed_workers_and_brokers_lose_and_contradict_nothing(tmp_path: Path) -> None:
    """One broker is killed and comes back between kills of workers."""
    with BrokerCluster(TOPICS) as brokers:
        run = CrashRun(brokers, PLAN, tmp_path, restart_of(brokers)).run()
    assert run.verdict.problems == (), as_text(run)
    assert list(run.ends) == []
    assert run.verdict.requests == run.sent
    assert sum(run.kills.values()) == PLAN.kills
