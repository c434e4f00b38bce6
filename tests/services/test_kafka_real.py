"""The contract and the delivery promise on Apache Kafka; integration/test_kafka_mock.py has the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
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
