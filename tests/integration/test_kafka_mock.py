"""The worker's contract on librdkafka's mock cluster. tests/services checks the delivery guarantee on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kafka.broker import Broker
from tests.kafka.contract import ScenarioContract, answered, data_dir, options
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS

__all__ = ["answered", "data_dir", "options"]  # fixtures of the suites


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with MockCluster(TOPICS) as mock:
        yield mock


class TestScenariosOnTheMock(ScenarioContract):
    """Every schema, error code and hostile message."""
