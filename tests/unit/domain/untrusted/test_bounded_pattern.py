"""domain/untrusted/bounded_pattern.py: the size of a pattern is known before it is compiled."""

from __future__ import annotations

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.untrusted.bounded_pattern import (
    FOLDED_CLASS,
    UNICODE_CLASS,
    BoundedPattern,
    pattern_size,
)


@for_each(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("a{3}", 3),
        ("a{2,}", 3),
        ("a{3}{4}", 12),
        ("a{0}", 1),
        ("(a{3}b){2}", 10),
        ("^\\d{4}-\\d{2}$", 1 + 8 + 1 + 4 + 1),
        ("\\w", 2 + UNICODE_CLASS),
        ("\\p{Greek}", 9 + UNICODE_CLASS),
    ],
)
def test_repeats_and_classes_are_written_out(pattern: str, size: int) -> None:
    """A repeat multiplies the size of its content, sequences add, and nested repeats multiply."""
    assert pattern_size(pattern) == size


@for_each(
    "pattern",
    [
        r"\w{200}",
        r"(\w){200}",
        r"(?:a|(\w\w)){100}",
        r"[\w]{200}",
        r"[]\w]{200}",
        r"[^]\w]{200}",
        r"[a[b[\w]]]{200}",
        r"[{\w}]{200}",
        r"\w*{200}",
        r"\w+?{200}",
        r"\w{10}{20}",
        r"(\w{10}){20}",
        r"\w{0,000000000200}",
        r"\w{200,}",
        r"\p{L}{200}",
        r"\W" * 200,
        r"[\[\]\w]{200}",
        r"(\)\w){200}",
        r"(?P<n>\w){200}",
        r"[[:alpha:]\w]{200}",
    ],
)
def test_no_spelling_hides_a_large_pattern(pattern: str) -> None:
    """Two hundred classes of Unicode count as that many, however they are written."""
    assert pattern_size(pattern) >= 200 * UNICODE_CLASS


@for_each("pattern", ["(?i)[\x00-\U0010ffff]", r"(?i)[\x00-\x{10ffff}]", r"\\(?si:[^\x00])"])
def test_a_class_in_both_cases_is_large(pattern: str) -> None:
    """The engine looks each letter of such a class up in the other case."""
    assert pattern_size(pattern) >= FOLDED_CLASS


@for_each("pattern", ["(?x)a", r"\\(?ix:a)", "(", r"(a)\1", "(?=a)"])
def test_patterns_of_unknown_size_are_refused(pattern: str) -> None:
    """The flag x is refused, because a comment could be between a class and its repeat."""
    with pytest.raises(ValueError, match="regular expression"):
        BoundedPattern(pattern)


@for_each(("pattern", "text"), [(r"^\(?x$", "(x"), ("(?P<x>a)", "a"), ("(?-i)a", "a")])
def test_what_looks_like_the_flag_passes(pattern: str, text: str) -> None:
    assert BoundedPattern(pattern).matches(text)


@for_each(
    "pattern", ["(" * 16_000, "(a{99}" * 2500 + "){99}" * 2500, "[" * 16_000, "{" * 16_000, "a{" + "9" * 16_000 + "}"]
)
def test_any_pattern_of_a_schema_has_a_size(pattern: str) -> None:
    """Whatever 16 KB hold, also without an end."""
    assert pattern_size(pattern) > 0
