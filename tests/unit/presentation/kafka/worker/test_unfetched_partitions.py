"""A consumer that has partitions and does not fetch them is recognised, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import pytest

from modules.llm_platform.presentation.kafka.worker.unfetched_partitions import STUCK_AFTER_S, UnfetchedPartitions


def statistics(*states: str, coordinator: str = "up", member: str = "steady") -> dict[str, Any]:
    """Return librdkafka statistics of a topic `in` whose partitions have these fetch states."""
    partitions = {str(number): {"fetch_state": state} for number, state in enumerate(states)}
    partitions["-1"] = {"fetch_state": "none"}  # librdkafka's internal partition
    return {"cgrp": {"state": coordinator, "join_state": member}, "topics": {"in": {"partitions": partitions}}}


class Watched:
    """Reads the same statistics for as long as is asked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.unfetched = UnfetchedPartitions(lambda: self.now)

    def see(self, told: dict[str, Any], seconds: float = STUCK_AFTER_S) -> bool:
        self.unfetched.update(told, [("in", 0), ("in", 1)])
        self.now += seconds
        self.unfetched.update(told, [("in", 0), ("in", 1)])
        return self.unfetched.are_stuck


def test_one_partition_without_fetches_is_enough() -> None:
    """The others may be read meanwhile."""
    watched = Watched()
    assert not watched.see(statistics("active", "none"), STUCK_AFTER_S / 2)
    assert watched.see(statistics("active", "none"), STUCK_AFTER_S / 2)


@pytest.mark.parametrize(
    "told",
    [
        statistics("active", "stopped"),
        statistics("offset-query", "offset-wait"),
        statistics("active", "active", "none"),
        statistics("none", "none", coordinator="query-coord"),
        statistics("none", "none", member="wait-sync"),
        {"cgrp": {"state": "up", "join_state": "steady"}},
        {},
    ],
    ids=["stopped", "asks for an offset", "another member's", "no coordinator", "joins", "no topics", "nothing"],
)
def test_others_are_not_stuck(told: dict[str, Any]) -> None:
    assert not Watched().see(told, 3600)


def test_time_starts_anew_when_fetching_began_or_the_coordinator_was_away() -> None:
    for between in (statistics("active", "active"), statistics("none", "none", coordinator="wait-broker")):
        watched = Watched()
        watched.see(statistics("none", "none"), STUCK_AFTER_S - 1)
        watched.see(between, 1)
        assert not watched.see(statistics("none", "none"), 1)


def test_partition_that_was_taken_away_counts_no_more() -> None:
    watched = Watched()
    assert watched.see(statistics("none", "none"))
    watched.unfetched.update(statistics("none", "none"), [])
    assert not watched.unfetched.are_stuck
