"""The delivery promise on Apache Kafka under the classic group protocol, which KAFKA_CONFIG forces."""

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
    """Its workers get the setting."""

    client = CLASSIC


@pytest.fixture(scope="module")
def broker() -> Iterator[RealBroker]:
    with ClassicBroker(TOPICS) as kafka:
        yield kafka


class TestPromiseUnderTheClassicProtocol(PromiseContract):
    """Repeats, order, stopping, a broker that is killed and comes back, members that come and go."""
