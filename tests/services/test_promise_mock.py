"""The delivery promise of the worker on librdkafka's mock cluster; test_kafka_real.py has Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kafka.broker import Broker
from tests.kafka.contract import PromiseContract, data_dir, options, start
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS

__all__ = ["data_dir", "options", "start"]  # fixtures of the suite

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with MockCluster(TOPICS) as mock:
        yield mock


class TestPromiseOnTheMock(PromiseContract):
    """Repeats, order, stopping, a broker away, members that come and go."""
