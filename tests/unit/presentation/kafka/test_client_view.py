"""What the client's statistics say."""

from __future__ import annotations

import json

from modules.llm_platform.presentation.kafka.worker.consumer import client_view


def test_what_is_read_of_them() -> None:
    """Whether the group has settled, and the brokers: each counts once, however many connections there are."""
    told = {
        "brokers": {
            "a:9092/bootstrap": {"nodeid": -1, "state": "UP"},
            "a:9092/1": {"nodeid": 1, "state": "UP"},
            "b:9092/2": {"nodeid": 2, "state": "DOWN"},
            "GroupCoordinator": {"nodeid": -1, "state": "UP"},
        },
        "cgrp": {"join_state": "steady"},
    }
    view = client_view(json.dumps(told))
    assert (view.brokers_up, view.joined) == (1, True)


def test_before_there_is_anything() -> None:
    """The first statistics hold nothing of brokers and of a group."""
    view = client_view('{"name": "rdkafka#consumer-1"}')
    assert (view.brokers_up, view.joined) == (0, False)
