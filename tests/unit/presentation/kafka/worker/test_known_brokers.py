"""A client that has lost all brokers is detected, and the consumer replaces its client."""

from __future__ import annotations

import pytest

from modules.llm_platform.presentation.kafka.worker import known_brokers
from modules.llm_platform.presentation.kafka.worker.clients import Callbacks
from modules.llm_platform.presentation.kafka.worker.known_brokers import LOST_AFTER_S, GroupReader, KnownBrokers

NONE = '{"brokers": {":0/internal": {"source": "internal"}, "GroupCoordinator": {"source": "logical"}}}'
AWAY = '{"brokers": {"a:9092/1": {"source": "learned", "state": "DOWN"}}}'


def test_brokers_are_lost_when_none_is_known_for_a_while() -> None:
    """Those that cannot be reached are known, and a moment without any is a client that bootstraps anew."""
    now = 100.0
    brokers = KnownBrokers(lambda: now)
    brokers.update(AWAY)
    now += 3600
    assert not brokers.are_lost
    for _ in range(2):
        brokers.update(NONE)
        assert not brokers.are_lost
        now += LOST_AFTER_S
        assert brokers.are_lost
        brokers.update(AWAY)
        assert not brokers.are_lost


class FakeReader:
    """A client that counts its calls."""

    def __init__(self, callbacks: Callbacks) -> None:
        self.statistics = callbacks["stats_cb"]
        self.is_closed = False

    def poll(self, timeout: float) -> None:
        """Nothing is waiting."""

    def close(self) -> None:
        self.is_closed = True


def test_reader_that_has_lost_its_brokers_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old client is closed, and the new one starts without a past."""
    monkeypatch.setattr(known_brokers, "LOST_AFTER_S", 0.0)
    made: list[FakeReader] = []

    def make(callbacks: Callbacks) -> FakeReader:
        made.append(FakeReader(callbacks))
        return made[-1]

    reader = GroupReader(make)  # type: ignore[arg-type]
    assert reader.client() is made[0]  # type: ignore[comparison-overlap]
    made[0].statistics(NONE)
    assert reader.client() is reader.client() is made[1]  # type: ignore[comparison-overlap]
    assert (made[0].is_closed, made[1].is_closed) == (True, False)
