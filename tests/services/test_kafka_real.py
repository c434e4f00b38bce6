"""The contract and the delivery promise on Apache Kafka; integration/test_kafka_mock.py has the embedded broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from tests.integration.test_kafka_worker import RESULTS, Echo, working
from tests.integration.test_kafka_worker import options as told
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

from modules.llm_platform.presentation.kafka.contract.requests import REQUEST_TOPICS
from modules.llm_platform.presentation.kafka.worker.clients import consumer_config, make_consumer
from modules.llm_platform.testing.patience import becomes

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


async def test_markers_of_transactions_are_no_lag() -> None:
    """A client that sends in transactions: each leaves a marker that takes an offset and is never read. What it took back
    and what it has not decided yet are no requests either.
    """
    with RealBroker({SEARCH: 1, RESULTS: 1}) as kafka:
        handler = Echo()
        async with working(handler, told(kafka, stall_s=2.0)) as worker:
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "gateway"})
            await asyncio.to_thread(producer.init_transactions)
            for taken_back in (False, True, False):
                producer.begin_transaction()
                for _ in range(3):
                    producer.produce(SEARCH, b"asked", partition=0)
                await asyncio.to_thread(producer.abort_transaction if taken_back else producer.commit_transaction)
            producer.begin_transaction()
            producer.produce(SEARCH, b"undecided", partition=0)
            await asyncio.to_thread(producer.flush)
            assert await becomes(lambda: len(handler.handled) == 6, 60)
            assert await becomes(lambda: worker.lag_monitor.lag == {(SEARCH, 0): 0}, 60)
            await asyncio.sleep(6)  # longer than a partition may be behind and unread
            assert worker.not_ready() == []
            assert worker.reader.view.brokers_up == 1
            await asyncio.to_thread(producer.abort_transaction)
