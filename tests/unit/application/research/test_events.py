"""The registry of the events of a research run."""

from __future__ import annotations

from typing import get_args

from modules.llm_platform.application.research import events
from modules.llm_platform.domain.dtos.research_job_dtos import LAST_EVENTS


def test_every_event_class_is_in_the_registry() -> None:
    """A class of an event that the union lacks would be emitted, and its readers would not be type-checked."""
    classes = (value for value in vars(events).values() if isinstance(value, type))
    emitted = [value for value in classes if "type" in getattr(value, "model_fields", ())]
    assert list(events.EVENT_TYPES.values()) == emitted


def test_the_store_knows_the_last_events() -> None:
    """The event types that end a run in the store are those of the final events."""
    assert {event.model_fields["type"].default for event in get_args(events.LastEvent)} == LAST_EVENTS


def test_an_event_of_another_version_is_no_error() -> None:
    """A stored event reads as itself, one of an unknown type as None."""
    event = events.Started(request_id="r1")
    assert events.parse_event(event.model_dump_json()) == event
    assert events.parse_event('{"type": "dreamed", "request_id": "r1"}') is None
