"""Markdown and plain text are read into what can be quoted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.extractive.block_reader import read_blocks
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.extractive.sentences import MAX_SENTENCES, Sentence, read_sentences

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


def test_kinds_of_blocks_are_detected() -> None:
    """Headings, paragraphs, items, code and tables are kept; navigation, directives, console lines and links are not."""
    assert [(block.kind, block.text) for block in read_blocks(PAGE)] == [
        ("heading", "Title"),
        ("paragraph", "Intro line one\ngoes on here. Second sentence!"),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("heading", "Setext title"),
        ("item", "first item\ngoes on"),
        ("item", "second item: with more. And more."),
        ("item", "numbered"),
        ("paragraph", "A quoted line."),
        ("paragraph", "To run it, type::"),
        ("code", "make run\nmake test"),
        ("code", "x = 1"),
        ("heading", "Lonely heading"),
        ("heading", "The end of it"),
    ]


def test_blocks_have_heading_and_syntax() -> None:
    """Context for a sentence, and colours for code."""
    blocks = list(read_blocks(PAGE))
    assert blocks[1].heading == "Title"
    assert blocks[4].heading == "Setext title"
    assert blocks[-3].syntax == "python"


def test_sentences_have_their_neighbours() -> None:
    """The one before it in the same paragraph, and the code that its colon is_announcement."""
    found = {sentence.text: sentence for sentence in everything(PAGE)}
    assert found["Second sentence!"].before is found["Intro line one goes on here."]
    assert found["Intro line one goes on here."].before is None
    announced = found["To run it, type:"].after
    assert announced[0].text == "make run\nmake test"
    assert [sentence.position for sentence in found.values()] == list(range(1, len(found) + 1))


MANUAL = """SAW(1)

NAME
       saw - cuts wood into pieces

DESCRIPTION
       Use saw when a piece of wood is too long. It never
       cuts metal, even if you ask it to do so.

       saw --length 3 plank.wood

       The pieces are stacked.
"""


def test_indented_prose_of_a_manual_is_not_code() -> None:
    """From a capital letter to the end of a sentence it is prose; a line of capitals above indented text is a heading."""
    found = [(block.kind, block.heading, block.text) for block in read_blocks(MANUAL)]
    assert found == [
        ("heading", "SAW(1)", "SAW(1)"),
        ("heading", "NAME", "NAME"),
        ("paragraph", "NAME", "saw - cuts wood into pieces"),
        ("heading", "DESCRIPTION", "DESCRIPTION"),
        (
            "paragraph",
            "DESCRIPTION",
            "Use saw when a piece of wood is too long. It never\ncuts metal, even if you ask it to do so.",
        ),
        ("code", "DESCRIPTION", "saw --length 3 plank.wood"),
        ("paragraph", "DESCRIPTION", "The pieces are stacked."),
    ]


@for_each(
    "code",
    [
        "    x = saw(3)\n    y = x + 1",
        "    def cut(wood):\n        return wood  # in pieces.",
        "    saw --length 3 plank.wood.",
        '    {\n      "a": "one of the words."\n    }',
    ],
)
def test_indented_code_stays_code(code: str) -> None:
    """Even where a line of it ends like a sentence."""
    assert [block.kind for block in read_blocks(f"Prose stands here.\n\n{code}\n\nMore prose stands here.")] == [
        "paragraph",
        "code",
        "paragraph",
    ]


def test_a_colon_before_a_fence_announces_nothing_after_it() -> None:
    """The indented sentence after the fence is prose, as it is after any other paragraph."""
    text = "Run this:\n\n```\nx\n```\n\n    The saw weighs 9 kg, which is much for a saw."
    assert [block.kind for block in read_blocks(text)] == ["paragraph", "code", "paragraph"]


def test_table_rows_have_column_names() -> None:
    """And the whole table below its heading; cells keep their code, an escaped bar divides nothing."""
    found = everything("# Codes\n\n| Code | When |\n|:--|--:|\n| `0` | all is **well** |\n| 2 | a \\| b |\n| 3 |\n")
    assert [(one.text, one.row, one.columns) for one in found] == [
        ("Codes:", (), ("Code", "When")),
        ("`0` | all is well", ("`0`", "all is well"), ("Code", "When")),
        ("2 | a \\| b", ("2", "a \\| b"), ("Code", "When")),
    ]


@for_each(
    "text",
    [
        "Home | Docs | Blog\nNews | Help | More",
        "| a | b |\n| 1 | 2 |",
        "| a |\n|---|\n| 1 |",
        "| " + " | ".join("abcdefghi" * 5) + " |\n|" + "-|" * 45 + "\n| " + " | ".join("nopqrstuv" * 5) + " |",
    ],
)
def test_bars_alone_are_not_a_table(text: str) -> None:
    """Menus, tables without a rule, of one column or too wide to be read are left out."""
    assert everything(text) == []


def test_heading_above_code_announces_it() -> None:
    """It says what the code does. A heading above text is not a sentence."""
    found = everything("# Saw\n\nSaws cut wood.\n\n## Installation\n\n```shell\npip install saw\n```\n")
    assert [(one.text, one.is_announcement) for one in found] == [("Saws cut wood.", False), ("Installation:", True)]
    assert found[1].after[0].text == "pip install saw"


def test_list_item_has_its_introduction() -> None:
    """Every item of it, and none of the next list."""
    found = everything("A saw needs:\n\n- a blade\n- a motor\n\n# Colours\n\n- red\n")
    assert [one.intro for one in found] == ["", "A saw needs:", "A saw needs:", ""]


def test_row_of_links_is_not_a_sentence() -> None:
    """A menu written as prose; a sentence with links in it is one."""
    menu = "[Use it](a.md), [change it](b.md), [more about saws](c.md)."
    told = "A [saw](a.md) needs a [blade](b.md) and a motor that turns it, or somebody with strong arms ([more](c.md))."
    assert [one.text for one in everything(f"{menu}\n\n{told}")] == [
        "A saw needs a blade and a motor that turns it, or somebody with strong arms (more)."
    ]


def test_snippets_are_split_at_omissions() -> None:
    """A fragment next to an ellipsis is not a whole sentence, and the leading date is not part of it."""
    found = everything("Jan 5, 2024 — The tower is tall. It was built ... in the city of Paris. More is said here …")
    assert [(sentence.text, sentence.is_complete) for sentence in found] == [
        ("The tower is tall.", True),
        ("It was built", False),
        ("in the city of Paris.", False),
        ("More is said here …", False),
    ]


def test_snippet_may_begin_inside_of_a_sentence() -> None:
    """The leading dots are not part of the source.

    A lower-case letter after them continues a sentence, and a capital begins one.
    """
    found = everything("…of the pump. It is made of steel.") + everything("... Pumps move water.")
    assert [(sentence.text, sentence.is_complete) for sentence in found] == [
        ("of the pump.", False),
        ("It is made of steel.", True),
        ("Pumps move water.", True),
    ]


def test_single_word_is_a_sentence() -> None:
    """A source of one word is no heading."""
    assert [sentence.text for sentence in everything("Paris")] == ["Paris"]


def test_relevant_paragraphs_of_a_long_text_are_read() -> None:
    """The most relevant ones, in the order of the text."""
    text = "\n\n".join(f"Paragraph {number} tells nothing." for number in range(50))
    found = list(read_sentences(text, "en", lambda paragraph: "7" in paragraph, most=3))
    assert [sentence.text.split()[1] for sentence in found] == ["7", "17", "27"]


@for_each(
    ("written", "shown"),
    [
        ("A **bold** and *soft* and __Very strong__ word.", "A bold and soft and Very strong word."),
        ("Call `f(**kwargs)` with *args.", "Call `f(**kwargs)` with *args."),
        ('The "__getitem__()" of __init__ stays.', 'The "__getitem__()" of __init__ stays.'),
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
        ("`saw <https://example.org/saw>`_ is a `tool`_ here.", "saw is a tool here."),
    ],
)
def test_markup_is_removed(written: str, shown: str) -> None:
    """A quote is plain text in the words of the source."""
    assert strip_markup(written).replace("  ", " ") == shown


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


@for_each("unit", HOSTILE)
def test_hostile_text_is_parsed_in_bounded_time(unit: str) -> None:
    """A page made to be slow to read is read in a moment, and no further than we need."""
    small, large = ("A token. " + unit * (size // len(unit)) for size in (10_000, 100_000))
    assert len(everything(large)) <= MAX_SENTENCES
    assert is_linear(lambda: everything(small), lambda: everything(large), 10)


@for_each(
    ("written", "shown"),
    [
        ("`git diff <a> <b>` compares **two** commits [1].", "`git diff <a> <b>` compares two commits."),
        ("Take `row[1]`, not [`col`](https://example.org) [2].", "Take `row[1]`, not `col`."),
        (
            "`__new__` makes it, __init__ fills it, __never__mind.",
            "`__new__` makes it, __init__ fills it, __never__mind.",
        ),
        ("__new__", "__new__"),
        ("**`--word-diff=<mode>`** shows *words*.", "`--word-diff=<mode>` shows words."),
    ],
)
def test_code_and_names_are_unchanged(written: str, shown: str) -> None:
    """Placeholders, indexes and underscores in code are not markup. The surrounding text loses its markup."""
    assert strip_markup(written) == shown


@for_each(
    "text, kinds",
    [
        ("Office\nThe new office opens on 4 May.", ["heading", "paragraph"]),
        ("2. Members\nThe club has 214 members.", ["heading", "paragraph"]),
        ("- Members\n  The club has 214 members.", ["item"]),  # the text of a list item is indented
        (
            "We will meet outside with\nMrs Beck and others.",
            ["paragraph"],
        ),  # a full line: the next word has no room on it
        ("Members 2026\nThe club has 214 members.", ["paragraph"]),  # may be a fact
        ("Chair: Nora Beck\nThe club has 214 members and five chairs.", ["paragraph"]),
        ("The new office\nopens on 4 May in the street behind the station.", ["paragraph"]),
        ("The office, the garage,\nThe Linden Inn and the station are open on Sundays.", ["paragraph"]),
    ],
)
def test_a_short_line_above_a_text_is_its_heading(text: str, kinds: list[str]) -> None:
    """Plain text marks a heading by nothing else than a line that is not full."""
    blocks = list(read_blocks(text))
    assert [block.kind for block in blocks] == kinds
    if len(kinds) > 1:
        assert blocks[1].heading == blocks[0].text
