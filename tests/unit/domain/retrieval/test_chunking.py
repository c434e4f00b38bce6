"""domain/retrieval/chunking.py"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.retrieval.chunking import CHARS_PER_WORD, STRETCH, TINY_SHARE, Chunk, split_chunks

LINES = st.sampled_from(
    [
        "# Guide",
        "## Install ##",
        "Setext\n------",
        "A sentence here. Another one follows it.",
        "",
        "",
        "```",
        "x = 1  # not a heading",
        "- item",
        "| a | b |",
        "これは文です。次の文です。",
        "\ud800",
        "word " * 60,
        "x" * 700,
        "   ",
        "\t",
        "=====",
    ]
)
TEXTS = st.one_of(st.text(max_size=400), st.lists(LINES, max_size=40).map("\n".join))

GUIDE = """# Guide

This guide is long enough to be a passage of its own since it tells you in about thirty words what the
project does and why, before the next heading begins a part about something else entirely.

## Install

Run the installer. It asks for a folder.

### On Linux

Use the package of your distribution.
"""


def units(text: str) -> int:
    return max(len(text.split()), len(text) // CHARS_PER_WORD)


@given(TEXTS, st.integers(2, 60), st.integers(0, 30))
@example("a\n" + " " * 5000 + "\nb", 10, 5)
@example("# " + "h " * 300, 10, 0)
def test_everything_stands_in_a_passage(text: str, max_words: int, overlap: int) -> None:
    """Passages are in order, trimmed, bounded, and together hold all but blanks."""
    passages = split_chunks(text, max_words=max_words, overlap=overlap)
    held: set[int] = set()
    for passage in passages:
        shown = text[passage.start : passage.end]
        assert shown
        assert shown.strip() == shown.rstrip().lstrip("\n").lstrip()
        assert shown == shown.rstrip()
        assert units(shown) <= 2 * max_words + 1
        held.update(range(passage.start, passage.end))
    assert [p.start for p in passages] == sorted(p.start for p in passages)
    assert [p.end for p in passages] == sorted(p.end for p in passages)
    assert not [i for i, letter in enumerate(text) if not letter.isspace() and i not in held]


@given(TEXTS, st.integers(2, 60))
def test_without_overlap_nothing_stands_twice(text: str, max_words: int) -> None:
    """The default cuts the text into pieces that do not share a letter."""
    passages = split_chunks(text, max_words=max_words)
    assert all(a.end <= b.start for a, b in pairwise(passages))


def test_a_heading_begins_a_passage_and_names_it() -> None:
    """A passage has the headings above it, and contains its own heading."""
    first, second = split_chunks(GUIDE, max_words=41)
    assert first == Chunk(0, GUIDE.index("## Install") - 2, "Guide")
    assert second.heading == "Guide > Install"
    assert GUIDE[second.start :].startswith("## Install")
    assert GUIDE[second.start : second.end].endswith("of your distribution.")  # too short to be a separate passage


def test_a_heading_ends_the_part_above_it() -> None:
    """A heading of the same level replaces the one before in the trail."""
    body = "word " * 120 + "\n\n"
    text = f"# A\n\n{body}## B\n\n{body}## C\n\n{body}# D\n\n{body}"
    assert [p.heading for p in split_chunks(text)] == ["A", "A > B", "A > C", "D"]


@for_each(
    ("text", "heading"),
    [
        ("# About C#\n\nText.", "About C#"),
        ("## Closed ##\n\nText.", "Closed"),
        ("Title\n=====\nText.", "Title"),
        ("#!/bin/sh\n\nText.", ""),
        ("```\n# comment\n```", ""),
        ("| a |\n| - |\n", ""),
    ],
)
def test_what_is_a_heading(text: str, heading: str) -> None:
    """Markdown's two kinds of headings, and nothing that only looks like one."""
    assert split_chunks(text)[0].heading == heading


def test_code_is_cut_between_lines() -> None:
    """Code that is too long for one passage loses no line's beginning, and blank lines in it end nothing."""
    code = "```python\n" + "".join(f"    line_{i} = {i}\n\n" for i in range(100)) + "```"
    passages = split_chunks(code, max_words=50)
    assert len(passages) > 3
    assert all(code[p.start : p.start + 4] in ("    ", "```p", "```") for p in passages)
    assert split_chunks("```\na\n\nb\n```\n\nText.") == [Chunk(0, 19, "")]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    """Where a paragraph has sentences, a passage ends with one."""
    text = "This is a sentence of seven words. " * 100
    passages = split_chunks(text, max_words=50)
    assert len(passages) == 14
    assert all(text[p.start : p.end].startswith("This") and text[p.end - 1] == "." for p in passages)


def test_neighbours_share_whole_sentences() -> None:
    """With an overlap, the last sentences of a passage that fit into it begin the next one as well."""
    text = "One two three. Four five six. Seven eight nine. Ten eleven twelve."
    shown = [text[p.start : p.end] for p in split_chunks(text, max_words=6, overlap=3)]
    assert shown == [
        "One two three. Four five six.",
        "Four five six. Seven eight nine.",
        "Seven eight nine. Ten eleven twelve.",
    ]


def sentences(count: int) -> str:
    """Of ten words each."""
    return " ".join(f"Sentence number {number} has ten words like all the others." for number in range(count))


@given(TEXTS.filter(str.isascii), st.integers(20, 200))
def test_a_text_that_is_slightly_too_long_is_one_passage(text: str, max_words: int) -> None:
    """The passage contains everything from the first letter to the last. A text without a letter has no passage."""
    passages = split_chunks(text, max_words=max_words)
    if units(text) <= int(STRETCH * max_words):
        assert [text[p.start : p.end] for p in passages] == ([text.strip()] if text.strip() else [])


@given(st.integers(1, 120), st.integers(1, 120), st.integers(40, 200), st.integers(0, 30))
def test_no_passage_is_a_tiny_rest(first: int, second: int, max_words: int, overlap: int) -> None:
    """A section is cut by its length into passages of more than a third of the usual length, none longer than STRETCH
    times that, and its last one may be as long.
    """
    text = f"# One\n\n{sentences(first)}\n\n# Two\n\n{sentences(second)}"
    passages = [text[p.start : p.end] for p in split_chunks(text, max_words=max_words, overlap=overlap)]
    assert all(units(shown) <= STRETCH * max_words for shown in passages)
    whole = {f"# One\n\n{sentences(first)}", f"# Two\n\n{sentences(second)}"}
    assert len(passages) == 1 or all(units(shown) >= TINY_SHARE * max_words for shown in passages if shown not in whole)


def test_the_rest_of_a_section_stays_with_it() -> None:
    """A section is kept whole up to STRETCH times the usual length. Beyond, its first passage has the usual length."""
    end = "\n\n# Next\n\n" + sentences(20)
    sizes = [
        [units(text[p.start : p.end]) for p in split_chunks(text, max_words=200)]
        for text in ("# A\n\n" + sentences(27) + end, "# A\n\n" + sentences(29) + end)
    ]
    assert sizes == [[272, 202], [192, 100, 202]]


@for_each("tail", ["## Notes", "## Notes\n\nNone.", "# See also\n\n- one\n- two"])
@for_each("before", [27, 28, 40])
def test_a_tiny_end_joins_the_passage_before_it(tail: str, before: int) -> None:
    """A heading that nothing follows, and a last section that is hardly more."""
    text = f"# House\n\n{sentences(before)}\n\n{tail}"
    last = split_chunks(text, max_words=200)[-1]
    shown = text[last.start : last.end]
    assert shown.endswith(tail)
    assert units(shown) >= TINY_SHARE * 200


def test_a_tiny_end_shares_evenly_with_a_passage_that_is_full() -> None:
    """Both together would be too long; with an overlap, the second begins with the end of the first."""
    text = f"# House\n\n{sentences(27)}\n\n## Notes\n\n{sentences(1)} And one."
    for overlap, sizes in ((0, [142, 144]), (30, [142, 174])):
        passages = split_chunks(text, max_words=200, overlap=overlap)
        assert [units(text[p.start : p.end]) for p in passages] == sizes
        assert [p.heading for p in passages] == ["House", "House"]


def test_scripts_without_blanks_are_measured_by_letters() -> None:
    """A Chinese page is not one word."""
    text = "这是一个句子。" * 200
    passages = split_chunks(text, language="zh", max_words=100)
    assert len(passages) > 5
    assert all(text[p.end - 1] == "。" for p in passages)


@for_each(
    "unit",
    [
        "x",
        "word ",
        "a b c ",
        "漢字",
        "Ein Satz. ",
        "# h\n",
        "```\n",
        "a\n\n",
        " x",
        "`",
        "a\n---\n",
        "x\n",
        "# # # ## #",
        " \t",
        "\n",
        "これは文です。",
    ],
)
def test_time_grows_with_length_alone(unit: str) -> None:
    """Ten times the text takes ten times as long, whatever it is made of, not a hundred times."""
    small, large = (unit * (size // len(unit)) + "end" for size in (8_000, 80_000))
    assert is_linear(lambda: split_chunks(small), lambda: split_chunks(large), 10)
