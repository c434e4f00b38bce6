"""domain/urls/url_pattern.py: the patterns of clients."""

from __future__ import annotations

import time

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.urls.url_pattern import MAX_PATTERN_CHARS, UrlPattern


@for_each(
    ("pattern", "text", "matches"),
    [
        ("/docs/.*", "/docs/a", True),
        ("/docs/.*", "/en/docs/a", True),
        ("^/docs/", "/en/docs/a", False),
        (r"^docs\.example\.com$", "docs.example.com", True),
        (r"^docs\.example\.com$", "docsXexample.com", False),
        (r"/api/v\d+/", "/api/v12/x", True),
        ("/(blog|news)/", "/news/x", True),
        ("[a-z]{2}-[A-Z]{2}", "/de-AT/", True),
        ("", "/x", True),
        (r"\w+\.html$", "/a/b.html", True),
    ],
)
def test_patterns_of_the_vendors_examples(pattern: str, text: str, matches: bool) -> None:
    assert UrlPattern(pattern).matches(text) is matches


@for_each(
    "pattern",
    [
        "(",
        "*a",
        "[a",
        r"(a)\1",
        "(?=a)",
        "(?<!a)b",
        "[z-a]",
        "a{3,2}",
        "a{1001}",
        "(a{33}){33}",
        "\\",
        r"\w{50}",
        "(?x) a",
        "x" * (MAX_PATTERN_CHARS + 1),
    ],
)
def test_what_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    """A broken pattern must not match by chance, and one that is large when it is written out takes memory."""
    with pytest.raises(ValueError, match=r"regular expression|characters|memory"):
        UrlPattern(pattern)


@for_each("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$b", "(.*)(.*)(.*)(.*)(.*)x", "(a?){50}b", ".*" * 90 + "x"])
def test_hostile_pattern_takes_linear_time(pattern: str) -> None:
    """The standard library would need years for some of these."""
    began = time.process_time()
    assert not UrlPattern(pattern).matches("a" * 500)
    assert time.process_time() - began < 5
