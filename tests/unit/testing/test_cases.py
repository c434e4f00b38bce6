"""tests/support/cases.py: one law over a table of cases."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each


@for_each("number", [1, 2, 3, 4])
def is_odd(number: int) -> None:
    assert number % 2, f"{number} is even"


def test_each_case_that_does_not_hold_is_named() -> None:
    """The error has every failing case with what it says, and no case that holds."""
    with pytest.raises(AssertionError) as raised:
        is_odd()  # type: ignore[call-arg]  the table gives the argument
    shown = str(raised.value)
    assert "2 of 4 cases do not hold" in shown
    assert [f"case: number={number}" in shown for number in (1, 2, 3, 4)] == [False, True, False, True]
    assert "2 is even" in shown
    assert "4 is even" in shown
