"""Markdown and plain text are read into what can be quoted."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.source_text import MAX_SENTENCES, Sentence, clean, read_blocks, read_sentences

PAGE = """---
title: hidden
---
# Title

Intro line one
goes on here. Second sentence!

[Home](/) | [Docs](/docs) | [Blog](/blog)

Home
Products
About us

| a | b |
|---|---|
| 1 | 2 |

Setext title
============

- first item
  goes on
- second item: with more. And more.
1. numbered

> A quoted line.

To run it, type::

    make run
    make test

```python
x = 1
```

[ref]: https://example.org
![image](pic.png)
.. directive::
$ make run
https://example.org/alone

Lonely heading

The end of it
"""


def everything(text: str, language: str = "en") -> list[Sentence]:
    return list(read_sentences(text, language, lambda paragraph: 1))


def test_blocks_are_told_apart() -> None:
    """Headings, paragraphs, items and code are kept; navigation, tables, directives, console lines and links are not."""
    assert [(block.kind, block.text) for block in read_blocks(PAGE)] == [
        ("heading", "Title"),
        ("paragraph", "Intro line one\ngoes on here. Second sentence!"),
        ("heading", "Setext title"),
        ("item", "first item\ngoes on"),
        ("item", "second item: with more. And more."),
        ("item", "numbered"),
        ("paragraph", "A quoted line."),
        ("paragraph", "To run it, type::"),
        ("code", "    make run\n    make test"),
        ("code", "x = 1"),
        ("heading", "Lonely heading"),
        ("heading", "The end of it"),
    ]


def test_blocks_know_the_heading_above_and_the_language_of_code() -> None:
    """Context for a sentence, and colours for code."""
    blocks = list(read_blocks(PAGE))
    assert blocks[1].heading == "Title"
    assert blocks[3].heading == "Setext title"
    assert blocks[-3].syntax == "python"


def test_sentences_know_their_neighbours() -> None:
    """The one before it in the same paragraph, and the code that its colon announces."""
    found = {sentence.text: sentence for sentence in everything(PAGE)}
    assert found["Second sentence!"].before is found["Intro line one goes on here."]
    assert found["Intro line one goes on here."].before is None
    announced = found["To run it, type:"].after
    assert announced[0].text == "    make run\n    make test"
    assert [sentence.position for sentence in found.values()] == list(range(1, len(found) + 1))


def test_snippets_are_cut_where_the_engine_cut_them() -> None:
    """A piece beside an ellipsis is not a whole sentence, and the date in front is not part of it."""
    found = everything("Jan 5, 2024 — The tower is tall. It was built ... in the city of Paris. More is said here …")
    assert [(sentence.text, sentence.whole) for sentence in found] == [
        ("The tower is tall.", True),
        ("It was built", False),
        ("in the city of Paris.", False),
        ("More is said here …", False),
    ]


def test_a_snippet_may_begin_in_the_middle() -> None:
    """The dots in front are not words of the source; behind them a small letter is half a sentence, a capital a whole one."""
    found = everything("…of the pump. It is made of steel.") + everything("... Pumps move water.")
    assert [(sentence.text, sentence.whole) for sentence in found] == [
        ("of the pump.", False),
        ("It is made of steel.", True),
        ("Pumps move water.", True),
    ]


def test_a_bare_answer_is_a_sentence() -> None:
    """A source of one word is no heading."""
    assert [sentence.text for sentence in everything("Paris")] == ["Paris"]


def test_of_a_long_text_the_relevant_paragraphs_are_read() -> None:
    """The most relevant ones, in the order of the text."""
    text = "\n\n".join(f"Paragraph {number} tells nothing." for number in range(50))
    found = list(read_sentences(text, "en", lambda paragraph: "7" in paragraph, most=3))
    assert [sentence.text.split()[1] for sentence in found] == ["7", "17", "27"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("A **bold** and *soft* and __strong__ word.", "A bold and soft and strong word."),
        ("Call `f(**kwargs)` with *args.", "Call `f(**kwargs)` with *args."),
        ("snake_case_name stays.", "snake_case_name stays."),
        ("See [the docs](https://x.example/a_(b)) now.", "See the docs now."),
        ("See [the docs][ref] now.", "See the docs now."),
        ("As shown.[12][^3] [edit]", "As shown."),
        ("As shown [1, 2] by【3】 others.", "As shown by others."),
        ("A [1](#cite-1) footnote.", "A footnote."),
        ("An ![image](a.png) here.", "An here."),
        ("Some <b>HTML</b> and <br/> text with List<int>.", "Some HTML and text with List<int>."),
        ("Use :func:`~asyncio.run` to start.", "Use `asyncio.run` to start."),
        ("A lone ` tick.", "A lone tick."),
        ("> # Not a quote ¶", "Not a quote"),
        ("Two   blanks\nand lines.", "Two blanks and lines."),
        ("*(an aside)*", "(an aside)"),
    ],
)
def test_markup_goes_and_words_stay(written: str, shown: str) -> None:
    """A quote reads like a sentence, and its words are those of the source."""
    assert clean(written).replace("  ", " ") == shown


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    """No input raises; no sentence is empty or keeps a line break."""
    for sentence in everything(text):
        assert sentence.text.strip()
        assert "\n" not in sentence.text


HOSTILE = [
    "![",
    "![a](",
    "[",
    "[a](",
    "-",
    "| ",
    "# ",
    "**a",
    "_a",
    ":a:",
    "`",
    "```\n",
    "> ",
    "1. ",
    "[1,",
    "<a ",
    "==\n",
    "* * *",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_no_time(unit: str) -> None:
    """A page made to be slow to read is read in a moment, and no further than we need."""
    begun = time.monotonic()
    found = everything("A token. " + unit * (200_000 // len(unit)))
    assert len(found) <= MAX_SENTENCES
    assert time.monotonic() - begun < 3
