"""A worker on a real Kafka with clock jumps, and with timestamps that the brokers refuse."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]  # it names them without exporting them
from tests.crash.checker import judge, read_topics
from tests.integration.test_worker_dependencies import QUESTION, environment, index, until, worker
from tests.kafka.real_broker import CALL_S, RealBroker
from tests.kafka.reference_client import SEARCH, SEARCHED, TOPICS, ReferenceClient

pytestmark = pytest.mark.services

GROUP = "rag-core"
REQUESTS = 40
DAY_S = 86_400
# Before anything of ours is imported: all code of the worker takes its time of day from here. (libfaketime also moves the
# clock below librdkafka's waits, which then never end.)
WITH_A_CLOCK_THAT_JUMPS = """
import pathlib, runpy, sys, time
real, offset = time.time, pathlib.Path(sys.argv.pop(1))
time.time = lambda: real() + float(offset.read_text())
sys.argv = ["llm-platform", "worker"]
runpy.run_module("modules.llm_platform", run_name="__main__")
"""


@pytest.fixture
def broker() -> Iterator[RealBroker]:
    with RealBroker(TOPICS) as kafka:
        yield kafka


async def ask(broker: RealBroker, prefix: str) -> None:
    """Send requests. The same prefix repeats earlier requests."""
    async with ReferenceClient(broker.bootstrap, GROUP) as client:
        names = [f"{prefix}-{number}" for number in range(REQUESTS)]
        await client.send_all((SEARCH, {"request_id": name, "query": QUESTION}, name.encode()) for name in names)


async def all_is_answered(broker: RealBroker) -> None:
    await ReferenceClient(broker.bootstrap, GROUP).settled()
    assert judge(await read_topics(broker.bootstrap)).problems == ()


async def test_clock_jumps_cause_no_contradiction(broker: RealBroker, tmp_path: Path) -> None:
    """The clock jumps a year ahead, ten years back, and to the right time.

    New requests are answered, and repeated ones get the same bytes.
    """
    variables = environment(broker, tmp_path)
    index(variables, tmp_path)
    clock = tmp_path / "offset"
    clock.write_text("0", "ascii")
    command = [sys.executable, "-c", WITH_A_CLOCK_THAT_JUMPS, str(clock)]
    with worker(variables, tmp_path, command) as running:
        until(lambda: running.ready()[0] == 200)
        await ask(broker, "first")
        await all_is_answered(broker)
        for days in (365, -3650, 0):
            clock.write_text(str(days * DAY_S), "ascii")
            await ask(broker, "first")
            await ask(broker, f"after {days}")
            await all_is_answered(broker)
            until(lambda: running.ready()[0] == 200)


def set_topic(broker: RealBroker, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, SEARCHED, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource], request_timeout=CALL_S).values():
        future.result(CALL_S)


async def test_the_worker_waits_if_timestamps_are_refused(broker: RealBroker, tmp_path: Path) -> None:
    """Brokers refuse records far from their own time, by default an hour ahead.

    Here they refuse records that are a millisecond old. The worker is not ready and names the clock. After the
    suggested remedy it answers every request.
    """
    variables = environment(broker, tmp_path)
    index(variables, tmp_path)
    set_topic(broker, "message.timestamp.before.max.ms", "0")
    with worker(variables, tmp_path) as running:
        until(lambda: running.ready()[0] == 200)
        await ask(broker, "refused")
        until(lambda: running.waits_for("INVALID_TIMESTAMP: this machine's clock"))
        set_topic(broker, "message.timestamp.type", "LogAppendTime")
        await all_is_answered(broker)
        until(lambda: running.ready()[0] == 200)
        assert any("refuse outcomes" in str(line["event"]) and "clock" in str(line["error"]) for line in running.lines)
