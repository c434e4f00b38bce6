"""The contract and the delivery promise on Apache Kafka; integration/test_kafka_mock.py has the embedded broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.kafka.broker import wait_until
from tests.kafka.contract import (
    GROUP,
    PromiseContract,
    ScenarioContract,
    StartWorker,
    answered,
    answered_at_least,
    check_none_lost,
    data_dir,
    options,
    start,
)
from tests.kafka.foreign import SEARCH, TOPICS, ForeignClient
from tests.kafka.real_broker import RealBroker

from modules.llm_platform.presentation.kafka.client_config import consumer_config
from modules.llm_platform.presentation.kafka.clients import make_consumer
from modules.llm_platform.presentation.kafka.topics import REQUEST_TOPICS

__all__ = ["answered", "data_dir", "options", "start"]  # the suites' fixtures

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker() -> Iterator[RealBroker]:
    with RealBroker(TOPICS) as kafka:
        yield kafka


class TestScenariosOnKafka(ScenarioContract):
    """Each schema, each code, each hostile message."""


class TestPromiseOnKafka(PromiseContract):
    """Repeats, order, stopping, a broker that is killed and comes back, members that come and go."""

    async def test_an_upgrade_of_the_broker_goes_unnoticed(self, broker: RealBroker, start: StartWorker) -> None:
        """An orderly restart under load: nobody loses an answer, the worker goes on."""
        worker = start(concurrency=8)
        ids = [f"upgrade-{number}" for number in range(150)]
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "@sleep=0.05"}, name.encode()) for name in ids)
            await answered_at_least(client, ids, 10)
        broker.stop()
        broker.up()
        async with ForeignClient(broker.bootstrap, GROUP) as client:
            check_none_lost(await client.settled(timeout_s=15), ids)
        assert worker.stop() == 0


def test_each_worker_gets_its_part_of_each_topic(broker: RealBroker) -> None:
    """Three workers share the searches evenly, and the answers: else one of them is idle while only searches come."""
    members, topics = 3, list(REQUEST_TOPICS.values())
    part = {topic: TOPICS[topic] // members for topic in topics}
    with ExitStack() as stack:
        workers = [make_consumer(consumer_config([broker.bootstrap], "shares", broker.client), {}) for _ in range(members)]
        for worker in workers:
            stack.callback(worker.close)
            worker.subscribe(topics)

        def shared_out() -> bool:
            for worker in workers:
                worker.poll(0.1)
            return all(Counter(each.topic for each in worker.assignment()) == part for worker in workers)

        wait_until(shared_out, "each to have its part of each topic")
