"""The delivery guarantee on Apache Kafka with the classic group protocol, which KAFKA_CONFIG selects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kafka.contract import PromiseContract, data_dir, options, start
from tests.kafka.real_broker import RealBroker
from tests.kafka.reference_client import TOPICS
from tests.services.test_kafka_real import CLASSIC

__all__ = ["data_dir", "options", "start"]  # the suite's fixtures

pytestmark = pytest.mark.services


class ClassicBroker(RealBroker):
    """A broker whose workers use the classic protocol."""

    client = CLASSIC


@pytest.fixture(scope="module")
def broker() -> Iterator[RealBroker]:
    with ClassicBroker(TOPICS) as kafka:
        yield kafka


class TestPromiseUnderTheClassicProtocol(PromiseContract):
    """Repeated requests, order, stopping, a broker restart, and changes of the group."""
