"""Lists and ranges of citation markers name sources, and nothing else."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.markdown.markers import MARKER, mask_code_spans, parse_numbers, render_markers

CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")  # the rule of CommonMark, which is slow to search for
KNOWN = (1, 2, 3, 5, 8)


@for_each(
    ("listed", "expected"),
    [
        ("1", [1]),
        ("3, 1, 3", [3, 1]),
        ("1-3", [1, 2, 3]),
        ("2–8", [2, 3, 5, 8]),
        ("8-2", [8, 2]),
        ("4", []),
        ("1-999999999999", [1, 2, 3, 5, 8]),
        ("0", []),
        ("0, 1", None),
        ("５", [5]),
    ],
)
def test_lists_and_ranges(listed: str, expected: list[int] | None) -> None:
    """Each number once, in its order; ranges give the sources in them; an interval from 0 is no citation."""
    assert parse_numbers(listed, KNOWN) == expected


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5), st.sampled_from([", ", "-", "–", ";"]))
def test_only_known_numbers_are_cited(numbers: list[int], sign: str) -> None:
    """Any list of numbers is reduced to numbers of sources."""
    assert set(parse_numbers(sign.join(map(str, numbers)), KNOWN) or []) <= set(KNOWN)


@for_each("text", ["[a]", "[1.5]", "[-1]", "[1/2]", "[ ]", "[]", "(1)", "[1a]"])
def test_other_brackets_are_no_markers(text: str) -> None:
    """Words, fractions, boxes and round brackets cite nothing."""
    assert MARKER.fullmatch(text) is None


def test_rendered_markers_have_offsets() -> None:
    """Start, end and number of each marker."""
    assert render_markers("a [1][12] b") == [(2, 5, 1), (5, 9, 12)]


@given(st.text(alphabet="`a ", max_size=40))
def test_code_is_masked_by_the_rule_of_markdown(line: str) -> None:
    """A run of backticks ends at the next run of the same length; without one it is text."""
    assert mask_code_spans(line) == CODE_SPAN.sub(lambda found: "x" * len(found[0]), line)


def test_masking_runs_of_many_lengths_takes_time_in_proportion_to_the_line() -> None:
    """Each length is looked up, not searched for."""
    short, long = (" ".join("`" * length for length in range(1, most)) for most in (140, 443))
    assert is_linear(lambda: mask_code_spans(short), lambda: mask_code_spans(long), 10)
