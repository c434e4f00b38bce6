"""The broker of the services suites: Apache Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.broker import ROOT, Broker
from tests.kafka.broker_contract import BrokerContract, gone_within
from tests.kafka.foreign import SEARCHED, TOPICS, ForeignClient
from tests.kafka.real_broker import RealBroker

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with RealBroker(TOPICS) as kafka:
        yield kafka


class TestRealBroker(BrokerContract):
    """What the quick suites take from the mock is so on Kafka itself."""


async def test_an_orderly_restart_keeps_everything() -> None:
    """As in an upgrade: asked to end, started again."""
    with RealBroker(TOPICS) as kafka:
        async with ForeignClient(kafka.bootstrap, "nobody") as client:
            await client.send(SEARCHED, {"request_id": "kept"}, b"k")
        kafka.stop()
        kafka.up()
        async with ForeignClient(kafka.bootstrap, "nobody") as client:
            assert list(await client.outcomes()) == ["kept"]


def test_it_cannot_outlive_its_starter() -> None:
    """A run of tests that is killed leaves no Java behind."""
    starter = (
        "import time; from tests.kafka.real_broker import RealBroker; kafka = RealBroker().__enter__();"
        " print(kafka.bootstrap, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", starter], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert gone_within(20, address)


def test_without_its_jars_it_says_what_to_do(tmp_path: Path) -> None:
    """The first error that a fresh clone can meet."""
    with pytest.raises(RuntimeError, match="make kafka-jars"), RealBroker(jars=tmp_path):
        raise AssertionError
