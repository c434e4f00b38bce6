"""The broker of the services suites: Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.broker import Broker
from tests.kafka.broker_contract import BrokerContract
from tests.kafka.foreign import SEARCHED, TOPICS, ForeignClient
from tests.kafka.real_broker import RealBroker

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with RealBroker(TOPICS) as kafka:
        yield kafka


class TestRealBroker(BrokerContract):
    """What the quick suites take from the mock is so on Kafka itself."""

    maker = ("tests.kafka.real_broker", "RealBroker")


async def test_an_orderly_restart_keeps_everything() -> None:
    """As in an upgrade: asked to end, started again."""
    with RealBroker(TOPICS) as kafka:
        async with ForeignClient(kafka.bootstrap, "nobody") as client:
            await client.send(SEARCHED, {"request_id": "kept"}, b"k")
        kafka.stop()
        kafka.up()
        async with ForeignClient(kafka.bootstrap, "nobody") as client:
            assert list(await client.outcomes()) == ["kept"]


def test_without_its_jars_it_says_what_to_do(tmp_path: Path) -> None:
    """The first error that a fresh clone can meet."""
    with pytest.raises(RuntimeError, match="make kafka-jars"), RealBroker(jars=tmp_path):
        raise AssertionError
