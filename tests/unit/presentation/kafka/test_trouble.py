"""Complaints of the clients: said, but not with every try."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError

from modules.llm_platform.presentation.kafka.worker.worker import AGAIN_AFTER_S, ClientErrorLog

AWAY = KafkaError(KafkaError._ALL_BROKERS_DOWN)
NO_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_it_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """The same trouble is said again only after a while; another one at once."""
    now = [0.0]
    trouble = ClientErrorLog(pytest.fail, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for error in (AWAY, AWAY, NO_TOPIC, AWAY):
            trouble.note(error)
        assert len(caplog.records) == 2
        now[0] = AGAIN_AFTER_S
        trouble.note(AWAY)
    assert len(caplog.records) == 3


def test_what_cannot_be_got_over_is_passed_on() -> None:
    """A fatal error ends the worker, others do not."""
    broken: list[KafkaError] = []
    trouble = ClientErrorLog(broken.append)
    trouble.note(AWAY)
    fatal = KafkaError(KafkaError._FENCED, fatal=True)
    trouble.note(fatal)
    trouble.note(fatal)
    assert broken == [fatal, fatal]
