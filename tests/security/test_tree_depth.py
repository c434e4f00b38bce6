"""No tree deeper than the limit passes the parser, however the page tries to hide it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree
from tests.support import fuzz

from modules.llm_platform.infrastructure.parsing.html_limits import HTML_DEPTH, TooDeepError
from modules.llm_platform.infrastructure.parsing.nodes import parse

ROOTS = 2  # html and body
NAMES = """div p li ul b i a span table tbody tr td caption svg g path title br select option script style textarea template
button h1 form object math mi nobr x-y"""
TAGS = st.one_of(
    st.sampled_from([f"<{name}>" for name in NAMES.split()]),
    st.sampled_from([f"</{name}>" for name in NAMES.split()]),
    st.sampled_from(["<path/>", "<div/>", "<svg/>", "x", "<!-- <div> -->", "<foreignObject>", "</foreignObject>"]),
    st.sampled_from(
        ["<!x </div>", "<div x='</div>'>", '<b x="</b>">', "<i x=</i>", "<![CDATA[</g>]]>", "<!-->", "<br\xa0>"]
    ),
)


def depth(root: Any) -> int:
    """Return the depth of the tree. The function does not recurse, because the tree may be deeper than Python's stack.

    It visits only elements, because listing children takes quadratic time in the number of comments.
    """
    level, deepest = [root], 0
    while level := [child for node in level for child in children(node)]:
        deepest += 1
    return deepest


def children(node: Any) -> Iterator[Any]:
    child = node.first_element_child
    while child is not None:
        yield child
        child = child.next_element


# Counting a tree costs more than parsing it, and misnested tags create trees of 100,000 elements.
@settings(max_examples=fuzz.chosen(75, 5000), deadline=None)
@given(st.lists(TAGS, max_size=20), st.lists(TAGS, min_size=1, max_size=5), st.integers(1, 600))
def test_a_tree_is_refused_exactly_beyond_the_limit(tags: list[str], repeated: list[str], times: int) -> None:
    """The limit is exact for elements that a parser closes, ignores, moves or repeats."""
    html = "".join(tags) + "".join(repeated) * times
    try:
        parse(html)
        is_refused = False
    except TooDeepError:
        is_refused = True
    assert is_refused == (depth(HTMLTree.parse(html).document) > HTML_DEPTH + ROOTS), html
