"""Other numbers for the `[n]` of an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.markers import renumber_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize

SOURCES = [Source(index=n, title="", url=f"https://example.org/{n}", text="") for n in range(1, 7)]
SAME = {n: n for n in range(1, 10)}
PIECES = st.sampled_from(
    [
        "word",
        " ",
        "\n",
        "\n\n",
        "[1]",
        "[2]",
        "[6]",
        "[9]",
        "](",
        "(x)",
        ":",
        "`",
        "``",
        "```\n",
        "~~~\n",
        "- ",
        "> ",
        "# ",
        "    ",
        "|",
        "[",
        "]",
        "https://example.org/1",
        "[a](https://example.org/2)",
        "!",
        "\\",
        "<b>",
        "*",
        "1. ",
        "\t",
    ]
)


@for_each(
    ("before", "after"),
    [
        ("One [1]. Two [2][3].", "One [4]. Two [5]."),
        ("One [3][1].", "One [4]."),
        ("One [1][2][1].", "One [4][5]."),
        ("[1] says so, [3] does not.", "[4] says so, does not."),
        (
            "- item [1]\n> quote [2]\n# Head [1]\n| a [1] | b [3] |",
            "- item [4]\n> quote [5]\n# Head [4]\n| a [4] | b |",
        ),
        ("`x[1]` and [1]", "`x[1]` and [4]"),
        ("```\nx[1]\n```\n\n    y[1]\n\n[1]", "```\nx[1]\n```\n\n    y[1]\n\n[4]"),
        ("[see](https://example.org/[1]) [1]", "[see](https://example.org/[1]) [4]"),
        ("第一[1]。第二[3]。", "第一[4]。第二。"),
        ("nothing here", "nothing here"),
        ("", ""),
    ],
)
def test_only_markers_change(before: str, after: str) -> None:
    """In prose each marker gets its new number or goes with the blank before it; code and targets stay."""
    assert renumber_markers(before, {1: 4, 2: 5}) == after


@given(st.lists(PIECES, max_size=30).map("".join))
def test_the_same_numbers_give_the_same_text(text: str) -> None:
    """Unchanged numbers change nothing, except that repeated numbers in one group are merged."""
    safe = sanitize(text, SOURCES)
    once = renumber_markers(safe, SAME)
    assert once == safe or "][" in safe
    assert renumber_markers(once, SAME) == once


@given(st.lists(PIECES, max_size=30).map("".join))
def test_renumbered_text_can_be_sanitised_again(text: str) -> None:
    """The text has only existing numbers, and sanitising it again is safe."""
    safe = sanitize(text, SOURCES)
    again = sanitize(renumber_markers(safe, {2: 1, 6: 2}), SOURCES[:2])
    assert sanitize(again, SOURCES[:2]) == again
