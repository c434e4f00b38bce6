"""Commits: what is said of refusals; the thread that commits has tests of its own."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from modules.llm_platform.presentation.kafka import commits
from modules.llm_platform.presentation.kafka.commits import Commits

REFUSED = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)


def test_a_refusal_is_not_said_with_every_try(caplog: pytest.LogCaptureFixture) -> None:
    """Five tries a second would fill the log; the first after a success is said again."""
    some = Commits({}, None)
    for error in (REFUSED, REFUSED, None, REFUSED):
        some.answered(error, [])
    assert [record.message for record in caplog.records] == ["offsets were not committed"] * 2


def test_it_is_said_again_after_a_while(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads the log later sees that it goes on."""
    monkeypatch.setattr(commits, "SAID_AGAIN_AFTER_S", 0.0)
    some = Commits({}, None)
    for _ in range(3):
        some.answered(REFUSED, [])
    assert len(caplog.records) == 3
