"""Three Apache Kafka brokers in KRaft mode. All three store each record, two acknowledge it, and one is killed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import cycle
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.kafka.broker import wait_until
from tests.kafka.child_process import START_S, free_port
from tests.kafka.real_broker import CALL_S, RealBroker

BROKERS, MIN_IN_SYNC = 3, 2


class _Node(RealBroker):
    """One broker of the cluster. `controllers`: controller port by node id."""

    replicas = BROKERS

    def __init__(self, node_id: int, controllers: Mapping[int, int]) -> None:
        super().__init__()
        self.node_id = node_id
        self._controllers = controllers
        self._controller_port = controllers[node_id]

    def _settings(self) -> dict[str, object]:
        internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        return {
            **super()._settings(),
            "controller.quorum.voters": ",".join(
                f"{node}@127.0.0.1:{port}" for node, port in self._controllers.items()
            ),
            **{f"{name}.replication.factor": BROKERS for name in internal},
            **{f"{name}.min.isr": MIN_IN_SYNC for name in internal[1:]},
            "min.insync.replicas": MIN_IN_SYNC,
            "unclean.leader.election.enable": "false",
            "broker.session.timeout.ms": 4000,
        }


class BrokerCluster:
    """The Broker of the crash runs. `down` kills the next broker in turn. `up` starts it again on its data, and returns when
    all three replicas of every partition are in sync.
    """

    name = "cluster"
    client = RealBroker.client

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self._topics = dict(topics or {})
        controllers = {number: free_port() for number in range(1, BROKERS + 1)}
        self.nodes = [_Node(number, controllers) for number in controllers]
        self._turns = cycle(self.nodes)
        self._killed: _Node | None = None
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            for node in self.nodes:
                undo.callback(node.close)
                node._format()
                node.launch()
            for node in self.nodes:  # no broker answers before two have started
                node.wait_until_up()
            self.create_topics(self._topics)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def create_topics(self, topics: Mapping[str, int]) -> None:
        self.nodes[0].create_topics(topics)

    def down(self) -> None:
        self._killed = next(self._turns)
        self._killed.down()

    def up(self) -> None:
        assert self._killed is not None, "nobody was killed"
        self._killed.up()
        self._killed = None
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wait_until(lambda: self._all_in_sync(admin), "the replicas to be in sync", START_S)

    @staticmethod
    def _all_in_sync(admin: AdminClient) -> bool:
        try:
            topics = admin.list_topics(timeout=CALL_S).topics
        except KafkaException:
            return False
        return all(len(one.isrs) == BROKERS for topic in topics.values() for one in topic.partitions.values())
