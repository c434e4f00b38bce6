"""The limit in a question, and the rest of the question."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.extractive.limits import MAX_READ_CHARS, read_limits


@for_each(
    ("question", "low", "high", "unit"),
    [
        ("Which rooms seat more than 20 people?", 20, None, ""),
        ("anything over half a kilo?", 0.5, None, "kg"),
        ("What can I rent for up to £15?", None, 15, "gbp"),
        ("Von wo sind es höchstens 500 Meter bis ans Meer?", None, 500, "m"),
        ("Quelles balades font plus de 12 kilomètres ?", 12_000, None, "m"),
        ("Which trips take at least 3 hours and 20 minutes?", 200, None, "min"),
        ("Who ran it in less than seven and a half minutes?", None, 7.5, "min"),
        ("between 3 and 5 km", 3000, 5000, "m"),
        ("What sold 1,400 or more?", 1400, None, ""),
        ("less than a quarter of the time", None, 25, "%"),
        ("Which courses start after 18:30?", 18 * 60 + 30, None, "min"),
        ("Who joined after 2019?", 2019_99_99, None, None),
        ("Who joined since 2019?", 2019_00_00, None, None),
        ("What is on before June?", None, 6_00, None),
        ("Welche kann ich vor dem 1. Mai haben?", None, 5_01, None),
        ("until 14 March 2026", None, 2026_03_14, None),
        ("before the year 2000", None, 2000_00_00, None),
        ("over an hour", 60, None, "min"),
        ("höher als einen Meter", 1, None, "m"),
    ],
)
def test_a_limit_is_read_with_its_unit(question: str, low: float | None, high: float | None, unit: str | None) -> None:
    """Known units are converted: kilometres to metres, hours to minutes. A date has no unit."""
    (limit,) = read_limits(question)
    assert (limit.low, limit.high) == (pytest.approx(low), pytest.approx(high))
    assert limit.unit == unit


@for_each(
    ("question", "inside", "outside"),
    [
        ("more than 20", 21, 20),
        ("at least 20", 20, 19),
        ("under 20", 19, 20),
        ("no more than 20", 20, 21),
        ("not older than 30", 30, 31),
        ("between 10 and 20", 20, 21),
    ],
)
def test_a_limit_is_within_itself_only_if_it_says_so(question: str, inside: float, outside: float) -> None:
    limit = read_limits(question)[0]
    assert limit.contains(inside)
    assert not limit.contains(outside)


@for_each("question", ["Which rooms are for 20 or more people?", "Which rooms are for 20 people or more?"])
def test_the_noun_may_stand_in_a_limit_or_after_it(question: str) -> None:
    (limit,) = read_limits(question)
    assert (limit.low, limit.noun) == (20, "people")
    assert set(limit.rest.replace("?", "").split()) - {"or", "more"} == {"are", "for", "people", "rooms", "which"}


def test_a_comparative_names_what_it_compares() -> None:
    """Older than 30 is more of an age. For a date of beginning it is less."""
    readings = {
        limit.measure.name: limit for limit in read_limits("Who is older than 30?") if limit.measure is not None
    }
    assert readings["age"].low == 30
    assert readings["beginning"].high == 30


@for_each(
    "question",
    [
        "Which rooms have a projector?",
        "more than twenty-five",
        "over the quickest",
        "before the storm",
        "Which orders are from March?",  # and not since March
        "What do 2012 members pay?",  # "do" is "until" in Polish
    ],
)
def test_no_limit_is_made_up(question: str) -> None:
    assert read_limits(question) == []


def test_the_end_of_a_long_text_is_not_read() -> None:
    """Each phrase is compared with the text after it, so the time would grow quadratically."""
    assert read_limits("x " * MAX_READ_CHARS + "more than 20") == []
