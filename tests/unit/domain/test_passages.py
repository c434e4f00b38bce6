"""domain/passages.py"""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modules.llm_platform.domain.passages import CHARS_PER_WORD, Passage, split_passages

LINES = st.sampled_from(
    [
        "# Guide", "## Install ##", "Setext\n------", "A sentence here. Another one follows it.", "", "", "```",
        "x = 1  # not a heading",
        "- item", "| a | b |", "これは文です。次の文です。", "\ud800", "word " * 60, "x" * 700, "   ", "\t", "=====",
    ]
)  # fmt: skip
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
    passages = split_passages(text, max_words=max_words, overlap=overlap)
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
    passages = split_passages(text, max_words=max_words)
    assert all(a.end <= b.start for a, b in pairwise(passages))


def test_a_heading_begins_a_passage_and_names_it() -> None:
    """A passage bears the headings that lead to it, and its own heading stands in it."""
    first, second = split_passages(GUIDE)
    assert first == Passage(0, GUIDE.index("## Install") - 2, "Guide")
    assert second.heading == "Guide > Install"
    assert GUIDE[second.start :].startswith("## Install")
    assert GUIDE[second.start : second.end].endswith("of your distribution.")  # too short to stand alone


def test_a_heading_ends_the_part_above_it() -> None:
    """A heading of the same level replaces the one before in the trail."""
    body = "word " * 40 + "\n\n"
    text = f"# A\n\n{body}## B\n\n{body}## C\n\n{body}# D\n\n{body}"
    assert [p.heading for p in split_passages(text)] == ["A", "A > B", "A > C", "D"]


@pytest.mark.parametrize(
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
    assert split_passages(text)[0].heading == heading


def test_code_is_cut_between_lines() -> None:
    """Code that is too long for one passage loses no line's beginning, and blank lines in it end nothing."""
    code = "```python\n" + "".join(f"    line_{i} = {i}\n\n" for i in range(100)) + "```"
    passages = split_passages(code, max_words=50)
    assert len(passages) > 3
    assert all(code[p.start : p.start + 4] in ("    ", "```p", "```") for p in passages)
    assert split_passages("```\na\n\nb\n```\n\nText.") == [Passage(0, 19, "")]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    """Where a paragraph has sentences, a passage ends with one."""
    text = "This is a sentence of seven words. " * 100
    passages = split_passages(text, max_words=50)
    assert len(passages) == 15
    assert all(text[p.start : p.end].startswith("This") and text[p.end - 1] == "." for p in passages)


def test_neighbours_share_whole_sentences() -> None:
    """With an overlap, the last sentences of a passage that fit into it begin the next one as well."""
    text = "One two three. Four five six. Seven eight nine. Ten eleven twelve."
    shown = [text[p.start : p.end] for p in split_passages(text, max_words=6, overlap=3)]
    assert shown == [
        "One two three. Four five six.", "Four five six. Seven eight nine.", "Seven eight nine. Ten eleven twelve.",
    ]  # fmt: skip


def test_scripts_without_blanks_are_measured_by_letters() -> None:
    """A Chinese page is not one word."""
    text = "这是一个句子。" * 200
    passages = split_passages(text, language="zh", max_words=100)
    assert len(passages) > 5
    assert all(text[p.end - 1] == "。" for p in passages)


@pytest.mark.parametrize(
    "unit",
    [
        "x", "word ", "a b c ", "漢字", "Ein Satz. ", "# h\n", "```\n", "a\n\n", " x", "`", "a\n---\n", "x\n",
        "# # # ## #", " \t", "\n", "これは文です。",
    ],
)  # fmt: skip
def test_time_grows_with_length_alone(unit: str) -> None:
    """Four times the text takes four times as long, whatever it is made of; ten times is the alarm."""
    seconds = []
    for size in (20_000, 80_000):
        text = unit * (size // len(unit)) + "end"
        tries = []
        for _ in range(3):
            began = time.process_time()
            split_passages(text)
            tries.append(time.process_time() - began)
        seconds.append(min(tries))
    assert seconds[1] <= 10 * seconds[0] + 0.01
