"""Clients' configuration and errors."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError
from tests.support.cases import for_each

from modules.llm_platform.presentation.kafka.admin.dev_client import Cluster
from modules.llm_platform.presentation.kafka.worker import clients
from modules.llm_platform.presentation.kafka.worker.clients import (
    ERROR_LOG_INTERVAL_S,
    REQUIRED_CONSUMER,
    REQUIRED_PRODUCER,
    ClientErrorLog,
    make_admin,
    make_admin_config,
    make_consumer,
    make_consumer_config,
    make_producer,
    make_producer_config,
)
from modules.llm_platform.presentation.kafka.worker.worker import WorkerOptions
from shared.config import SettingsError

BROKERS = ("127.0.0.1:9092", "localhost:9093")
REQUIRED = {**REQUIRED_CONSUMER, **REQUIRED_PRODUCER}
OTHERWISE = {
    "enable.auto.commit": True,
    "enable.auto.offset.store": True,
    "auto.offset.reset": "latest",
    "acks": 1,
    "enable.partition.eof": False,
    "enable.idempotence": False,
    "message.timeout.ms": 1000,
    "isolation.level": "read_uncommitted",
    "delivery.report.only.error": True,
    "max.in.flight.requests.per.connection": 5,
}


@for_each("name", sorted(REQUIRED))
def test_required_setting_cannot_be_changed(name: str) -> None:
    """Each setting that it needs: another value stops the start and is named, the same value is no harm."""
    with pytest.raises(SettingsError, match=rf"KAFKA_CONFIG sets {name}.*delivery guarantee"):
        make_consumer_config(BROKERS, "g", {name: OTHERWISE[name]})
    make_consumer_config(BROKERS, "g", {name: REQUIRED[name]})
    make_producer_config(BROKERS, {name: REQUIRED[name]})


@for_each(
    ("name", "value", "said"),
    [
        ("bootstrap.servers", "x:1", "KAFKA_BOOTSTRAP_SERVERS"),
        ("metadata.broker.list", "x:1", "KAFKA_BOOTSTRAP_SERVERS"),
        ("group.id", "x", "KAFKA_GROUP_ID"),
        ("request.required.acks", "0", "acks"),
        ("delivery.timeout.ms", 5, "message.timeout.ms"),
        ("auto.commit.enable", True, "enable.auto.commit"),
        ("max.in.flight", 5, "max.in.flight.requests.per.connection=1"),
        ("transactional.id", "x", "does not support"),
    ],
)
def test_aliases_of_reserved_settings_are_refused(name: str, value: str | int, said: str) -> None:
    """librdkafka has two names for some settings, and some belong to other variables."""
    for make in (
        lambda: make_consumer_config(BROKERS, "g", {name: value}),
        lambda: make_admin_config(BROKERS, {name: value}),
    ):
        with pytest.raises(SettingsError, match=said):
            make()


@for_each("acks", ["all", "-1", -1, "ALL"])
def test_acks_all_has_equivalent_values(acks: str | int) -> None:
    """-1 is what librdkafka calls all."""
    assert make_producer_config(BROKERS, {"acks": acks})["acks"] == "all"


def test_config_overrides_defaults() -> None:
    """The configuration overrides the defaults, but not the settings that the delivery guarantee requires."""
    assert make_producer_config(BROKERS, {"linger.ms": 50})["linger.ms"] == 50
    given = {"client.id": "mine", "session.timeout.ms": 7000, "partition.assignment.strategy": "range"}
    config = make_consumer_config(BROKERS, "team", given)
    assert config.items() >= given.items()
    assert config["group.id"] == "team"
    assert config["bootstrap.servers"] == "127.0.0.1:9092,localhost:9093"


def test_library_accepts_settings_of_the_other_client() -> None:
    """It ignores them, so that all clients get the same KAFKA_CONFIG."""
    config: clients.Config = {"session.timeout.ms": 7000, "linger.ms": 50, "security.protocol": "PLAINTEXT"}
    make_consumer(make_consumer_config(BROKERS, "g", config), {}).close()
    make_producer(make_producer_config(BROKERS, config), {}).poll(0)
    make_admin(make_admin_config(BROKERS, config))


def test_kip_848_removes_classic_group_settings() -> None:
    """librdkafka refuses them."""
    config = make_consumer_config(BROKERS, "g", {"group.protocol": "consumer"})
    assert "partition.assignment.strategy" not in config
    make_consumer(config, {}).close()


def test_settings_of_the_classic_protocol_are_refused_with_kip_848() -> None:
    """librdkafka names the setting that does not fit."""
    config: clients.Config = {"group.protocol": "consumer", "session.timeout.ms": 7000}
    with pytest.raises(SettingsError, match=r"session\.timeout\.ms"):
        make_consumer(make_consumer_config(BROKERS, "g", config), {})


def test_kip_848_uses_the_range_assignor() -> None:
    """The range assignor balances each topic.

    The operator's choice has priority, and the classic protocol does not know the setting.
    """
    new = {"group.protocol": "consumer"}
    assert make_consumer_config(BROKERS, "g", new)["group.remote.assignor"] == "range"
    given = {**new, "group.remote.assignor": "uniform"}
    assert make_consumer_config(BROKERS, "g", given)["group.remote.assignor"] == "uniform"
    assert "group.remote.assignor" not in make_consumer_config(BROKERS, "g", {})


def test_library_accepts_the_defaults(caplog: pytest.LogCaptureFixture) -> None:
    """None is unknown or belongs to the other client."""
    make_consumer(make_consumer_config(BROKERS, "g", {}), {}).close()
    producer = make_producer(make_producer_config(BROKERS, {}), {})
    producer.poll(0)
    make_admin(make_admin_config(BROKERS, {}))
    assert "CONFWARN" not in caplog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"no.such.thing": "1"}, 'No such configuration property: "no.such.thing"'),
        ({"security.protocol": "geheim-geheim"}, 'for configuration property "security.protocol"'),
    ],
)
def test_refused_setting_is_named_without_its_value(given: clients.Config, said: str) -> None:
    """The value may be a secret."""
    with pytest.raises(SettingsError, match="settings of the Kafka client cannot be used") as caught:
        make_producer(make_producer_config(BROKERS, given), {})
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@for_each("name", ["stats_cb", "error_cb", "oauth_cb", "on_delivery", "logger"])
def test_callbacks_are_refused(name: str) -> None:
    """JSON cannot contain callbacks, and they would replace the worker's own."""
    with pytest.raises(SettingsError, match=f"KAFKA_CONFIG sets {name}.*leave it out"):
        make_consumer_config(BROKERS, "g", {name: "x"})


def test_message_size_below_an_outcome_is_refused() -> None:
    """A higher limit is allowed."""
    with pytest.raises(SettingsError, match=r"message\.max\.bytes below the 1000000 bytes"):
        make_producer_config(BROKERS, {"message.max.bytes": "2000"})
    assert make_producer_config(BROKERS, {"message.max.bytes": 2_000_000})["message.max.bytes"] == 2_000_000
    make_producer_config(BROKERS, {"message.max.bytes": "many"})  # librdkafka refuses it, see above


def test_value_of_the_wrong_type_is_reported() -> None:
    """Without the value, which the library's message may quote."""
    with pytest.raises(SettingsError, match="Kafka client cannot be used: one of its values is of the wrong type"):
        make_producer({"bootstrap.servers": "127.0.0.1:9", "stats_cb": "geheim"}, {})


def test_repr_hides_passwords() -> None:
    """An options object ends in a log or a traceback sooner or later."""
    given: clients.Config = {"sasl.password": "geheim-geheim"}
    assert "geheim" not in repr((WorkerOptions(brokers=BROKERS, config=given), Cluster(BROKERS, given)))


AWAY = KafkaError(KafkaError._ALL_BROKERS_DOWN)
NO_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_client_error_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Another error is logged at once."""
    now = [0.0]
    error_log = ClientErrorLog(pytest.fail, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for error in (AWAY, AWAY, NO_TOPIC, AWAY):
            error_log.handle(error)
        assert len(caplog.records) == 2
        now[0] = ERROR_LOG_INTERVAL_S
        error_log.handle(AWAY)
    assert len(caplog.records) == 3


def test_remedy_is_that_of_the_last_errors() -> None:
    """It is in /ready while no broker can be reached; an error of an hour ago says nothing about that."""
    now = [0.0]
    error_log = ClientErrorLog(pytest.fail, clock=lambda: now[0])
    assert error_log.remedy() is None
    error_log.handle(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    error_log.handle(KafkaError(KafkaError._SSL, "certificate verify failed: in our words"))
    assert str(error_log.remedy()).startswith("unknown CA")
    error_log.handle(
        KafkaError(KafkaError._TRANSPORT, "SSL routines::ssl/tls alert bad certificate: SSL alert number 42")
    )
    now[0] = ERROR_LOG_INTERVAL_S - 1
    error_log.handle(KafkaError(KafkaError._TRANSPORT, "alert certificate unknown: SSL alert number 46"))
    now[0] += 2
    assert str(error_log.remedy()).startswith("the brokers refuse the worker's certificate")


def test_fatal_client_error_is_passed_on() -> None:
    """Other errors are only logged."""
    broken: list[KafkaError] = []
    error_log = ClientErrorLog(broken.append)
    error_log.handle(AWAY)
    fatal = KafkaError(KafkaError._FENCED, fatal=True)
    error_log.handle(fatal)
    error_log.handle(fatal)
    assert broken == [fatal, fatal]
