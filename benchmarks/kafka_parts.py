"""The Kafka benchmarks on one broker; kafka_mock.py and kafka_real.py say on which."""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import Any

from benchmarks.common import percentile
from benchmarks.kafka_runs import Load, MakeBroker, Told, cpu_s, resident_mb, started

FLOOR, OURS = Told("kafka_floor"), Told("kafka_worker")
ROUNDS = 3
MESSAGES = 30_000  # messages of a round
UNTIL_STEADY, UNTIL_END = 0.1, 0.9  # shares of the outcomes between which the clock runs
STAGE_S, AT_ONCE = 0.05, 64
WAITING_MESSAGES = 6_400
ROUND_TRIPS, WARM = 200, 20
FEW_AT_ONCE, THREE = 16, 3
SHARE_S, JOIN_S = 5.0, 4.0
MEMORY_MESSAGES, LONG_MESSAGES = 100_000, 1_000_000
BACKLOG = 5_000
WARM_SHARE = 0.2
LONG_WAIT_S = 600.0


def throughput(make: MakeBroker, told: Told, messages: int) -> dict[str, float]:
    """Outcomes a second of a worker that finds its requests waiting, and processor time of each."""
    with make() as broker:
        load = Load(broker)
        load.send(messages)
        with started(broker, told) as (worker,):
            began, first = load.wait_for(round(messages * UNTIL_STEADY))
            cpu = cpu_s(worker)
            ended, last = load.wait_for(round(messages * UNTIL_END))
            cpu = cpu_s(worker) - cpu
    return {"a_second": (last - first) / (ended - began), "cpu_us": cpu / (last - first) * 1e6}


def in_turn(make: MakeBroker) -> dict[str, dict[str, float]]:
    """Floor and ours, one after the other, so that a drift of the machine hits both; the medians."""
    runs = [(throughput(make, FLOOR, MESSAGES), throughput(make, OURS, MESSAGES)) for _ in range(ROUNDS)]
    return {
        name: {figure: median(run[position][figure] for run in runs) for figure in ("a_second", "cpu_us")}
        for position, name in enumerate(("floor", "ours"))
    }


def round_trips(make: MakeBroker, told: Told) -> dict[str, float]:
    """Of an idle worker, in seconds."""
    with make() as broker, started(broker, told):
        load = Load(broker)
        load.send(1)
        load.wait_for(1)
        took = load.round_trips(WARM + ROUND_TRIPS)[WARM:]
    return {"p50_s": percentile(took, 0.5), "p99_s": percentile(took, 0.99)}


def share(make: MakeBroker, workers: int) -> float:
    """Outcomes a second of so many workers whose stage waits, once each has its partitions."""
    told = Told("kafka_worker", FEW_AT_ONCE, STAGE_S)
    ideal = workers * FEW_AT_ONCE / STAGE_S
    with make() as broker:
        load = Load(broker)
        with started(broker, told, workers):
            time.sleep(JOIN_S)
            load.send(round(ideal * (SHARE_S + 3)))
            began, first = load.wait_for(round(ideal))
            time.sleep(SHARE_S)
            ended, last = load.wait_for(0)
    return (last - first) / (ended - began)


def memory(make: MakeBroker, messages: int) -> dict[str, float]:
    """Of a worker through which so many requests pass, after a fifth of them and at the end, in MB."""
    with make() as broker:
        load = Load(broker)
        with started(broker, OURS) as (worker,):
            _pass(load, round(messages * WARM_SHARE))
            warm = resident_mb(worker)
            _pass(load, messages)
            return {"messages": messages, "warm_mb": warm, "end_mb": resident_mb(worker)}


def _pass(load: Load, until: int) -> None:
    """A bounded backlog, as in life."""
    while load.sent < until:
        load.send(min(BACKLOG, until - load.sent))
        load.wait_for(load.sent - BACKLOG, LONG_WAIT_S)
    load.wait_for(load.sent, LONG_WAIT_S)


def measure(make: MakeBroker) -> dict[str, Any]:
    """Return all figures of one broker. `make` gives one each time, with topics that hold nothing."""
    long = "--long" in sys.argv[1:]
    return {
        "throughput": in_turn(make),
        "waiting": throughput(make, Told("kafka_worker", AT_ONCE, STAGE_S), WAITING_MESSAGES)["a_second"]
        * STAGE_S
        / AT_ONCE,
        "round_trip": {"floor": round_trips(make, FLOOR), "ours": round_trips(make, OURS)},
        "share": share(make, THREE) / share(make, 1),
        "memory": memory(make, LONG_MESSAGES if long else MEMORY_MESSAGES),
    }


def tell(measured: dict[str, Any]) -> None:
    print(json.dumps(measured))
