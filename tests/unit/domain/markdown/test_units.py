"""A text that is being written is cut at ends of sentences and lines only, the same for any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.markdown.units import UnitSplitter

PARTS = [
    "One. ",
    "two! ",
    "`a. b` ",
    "[x. y](z. w) ",
    "1. ",
    "- ",
    "\n",
    "```",
    "好。",
    "[1]",
    ".",
    " ",
    "\\`",
    "(",
    ")",
]
TEXT = st.lists(st.sampled_from(PARTS), max_size=15).map("".join)


def units(text: str, sizes: list[int], *, in_fence: bool = False) -> list[str]:
    splitter, found, at = UnitSplitter(), [], 0
    for size in [*sizes, len(text)]:
        splitter.add(text[at : at + size])
        at += size
        while (unit := splitter.next(in_fence=in_fence)) is not None:
            found.append(unit.text)
    return found


@for_each(
    ("text", "expected"),
    [
        ("One. Two.\n", ["One.", " Two.", "\n"]),
        ("One.[1] Two\n", ["One.[1]", " Two\n"]),
        ("「好。」下\n", ["「好。」", "下\n"]),
        ("`a. b` c. d\n", ["`a. b` c.", " d\n"]),
        ("see [a. b](c) e. f\n", ["see [a. b](c) e.", " f\n"]),
        ("1. One. Two\n", ["1. One.", " Two\n"]),
        ("[r]: a. b\nc. d\n", ["[r]: a. b\n", "c.", " d\n"]),
        ("``` a. b\n", ["``` a. b\n"]),
    ],
)
def test_cuts_at_sentences_and_lines(text: str, expected: list[str]) -> None:
    """Behind a full stop and its markers, not inside code, links, list numbers; some lines only as a whole."""
    assert units(text, []) == expected


@given(TEXT, st.lists(st.integers(0, 7), max_size=30))
def test_chunks_make_no_difference(text: str, sizes: list[int]) -> None:
    """The units are independent of the chunks, and joined they are the beginning of the text."""
    found = units(text, sizes)
    assert found == units(text, [])
    assert text.startswith("".join(found))


def test_a_fence_is_cut_at_lines_only() -> None:
    """Inside code nothing but a line end finishes anything."""
    assert units("a. b. c\nd. ", [1] * 12, in_fence=True) == ["a. b. c\n"]
