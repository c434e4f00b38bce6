"""Which lines are code agrees with a CommonMark renderer, since the rest is cleaned and code is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.support.cases import for_each

from modules.llm_platform.domain.markdown.blocks import MAX_DEPTH, BlockTracker, expand_tabs

COMMONMARK = MarkdownIt("commonmark")
INDENTS = ["", "", "", "  ", "   ", "    ", "- ", "-   ", "1. ", "2. ", "> ", ">", "      "]
LINES = ["", "```", "````", "~~~", "``` x", "foo", "bar", "# h", "---", "===", "-", "1."]
LINE = st.tuples(st.lists(st.sampled_from(INDENTS), max_size=2).map("".join), st.sampled_from(LINES)).map("".join)


def kinds(text: str) -> list[str]:
    blocks = BlockTracker()
    return [blocks.take(expand_tabs(line)).kind for line in text.split("\n")]


@for_each(
    ("text", "expected"),
    [
        ("# a\n\ntext\n---\n***", ["heading", "blank", "text", "rule", "rule"]),
        ("```\na\n```\nb", ["fence", "code", "fence", "text"]),
        ("~~~ x\n```\n~~~~\nb", ["fence", "code", "fence", "text"]),
        ("- a\n  ```\n  b\nc", ["text", "fence", "code", "text"]),
        ("> ```\n> a\nb", ["fence", "code", "text"]),
        ("a\n    ```", ["text", "text"]),
        ("a\n\n    b", ["text", "blank", "indented"]),
        ("a\n2. b", ["text", "text"]),
        ("-\n\n  a", ["blank", "blank", "text"]),
        ("``` a`b", ["text"]),
        ("``` a|b", ["text"]),
        ("1.\tfoo\n\n\t```\n\tx", ["text", "blank", "fence", "code"]),
    ],
)
def test_line_kinds(text: str, expected: list[str]) -> None:
    """Headings, rules, fences, indented code and text, inside lists and quotes too."""
    assert kinds(text) == expected


@settings(max_examples=300)
@given(st.lists(LINE, max_size=8).map("\n".join))
def test_code_lines_match_a_renderer(text: str) -> None:
    """Each line that is read as fenced code lies inside a fence of markdown-it."""
    fenced = {
        line for token in COMMONMARK.parse(text) if token.type == "fence" and token.map for line in range(*token.map)
    }
    ours = {number for number, kind in enumerate(kinds(text)) if kind in ("fence", "code")}
    assert {number for number in ours if text.split("\n")[number].strip()} <= fenced


@pytest.mark.parametrize("markers", ["> " * 200, "- " * 200])
def test_depth_is_bounded(markers: str) -> None:
    """Containers beyond the maximal depth are plain text, also with a fence inside."""
    blocks = BlockTracker()
    blocks.take(f"{markers}```")
    assert blocks.fence is None
    assert not blocks.opens_fence("> " * MAX_DEPTH + "```")


def test_queries_do_not_change_the_state() -> None:
    """Whether a line would open a fence can be asked without reading it."""
    blocks = BlockTracker()
    assert blocks.opens_fence("```")
    assert blocks.fence is None
    assert blocks.take("a").kind == "text"
