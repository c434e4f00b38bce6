"""A page that is taken for well nested is not deep in a parser either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree, NodeType
from tests.support import fuzz

from modules.llm_platform.infrastructure.parsing import html_limits

MOST = 6
AROUND = 3  # html, body, and what a parser adds to a table
NAMES = """div p li ul b i a span table tbody tr td svg g path br select option script style template button h1 form
x-y"""
TAGS = st.one_of(
    st.sampled_from([f"<{name}>" for name in NAMES.split()]),
    st.sampled_from([f"</{name}>" for name in NAMES.split()]),
    st.sampled_from(["<path/>", "<div/>", "<svg/>", "x", "<!-- <div> -->", "<foreignObject>", "</foreignObject>"]),
)


def depth(node: Any) -> int:
    elements = [child for child in node.child_nodes if child.type == NodeType.ELEMENT]
    return 1 + max(map(depth, elements), default=0)


@settings(max_examples=fuzz.chosen(300, 20_000))
@given(st.lists(TAGS, max_size=40), st.lists(TAGS, max_size=4), st.integers(0, 12))
def test_a_page_that_is_well_nested_is_no_deeper(tags: list[str], repeated: list[str], times: int) -> None:
    """Whatever a parser ends by itself, ignores, moves or repeats."""
    html = "".join(tags) + "".join(repeated) * times
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_limits, "MAX_DEPTH", MOST)
        is_well_nested = html_limits._is_well_nested(html)
    body = HTMLTree.parse(html).body
    if is_well_nested and body is not None:
        assert depth(body) <= MOST + AROUND, html


@pytest.mark.parametrize(
    "html",
    [
        "<p><b>" * 20 + "</b></p>" * 20,
        "<svg/>" + "<path/>" * 20,
        "<svg><b></b>" + "<path/>" * 20,
        "<svg><br>" + "<path/>" * 20,
        "<select><style></select>" + "<div>" * 20 + "</style>",
        "<span>" * 20 + "<div>" + "</span>" * 20,
        "<div>" * 20 + "<object>" + "</div>" * 20,
    ],
)
def test_tricks_are_looked_at_closely(html: str) -> None:
    """These have few open elements by their tags, and many in a parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_limits, "MAX_DEPTH", MOST)
        assert not html_limits._is_well_nested(html)


def test_what_ends_at_once_holds_nothing() -> None:
    """`<svg/>` is no element within which `/>` would end others."""
    with pytest.raises(html_limits.TooDeepError):
        html_limits.bounded_html("<svg/>" + "<path/>" * 2 * html_limits.MAX_DEPTH)
