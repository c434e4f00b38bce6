"""The contract and the delivery promise on librdkafka's mock cluster; services/test_kafka_real.py has Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kafka.broker import Broker
from tests.kafka.contract import PromiseContract, ScenarioContract, answered, data_dir, options, start
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS

__all__ = ["answered", "data_dir", "options", "start"]  # the suites' fixtures


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with MockCluster(TOPICS) as mock:
        yield mock


class TestScenariosOnTheMock(ScenarioContract):
    """Each schema, each code, each hostile message."""


class TestPromiseOnTheMock(PromiseContract):
    """Repeats, order, stopping, a broker away, members that come and go."""
