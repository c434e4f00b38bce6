"""Our Kafka worker against a loop written by hand, on Apache Kafka. Prints JSON, {} without its jars; see run.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.kafka_parts import FLOOR, MESSAGES, measure, tell, throughput
from benchmarks.kafka_runs import TOPICS
from confluent_kafka.admin import AdminClient
from tests.kafka.broker import wait_until
from tests.kafka.real_broker import FAST, JARS, RealBroker

NOTHING_MEASURED: dict[str, object] = {}


@contextmanager
def emptied(broker: RealBroker) -> Iterator[RealBroker]:
    """The broker with topics that hold nothing. It runs on: one that has just started is slow for its first seconds."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for deleted in admin.delete_topics(list(TOPICS)).values():
        deleted.result()
    wait_until(lambda: not admin.list_topics().topics.keys() & TOPICS.keys(), "the topics to be gone")
    broker.create_topics(TOPICS)
    yield broker


def main() -> None:
    if not (JARS / ".ready").exists():
        tell(NOTHING_MEASURED)
        return
    with RealBroker(TOPICS, jvm=FAST) as broker:
        throughput(partial(emptied, broker), FLOOR, MESSAGES)  # it is not counted: by then its code is compiled
        tell(measure(partial(emptied, broker)))


if __name__ == "__main__":
    main()
