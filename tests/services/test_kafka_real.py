"""The contract and the delivery guarantee on Apache Kafka. tests/integration has the contract on the mock cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from confluent_kafka import ConsumerGroupType, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from tests.integration.test_kafka_worker import RESULTS, Echo, working
from tests.integration.test_kafka_worker import options as told
from tests.kafka.broker import wait_until
from tests.kafka.broker_proxy import BrokerProxy
from tests.kafka.child_process import free_port
from tests.kafka.contract import (
    GROUP,
    PromiseContract,
    ScenarioContract,
    StartWorker,
    answered,
    answered_at_least,
    asked_until_answered_by,
    check_none_lost,
    data_dir,
    options,
    requests,
    start,
)
from tests.kafka.real_broker import JARS, RealBroker
from tests.kafka.reference_client import SEARCH, TOPICS, ReferenceClient

from modules.llm_platform.presentation.kafka.contract.requests import REQUEST_TOPICS
from modules.llm_platform.presentation.kafka.worker.clients import make_consumer, make_consumer_config
from modules.llm_platform.presentation.kafka.worker.consumer import REPLACED_UNFETCHED
from modules.llm_platform.presentation.kafka.worker.known_brokers import REPLACED
from modules.llm_platform.presentation.kafka.worker.worker import Worker, WorkerOptions
from modules.llm_platform.testing.waiting import becomes_true

__all__ = ["answered", "data_dir", "options", "start"]  # the suites' fixtures

pytestmark = pytest.mark.services


CLASSIC: Mapping[str, str | int] = {
    "group.protocol": "classic",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
}
SESSION_MS = 60_000  # tests about restarts need a member to restart within this time


@pytest.fixture(scope="module")
def broker() -> Iterator[RealBroker]:
    with RealBroker(TOPICS) as kafka:
        yield kafka


class PatientBroker(RealBroker):
    """A broker that does not reassign partitions because a busy machine is seconds late."""

    extra: Mapping[str, object] = {"group.consumer.session.timeout.ms": SESSION_MS}


@pytest.fixture(scope="module")
def other_broker() -> Iterator[RealBroker]:
    """Yield a separate broker for workers with their own handler, which answers every request of their topics."""
    with PatientBroker({SEARCH: TOPICS[SEARCH], RESULTS: 1}) as kafka:
        yield kafka


class TestScenariosOnKafka(ScenarioContract):
    """Each schema, each code, each hostile message."""


class TestPromiseOnKafka(PromiseContract):
    """Repeated requests, order, stopping, a broker restart, and changes of the group."""

    async def test_broker_restart_loses_nothing(self, broker: RealBroker, start: StartWorker) -> None:
        """During an orderly restart under load no answer is lost, and the worker continues."""
        worker = start(concurrency=8)
        ids = [f"upgrade-{number}" for number in range(150)]
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            await client.send_all((SEARCH, {"request_id": name, "query": "@sleep=0.05"}, name.encode()) for name in ids)
            await answered_at_least(client, ids, 10)
        broker.stop()
        broker.up()
        async with ReferenceClient(broker.bootstrap, GROUP) as client:
            check_none_lost(await client.settled(), ids)
        assert worker.stop() == 0


async def test_members_of_both_protocols_share_a_group(broker: RealBroker, start: StartWorker) -> None:
    """In an upgrade from a release with the classic protocol, old workers leave one by one, and no request is lost."""
    async with ReferenceClient(broker.bootstrap, GROUP) as client:
        before = start("before", client=CLASSIC)
        ids = await asked_until_answered_by({"before"}, client, [], "migrating")
        start("after")
        ids = await asked_until_answered_by({"before", "after"}, client, ids, "migrating")
        more = [f"migrated-{number}" for number in range(200)]
        await client.send_all(requests(more))
        await answered_at_least(client, more, 50)
        assert before.stop() == 0
        check_none_lost(await client.settled(), [*ids, *more])


async def test_worker_joins_kafka_4_by_kip_848(broker: RealBroker) -> None:
    """One setting selects the new protocol, and the broker of build/kafka lists the group under it."""
    [client_jar] = JARS.glob("kafka-clients-*.jar")
    assert int(client_jar.stem.removeprefix("kafka-clients-").partition(".")[0]) >= 4
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def groups(kind: ConsumerGroupType) -> set[str]:
        return {group.group_id for group in admin.list_consumer_groups(types={kind}).result(60).valid}

    async with working(Echo(), replace(told(broker), group_id="probed")) as worker:
        assert worker.consumer.assignment()
        assert "probed" in await asyncio.to_thread(groups, ConsumerGroupType.CONSUMER)
        assert "probed" not in await asyncio.to_thread(groups, ConsumerGroupType.CLASSIC)


async def test_a_joining_worker_stops_no_other_with_kip_848(other_broker: RealBroker) -> None:
    """While another worker joins, the first one keeps and answers its remaining partitions."""
    handler = Echo()
    async with working(handler, replace(told(other_broker), group_id="joins")) as first:
        kept = dict(first.consumer.assignment())
        assert len(kept) == TOPICS[SEARCH]
        async with working(Echo(), replace(told(other_broker), group_id="joins")) as second:
            assert await becomes_true(lambda: len(second.consumer.assignment()) == TOPICS[SEARCH] // 2, 60)
            assert await becomes_true(lambda: len(first.consumer.assignment()) == TOPICS[SEARCH] // 2, 60)
            remaining = first.consumer.assignment()
            assert all(remaining[partition] is kept[partition] for partition in remaining)  # no new assignment of these


def test_each_worker_gets_partitions_of_each_topic(broker: RealBroker) -> None:
    """Three workers share searches and answers evenly. Otherwise one of them would be idle if only searches arrive."""
    members, topics = 3, list(REQUEST_TOPICS.values())
    part = {topic: TOPICS[topic] // members for topic in topics}
    with ExitStack() as stack:
        workers = [
            make_consumer(make_consumer_config([broker.bootstrap], "shares", broker.client), {}) for _ in range(members)
        ]
        for worker in workers:
            stack.callback(worker.close)
            worker.subscribe(topics)

        def shared_out() -> bool:
            for worker in workers:
                worker.poll(0.1)
            return all(Counter(partition.topic for partition in worker.assignment()) == part for worker in workers)

        wait_until(shared_out, "each to have its part of each topic")


async def test_transaction_markers_are_not_a_lag() -> None:
    """A transaction leaves a marker that takes an offset and is never read.

    Aborted and open transactions are no requests either.
    """
    with RealBroker({SEARCH: 1, RESULTS: 1}) as kafka:
        handler = Echo()
        async with working(handler, told(kafka, stall_s=2.0)) as worker:
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "gateway"})
            await asyncio.to_thread(producer.init_transactions)
            for taken_back in (False, True, False):
                producer.begin_transaction()
                for _ in range(3):
                    producer.produce(SEARCH, b"asked", partition=0)
                await asyncio.to_thread(
                    producer.flush
                )  # aborting before they are sent is sometimes an error of the broker
                await asyncio.to_thread(producer.abort_transaction if taken_back else producer.commit_transaction)
            producer.begin_transaction()
            producer.produce(SEARCH, b"undecided", partition=0)
            await asyncio.to_thread(producer.flush)
            assert await becomes_true(lambda: len(handler.handled) == 6, 60)
            assert await becomes_true(lambda: worker.lag_monitor.lag == {(SEARCH, 0): 0}, 60)
            await asyncio.sleep(6)  # longer than a lagging partition may be unread; a stalled one stays stalled
            assert await becomes_true(lambda: worker.not_ready() == [] and worker.consumer.state.brokers_up == 1, 60)
            assert worker.lag_monitor.stalled == {}
            await asyncio.to_thread(producer.abort_transaction)


@pytest.mark.parametrize("client", [{}, {**CLASSIC, "session.timeout.ms": SESSION_MS}], ids=["kip-848", "classic"])
async def test_static_member_keeps_its_partitions(other_broker: RealBroker, client: Mapping[str, str | int]) -> None:
    """A restart within the session timeout moves no partition, and of two workers with one id one is stopped."""
    group = f"static-{len(client)}"

    def static(name: str) -> WorkerOptions:
        config = {"statistics.interval.ms": 100, **client, "group.instance.id": name}
        return replace(told(other_broker), group_id=group, config=config)

    async with working(Echo(), static("stays")) as stays:
        async with working(Echo(), static("restarts")) as first:
            half = TOPICS[SEARCH] // 2
            members = (stays.consumer, first.consumer)
            assert await becomes_true(lambda: all(len(member.assignment()) == half for member in members), 60)
            before = set(first.consumer.assignment())
        others = dict(stays.consumer.assignment())
        async with working(Echo(), static("restarts")) as again:
            assert await becomes_true(lambda: set(again.consumer.assignment()) == before, 60)
            assert stays.consumer.assignment() == others
    one, two = (Worker(Echo(), static("twice")) for _ in range(2))
    running = [asyncio.create_task(worker.run()) for worker in (one, two)]
    done, pending = await asyncio.wait(running, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    one.stop()
    two.stop()
    assert len(pending) == 1
    with pytest.raises(KafkaException):
        await done.pop()
    await asyncio.wait(pending)


@asynccontextmanager
async def proxied(**client: str | int) -> AsyncIterator[tuple[BrokerProxy, WorkerOptions, Producer]]:
    """A broker behind a proxy that changes replies, the options of a worker with these settings of its clients, and a
    producer of requests.
    """
    port = free_port()
    kafka = RealBroker({SEARCH: 4, RESULTS: 1})
    kafka.extra = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    proxy = BrokerProxy(port, int(kafka.bootstrap.rpartition(":")[2]))
    async with proxy.running(), AsyncExitStack() as stack:
        await asyncio.to_thread(kafka.__enter__)
        stack.push_async_callback(asyncio.to_thread, kafka.close)
        plain = told(kafka)
        options = replace(plain, brokers=[f"127.0.0.1:{port}"], config={**plain.config, **client})
        yield proxy, options, Producer({"bootstrap.servers": kafka.bootstrap})


async def test_clients_that_forget_their_brokers_are_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """After an answer without brokers, librdkafka forgets all brokers for good.

    The consumer and other affected clients are replaced, and requests are answered again.
    https://github.com/confluentinc/librdkafka/issues/5301
    """
    handler = Echo()
    async with (
        proxied(**{"topic.metadata.refresh.interval.ms": 300}) as (proxy, options, producer),
        working(handler, options) as worker,
    ):
        producer.produce(SEARCH, b"first", partition=0)
        trackers = worker.consumer.assignment().values()
        assert await becomes_true(lambda: any(tracker.committed for tracker in trackers), 60)  # the outcome is written
        proxy.hides = True
        assert await becomes_true(lambda: "consumer" in _replaced(caplog), 60)
        proxy.hides = False
        for partition in range(4):
            producer.produce(SEARCH, b"later", partition=partition)
        assert await becomes_true(lambda: len(handler.handled) == 5, 60)
        trackers = worker.consumer.assignment().values()
        assert await becomes_true(lambda: all(tracker.committed for tracker in trackers), 60)


@pytest.mark.parametrize("client", [{"group.protocol": "consumer"}, CLASSIC], ids=["kip-848", "classic"])
async def test_consumer_that_does_not_fetch_its_partitions_is_replaced(
    client: Mapping[str, str | int], caplog: pytest.LogCaptureFixture
) -> None:
    """A moving coordinator may refuse to return committed offsets. librdkafka does not ask again and never fetches
    these partitions, so the consumer is replaced, and requests are answered.
    https://github.com/confluentinc/librdkafka/issues/5586
    """
    handler = Echo()
    async with proxied(**client) as (proxy, options, producer):
        proxy.refuses = 1
        async with working(handler, options):
            for partition in range(4):
                producer.produce(SEARCH, b"asked", partition=partition)
            assert await becomes_true(lambda: len(handler.handled) == 4, 60)
        assert proxy.refuses == 0
    assert REPLACED_UNFETCHED in caplog.messages


def _replaced(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {entry.__dict__["client"] for entry in caplog.records if entry.message == REPLACED}
