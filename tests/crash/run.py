"""The long run: `make crash`. It prints a summary of the run and the checker's verdict.

python -m tests.crash.run --requests 10000 --kills 200
python -m tests.crash.run --broker cluster --restarts 12        # three brokers, one is killed at a time
python -m tests.crash.run --outcomes postgres --restarts 2      # restarts the database
python -m tests.crash.run --broker kafka --outcomes postgres --restarts 8    # restarts database and broker in turn
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

from tests.crash.checker import verdict_text
from tests.crash.harness import CrashRun, Plan, Run
from tests.kafka.broker import Broker
from tests.kafka.broker_cluster import BrokerCluster
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.real_broker import RealBroker
from tests.kafka.reference_client import TOPICS
from tests.services.postgres_server import PostgresServer

from modules.llm_platform.infrastructure.stores.database.migrations import migrate

DOWN_S = 3.0  # downtime of PostgreSQL or a broker
BROKERS: Mapping[str, Callable[[Mapping[str, int]], Broker]] = {
    "mock": MockCluster,
    "kafka": RealBroker,
    "cluster": BrokerCluster,
}
Restart = Callable[[], None]


def in_turn(*restarts: Restart | None) -> Restart | None:
    """Return a function that calls the next restart each time, or None if there is no restart."""
    turns = cycle([restart for restart in restarts if restart is not None])
    return (lambda: next(turns)()) if any(restarts) else None


def restart_of(broker: Broker) -> Restart | None:
    """Return a function that kills the broker and starts it on its old data. The harness restarts the mock itself (None)."""
    if isinstance(broker, MockCluster):
        return None

    def restart() -> None:
        broker.down()
        time.sleep(DOWN_S)
        broker.up()

    return restart


@contextmanager
def outcomes_in(name: str) -> Iterator[tuple[str | None, Restart | None]]:
    """Yield the URL of a new database and a function that restarts PostgreSQL, after a kill and a clean stop in turn."""
    if name == "sqlite":
        yield None, None
        return
    with PostgresServer() as server:
        url = server.new_database()
        asyncio.run(migrate(url))
        ways = cycle((server.down, server.stop))

        def restart() -> None:
            next(ways)()
            time.sleep(DOWN_S)
            server.up()

        yield url, restart


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill workers under load, then look whether anything was lost")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--restarts", type=int, default=0, help="of the broker, or of the database")
    parser.add_argument("--moves", type=int, default=6, help="workers that join under a backlog and leave")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=tuple(BROKERS), default="mock")
    parser.add_argument("--outcomes", choices=("sqlite", "postgres"), default="sqlite")
    arguments = parser.parse_args()
    plan = Plan(arguments.requests, arguments.kills, arguments.restarts, arguments.moves, arguments.seed)
    with (
        tempfile.TemporaryDirectory(prefix="crash-") as folder,
        BROKERS[arguments.broker](TOPICS) as broker,
        outcomes_in(arguments.outcomes) as (database_url, restart_database),
    ):
        restart = in_turn(restart_database, restart_of(broker))
        run = CrashRun(broker, plan, Path(folder), restart, database_url).run()
    sys.stdout.write(as_text(run) + "\n")
    return 1 if run.verdict.problems or run.ends else 0


def as_text(run: Run) -> str:
    kills = ", ".join(f"{how} {count}" for how, count in sorted(run.kills.items()))
    lines = [
        f"{sum(run.kills.values())} kills ({kills}), {run.left} workers left in order, {run.seconds:.0f} s",
        *(f"unexpected end: {end}" for end in run.ends),
        verdict_text(run.verdict),
        *run.evidence,
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
