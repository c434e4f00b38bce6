"""The broker of the services suites: Apache Kafka."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.broker import ROOT, Broker, wait_until
from tests.kafka.broker_contract import BrokerContract
from tests.kafka.child_process import free_port
from tests.kafka.real_broker import RealBroker
from tests.kafka.reference_client import SEARCHED, TOPICS, ReferenceClient

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with RealBroker(TOPICS) as kafka:
        yield kafka


class TestRealBroker(BrokerContract):
    """The mock's behaviour that the quick suites rely on is also Kafka's."""

    maker = ("tests.kafka.real_broker", "RealBroker")


async def test_restart_keeps_all_records() -> None:
    """The broker is asked to stop, as in an upgrade, and started again."""
    with RealBroker(TOPICS) as kafka:
        async with ReferenceClient(kafka.bootstrap, "nobody") as client:
            await client.send(SEARCHED, {"request_id": "kept"}, b"k")
        kafka.stop()
        kafka.up()
        async with ReferenceClient(kafka.bootstrap, "nobody") as client:
            assert list(await client.outcomes()) == ["kept"]


@pytest.mark.parametrize("early", [True, False])
def test_manual_broker_leaves_nothing_behind(tmp_path: Path, early: bool) -> None:
    """SIGTERM ends `make kafka` like Ctrl-C, also during its start, without a process or a folder left."""
    command = [sys.executable, "-m", "tests.kafka.real_broker", "--port", str(free_port())]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        if early:
            wait_until(lambda: any(tmp_path.glob("kafka-*/server.log")), "the broker to be started")
        else:
            assert child.stdout.readline().startswith("KAFKA_BOOTSTRAP_SERVERS=")
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert not list(tmp_path.glob("kafka-*"))
    wait_until(lambda: not java_with(str(tmp_path)), "its Java to end")


def java_with(words: str) -> list[str]:
    """Return the processes whose command contains the words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            if words in command and "java" in command:
                found.append(folder.name)
    return found


def test_missing_jars_have_a_remedy(tmp_path: Path) -> None:
    """A fresh clone may get this error first."""
    with pytest.raises(RuntimeError, match="make kafka-jars"), RealBroker(jars=tmp_path):
        raise AssertionError
