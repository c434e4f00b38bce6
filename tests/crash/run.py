"""The long run: `make crash`. It prints what it did, and what the checker says.

    python -m tests.crash.run --requests 10000 --kills 200 [--broker kafka --restarts 10]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.crash.checker import told_as_text
from tests.crash.harness import Conductor, Plan, Run
from tests.kafka.broker import Broker
from tests.kafka.foreign import TOPICS
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.real_broker import RealBroker


def broker_named(name: str) -> Broker:
    return RealBroker(TOPICS) if name == "kafka" else MockCluster(TOPICS)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill workers under load, then look whether anything was lost")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--restarts", type=int, default=0, help="of the broker")
    parser.add_argument("--moves", type=int, default=6, help="workers that join under a backlog and leave")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=("mock", "kafka"), default="mock")
    told = parser.parse_args()
    plan = Plan(told.requests, told.kills, told.restarts, told.moves, told.seed)
    with tempfile.TemporaryDirectory(prefix="crash-") as folder, broker_named(told.broker) as broker:
        run = Conductor(broker, plan, Path(folder)).run()
    sys.stdout.write(as_text(run) + "\n")
    return 1 if run.verdict.problems or run.ends else 0


def as_text(run: Run) -> str:
    kills = ", ".join(f"{how} {count}" for how, count in sorted(run.kills.items()))
    lines = [
        f"{sum(run.kills.values())} kills ({kills}), {run.left} workers left in order, {run.seconds:.0f} s",
        *(f"unexpected end: {end}" for end in run.ends),
        told_as_text(run.verdict),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
