"""What the clients are made with: the operator's settings, but for those that the promise needs."""

from __future__ import annotations

import pytest

from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster
from modules.llm_platform.presentation.kafka.worker import clients
from modules.llm_platform.presentation.kafka.worker.clients import (
    PROMISED_CONSUMER,
    PROMISED_PRODUCER,
    admin_config,
    consumer_config,
    make_admin,
    make_consumer,
    make_producer,
    producer_config,
)
from modules.llm_platform.presentation.kafka.worker.worker import WorkerOptions
from shared.config import SettingsError

BROKERS = ("127.0.0.1:9092", "localhost:9093")
PROMISED = {**PROMISED_CONSUMER, **PROMISED_PRODUCER}
OTHERWISE = {
    "enable.auto.commit": True, "enable.auto.offset.store": True, "auto.offset.reset": "latest", "acks": 1,
    "enable.partition.eof": False, "enable.idempotence": False, "message.timeout.ms": 1000,
    "isolation.level": "read_uncommitted", "delivery.report.only.error": True,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_the_promise_cannot_be_changed(name: str) -> None:
    """Each setting that it needs: another value stops the start and is named, the same value is no harm."""
    with pytest.raises(SettingsError, match=rf"KAFKA_CONFIG sets {name}.*promise"):
        consumer_config(BROKERS, "g", {name: OTHERWISE[name]})
    consumer_config(BROKERS, "g", {name: PROMISED[name]})
    producer_config(BROKERS, {name: PROMISED[name]})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("bootstrap.servers", "x:1", "KAFKA_BOOTSTRAP_SERVERS"),
        ("metadata.broker.list", "x:1", "KAFKA_BOOTSTRAP_SERVERS"),
        ("group.id", "x", "KAFKA_GROUP_ID"),
        ("request.required.acks", "0", "acks"),
        ("delivery.timeout.ms", 5, "message.timeout.ms"),
        ("auto.commit.enable", True, "enable.auto.commit"),
        ("transactional.id", "x", "cannot use"),
    ],
)
def test_not_by_another_name_either(name: str, value: str | int, said: str) -> None:
    """librdkafka knows some settings by two names, and some belong to variables of ours."""
    for make in (lambda: consumer_config(BROKERS, "g", {name: value}), lambda: admin_config(BROKERS, {name: value})):
        with pytest.raises(SettingsError, match=said):
            make()


@pytest.mark.parametrize("acks", ["all", "-1", -1, "ALL"])
def test_all_by_any_name(acks: str | int) -> None:
    """-1 is what librdkafka calls all."""
    assert producer_config(BROKERS, {"acks": acks})["acks"] == "all"


def test_what_was_given_wins_over_ours() -> None:
    """What the promise does not need is the operator's."""
    assert producer_config(BROKERS, {"linger.ms": 50})["linger.ms"] == 50
    given = {"client.id": "mine", "session.timeout.ms": 7000, "partition.assignment.strategy": "range"}
    config = consumer_config(BROKERS, "team", given)
    assert config.items() >= given.items()
    assert config["group.id"] == "team"
    assert config["bootstrap.servers"] == "127.0.0.1:9092,localhost:9093"


def test_each_client_gets_its_own() -> None:
    """A setting of the other client would only bring a warning of the library."""
    given = {"session.timeout.ms": 7000, "linger.ms": 50, "security.protocol": "PLAINTEXT"}
    assert "linger.ms" not in consumer_config(BROKERS, "g", given)
    assert "session.timeout.ms" not in producer_config(BROKERS, given)
    admin = admin_config(BROKERS, given)
    assert admin["security.protocol"] == "PLAINTEXT"
    assert not {"linger.ms", "session.timeout.ms"} & set(admin)


def test_the_new_group_protocol_decides_by_itself() -> None:
    """With group.protocol=consumer the brokers choose what we would set, and the client refuses it."""
    config = consumer_config(BROKERS, "g", {"group.protocol": "consumer"})
    assert "partition.assignment.strategy" not in config
    make_consumer(config, {}).close()


def test_each_topic_is_shared_evenly() -> None:
    """With group.protocol=consumer the brokers are asked for `range`: theirs counts the partitions of all topics together, and
    leaves a worker without any of one stage. The operator's choice wins; the older protocol does not know the setting.
    """
    new = {"group.protocol": "consumer"}
    assert consumer_config(BROKERS, "g", new)["group.remote.assignor"] == "range"
    given = {**new, "group.remote.assignor": "uniform"}
    assert consumer_config(BROKERS, "g", given)["group.remote.assignor"] == "uniform"
    assert "group.remote.assignor" not in consumer_config(BROKERS, "g", {})


def test_the_library_takes_what_we_set(caplog: pytest.LogCaptureFixture) -> None:
    """No setting of ours is unknown, and none belongs to the other client."""
    make_consumer(consumer_config(BROKERS, "g", {}), {}).close()
    producer = make_producer(producer_config(BROKERS, {}), {})
    producer.poll(0)
    make_admin(admin_config(BROKERS, {}))
    assert "CONFWARN" not in caplog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"no.such.thing": "1"}, 'No such configuration property: "no.such.thing"'),
        ({"security.protocol": "geheim-geheim"}, 'for configuration property "security.protocol"'),
    ],
)
def test_what_the_library_refuses_is_said_without_the_value(given: clients.Config, said: str) -> None:
    """The setting's name, never what was set: it may be a secret."""
    with pytest.raises(SettingsError, match="KAFKA_CONFIG cannot be used") as caught:
        make_producer(producer_config(BROKERS, given), {})
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("name", ["stats_cb", "error_cb", "oauth_cb", "on_delivery", "logger"])
def test_functions_cannot_be_given(name: str) -> None:
    """No JSON holds one, and ours would be replaced."""
    with pytest.raises(SettingsError, match=f"KAFKA_CONFIG sets {name}.*leave it out"):
        consumer_config(BROKERS, "g", {name: "x"})


def test_every_outcome_has_to_fit() -> None:
    """A lower bound would refuse an outcome each time that it is tried; a higher one is no harm."""
    with pytest.raises(SettingsError, match=r"message\.max\.bytes below the 1000000 bytes"):
        producer_config(BROKERS, {"message.max.bytes": "2000"})
    assert producer_config(BROKERS, {"message.max.bytes": 2_000_000})["message.max.bytes"] == 2_000_000
    producer_config(BROKERS, {"message.max.bytes": "many"})  # which librdkafka refuses, see above


def test_a_value_of_the_wrong_kind_is_no_riddle() -> None:
    """Python's library raises other errors for those, which may quote the value."""
    with pytest.raises(SettingsError, match="KAFKA_CONFIG cannot be used: one of its values is of the wrong kind"):
        make_producer({"bootstrap.servers": "127.0.0.1:9", "stats_cb": "geheim"}, {})


def test_what_holds_the_passwords_does_not_show_them() -> None:
    """An options object ends in a log or a traceback sooner or later."""
    given: clients.Config = {"sasl.password": "geheim-geheim"}
    assert "geheim" not in repr((WorkerOptions(brokers=BROKERS, config=given), Cluster(BROKERS, given)))
