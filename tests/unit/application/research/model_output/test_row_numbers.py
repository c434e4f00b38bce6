"""Marks as models write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.model_output.rows import read_number


@for_each(
    ("value", "number"),
    [
        *(
            (7, 7),
            (7.5, 7.5),
            (-2, -2),
            (70, 70),
            ("7", 7),
            (" 7.0 ", 7),
            ("7,5", 7.5),
            ("+7", 7),
            ("−2", -2),
            ("７", 7),
        ),
        *(
            ("8/10", 8),
            ("8 / 10", 8),
            ("4/5", 8),
            ("80/100", 8),
            ("8 из 10", 8),
            ("8 out of 10", 8),
            ("80%", 8),
            ("80 %", 8),
        ),
        *(
            ("**7**", 7),
            ("~7", 7),
            ("7 points", 7),
            ("7 баллов", 7),
            ("8 (very good)", 8),
            ("8 – fits well", 8),
            ("7.", 7),
        ),
        *(("seven", 7), ("Семь", 7), ("sieben", 7), ("siete", 7), ("七", 7), ("Ten", 10), ("ноль", 0)),
    ],
)
def test_number_in_any_notation_is_read(value: object, number: float) -> None:
    """Whatever the spelling; fractions and percents are brought to 0..10."""
    assert read_number(value) == pytest.approx(number)


@for_each(
    "value",
    [
        *(
            None,
            True,
            False,
            [],
            {},
            [7],
            "",
            " ",
            "NaN",
            "inf",
            "Infinity",
            "none",
            "null",
            "n/a",
            "high",
            "-",
            "8/0",
            "/10",
        ),
        *(
            math.nan,
            math.inf,
            -math.inf,
            10**400,
            "9" * 400,
            "1e999",
            "Solar sails 101",
            "101 ways to sail",
            "7 8",
            "10/10/24",
        ),
    ],
)
def test_other_values_are_none(value: object) -> None:
    """No truth value, no list, nothing endless, no title with a number in it."""
    assert read_number(value) is None


@given(st.one_of(st.text(), st.integers(), st.floats(), st.text("0123456789.,/%+- eE", max_size=90)))
def test_numbers_are_finite(value: object) -> None:
    """Any input gives finite numbers."""
    number = read_number(value)
    assert number is None or math.isfinite(number)
