"""What the client's statistics say."""

from __future__ import annotations

import json

import pytest

from modules.llm_platform.presentation.kafka.client_view import client_view

READ = {"fetch_state": "active", "hi_offset": 20, "lo_offset": 3, "committed_offset": 13}


def test_what_is_read_of_them() -> None:
    """Connected brokers, whether the group has settled, and the lag of the partitions that are read here."""
    told = {
        "brokers": {"a": {"state": "UP"}, "b": {"state": "DOWN"}, "GroupCoordinator": {"state": "UP"}},
        "cgrp": {"join_state": "steady"},
        "topics": {
            "t": {"partitions": {"0": READ, "1": READ | {"fetch_state": "none"}, "-1": {"fetch_state": "none"}}}
        },
    }
    view = client_view(json.dumps(told), {})
    assert (view.brokers_up, view.joined, view.lag) == (2, True, {("t", 0): 7})


@pytest.mark.parametrize(
    ("about", "end", "lag"),
    [
        ({}, 0, 7),
        ({}, 50, 37),  # it was looked at since it is paused
        ({}, 19, 7),
        ({"committed_offset": -1001}, 0, 17),  # never committed: begun with the oldest
        ({"committed_offset": -1001, "lo_offset": -1001}, 0, 20),
        ({"hi_offset": -1001}, 50, 37),
        ({"hi_offset": 10}, 0, 0),  # older than what was committed since
    ],
)
def test_how_far_behind(about: dict[str, int], end: int, lag: int) -> None:
    """From what is committed to the end, as far as it is known."""
    told = {"topics": {"t": {"partitions": {"0": READ | about}}}}
    assert client_view(json.dumps(told), {("t", 0): end} if end else {}).lag == {("t", 0): lag}


def test_before_there_is_anything() -> None:
    """The first statistics hold nothing of a group and of topics, or of the ends of partitions."""
    view = client_view('{"name": "rdkafka#consumer-1"}', {})
    assert (view.brokers_up, view.joined, view.lag) == (0, False, {})
    unknown = {"topics": {"t": {"partitions": {"0": {"fetch_state": "active", "hi_offset": -1001}}}}}
    assert client_view(json.dumps(unknown), {}).lag == {}
