"""What a writer made of the sources is shown without anything that it had no right to show."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown import inline
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer, sanitize
from modules.llm_platform.domain.markdown.unwrapping import SourceListRemover

SOURCES = [
    Source(index=number, title=f"Source {number}", url=url, text="…")
    for number, url in ((1, "https://docs.example/a"), (2, "https://docs.example/x_(y)"), (3, "doc:guide/a.md"))
]
HOSTILE_CHARS = 30_000
HOSTILE_SECONDS = 3.0  # seconds of the processor; a linear pass takes a tenth of it


def shown(text: str) -> str:
    return sanitize(text, SOURCES)


def in_pieces(text: str, sizes: list[int]) -> list[str]:
    sanitizer, pieces, at = AnswerSanitizer(SOURCES), [], 0
    for size in [*sizes, len(text)]:
        pieces.append(sanitizer.feed(text[at : at + size]))
        at += size
    return [*pieces, sanitizer.finish()]


@for_each(
    ("written", "expected"),
    [
        ("A [1].", "A [1]."),
        ("A [1, 3].", "A [1][3]."),
        ("A [1,2;3].", "A [1][2][3]."),
        ("A [1-3].", "A [1][2][3]."),
        ("A [1–3].", "A [1][2][3]."),
        ("A [3-1].", "A [3][1]."),
        ("A [1-999999999].", "A [1][2][3]."),
        ("A 【2】.", "A [2]."),
        ("A 【2†source】.", "A [2]."),
        ("A ［２］.", "A [2]."),
        ("A [１].", "A [1]."),
        ("A [1][2].", "A [1][2]."),
        ("A [^1].", "A [1]."),
        ("A [Source 2].", "A [2]."),
        ("A [sources: 1, 2].", "A [1][2]."),
        (r"A \[1\].", "A [1]."),
        ("A [**1**].", "A [1]."),
        ("A [\u200b1\u200b].", "A [1]."),
        ("A [1](https://docs.example/a).", "A [1]."),
        ("A [1](https://evil.example/).", "A [1]."),
        ("A [1, 99].", "A [1]."),
    ],
)
def test_markers_are_written_in_one_way(written: str, expected: str) -> None:
    """Every syntax of a marker is written as [n] with the same numbers."""
    assert shown(written) == expected


@for_each(
    ("written", "expected"),
    [
        ("A [9].", "A."),
        ("A [0].", "A."),
        ("A [4], b [9][1] c.", "A, b [1] c."),
        ("A [7-9].", "A."),
        ("A 【9†source】 b.", "A b."),
        ("A [٩].", "A."),
        (r"A \[9\].", "A."),
        ("A [9](https://docs.example/a).", "A."),
        ("A [" + "9" * 5000 + "].", "A."),
        ("- [9] item", "- item"),
        ("word[9]word", "wordword"),
    ],
)
def test_unknown_numbers_are_removed(written: str, expected: str) -> None:
    """A marker without a source disappears with the blank before it."""
    assert shown(written) == expected


@for_each("hidden", ["[[98]99]", "[9[98]9]", "[[[98]98]99]", "&#91;99&#93;", "[&#57;]", "[9[x](y)9]"])
def test_removal_makes_no_new_marker(hidden: str) -> None:
    """Text around a removed part does not form a new marker."""
    assert "[99]" not in shown(hidden)
    assert "[9]" not in shown(hidden)


@for_each(
    "text",
    ["In [0, 1] it grows.", "a[i][j] = 1", "a [sic] b", "- [ ] task", "1 < 2 && 3 > 2", "AT&T, x^2", r"\[ x^2 \]"],
)
def test_harmless_punctuation_stays(text: str) -> None:
    """Intervals, indices, remarks in brackets, task boxes, comparisons and formulas are text."""
    assert shown(text) == text


@for_each(
    "code",
    [
        "`a[9]`",
        "``a`[9]`` and `<b>`",
        "```py\nx[99] = '<b>' # http://evil.example\n```",
        "~~~\n[9](http://evil.example)\n\n<b>\n~~~",
        "````md\n```\n[9]\n```\n````",
        "1. Do:\n   ```sh\n   curl http://evil.example [9]\n   ```\n2. Then [1]",
        "> ```\n> [9]\n> ```",
        "- a\n\n  ~~~\n  <b> [9]\n  ~~~\n- b",
        "`x = 'https://evil.example'`",
    ],
)
def test_code_is_left_alone(code: str) -> None:
    """Fenced code, also in lists and quotes, and code spans are unchanged byte for byte."""
    assert shown(code) == code


def test_code_with_a_bar_is_kept_outside_of_tables() -> None:
    """A bar cuts code in a table only, and no line below makes a table of a line with such code."""
    usage = "`pop [--index] [-q|--quiet] [<stash>]`: Apply it."
    assert shown(usage) == usage
    assert shown(f"{usage}\n--- | ---\n") == f"{usage}\n--- \\| ---\n"
    assert shown(f"One. Two {usage}\n:-|:-\n") == f"One. Two {usage}\n:-\\|:-\n"
    assert "<b>" not in shown("a | b\n--- | ---\n`x|<b>`\n")
    table = "| `a\\|b` | c |\n|---|---|\n| d | e |\n"
    assert "\n|---|---|\n" in shown(table)


def test_code_left_open_is_closed_at_the_end() -> None:
    """Text after an answer does not become part of unclosed code."""
    assert shown("```\nopen") == "```\nopen\n```"
    assert shown("- a\n  ```\n  open\n") == "- a\n  ```\n  open\n  ```"
    assert shown("> ~~~~\n> open") == "> ~~~~\n> open\n> ~~~~"


@for_each(
    ("written", "expected"),
    [
        ("[text](https://evil.example/x)", "text"),
        ("[text](<https://evil.example/x> 'title')", "text"),
        ("[a **b**](javascript:alert(1))", "a **b**"),
        ("[a](//evil.example)", "a"),
        ("![alt](https://evil.example/p.png)", "alt"),
        ("![](https://evil.example/p.png)", ""),
        ("[![alt](http://evil.example/i)](http://evil.example)", "alt"),
        ("[a][r]\n\n[r]: https://evil.example/", "a\n\n"),
        ("[r]: <https://evil.example/> 'title'\nb", "b"),
        ("[1]: important words", "[1] : important words"),
        ("<https://evil.example/>", "`https://evil.example/`"),
        ("see https://evil.example/a?b=(c).", "see `https://evil.example/a?b=(c)`."),
        ("(see HTTP://EVIL.example)", "(see `HTTP://EVIL.example`)"),
        ("www.evil.example!", "`www.evil.example`!"),
        ("at //evil.example/x or evil.example/x", "at `//evil.example/x` or `evil.example/x`"),
        ("mail bob@evil.example", "mail `bob@evil.example`"),
        ("javascript:alert(1)", "`javascript:alert(1)`"),
        ("访问https://evil.example/a。好", "访问`https://evil.example/a`。好"),
    ],
)
def test_strange_addresses_are_no_links(written: str, expected: str) -> None:
    """Links and images lose a target that is no source's; bare addresses become code; definitions go."""
    assert shown(written) == expected


@for_each(
    ("written", "expected"),
    [
        ("[text](https://docs.example/a)", "[text](https://docs.example/a)"),
        ("[text](<https://docs.example/x_(y)>)", "[text](<https://docs.example/x_(y)>)"),
        ("[text](https://docs.example/a/?utm_source=x#top)", "[text](https://docs.example/a)"),
        ("[text](doc:guide/a.md 'title')", "[text](doc:guide/a.md)"),
        ("![chart](https://docs.example/a)", "[chart](https://docs.example/a)"),
        ("see https://docs.example/a.", "see https://docs.example/a."),
        ("see <https://docs.example/a>", "see <https://docs.example/a>"),
    ],
)
def test_a_sources_address_stays(written: str, expected: str) -> None:
    """Links to sources are kept, with the address exactly as the source has it."""
    assert shown(written) == expected


@for_each(
    ("written", "expected"),
    [
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("<!-- c --> <?p?> <![CDATA[x]]>", "&lt;!-- c --> &lt;?p?> &lt;![CDATA[x]]>"),
        (r"\<b>", "&lt;b>"),
        ("&lt;b&gt; &copy; &nbsp;", "&lt;b&gt; &copy; &nbsp;"),
        ("java&#115;cript", "java&amp;#115;cript"),
    ],
)
def test_html_is_escaped(written: str, expected: str) -> None:
    """A tag, comment or declaration is shown as text, and entities cannot encode forbidden markup."""
    assert shown(written) == expected


@for_each(
    "attack",
    [
        "[te\nxt](http://evil.example)",
        "[x](\nhttp://evil.example)",
        "w[w](x)w.evil.example",
        "http:[99]//evil.example",
        "www. [99]evil.example/x",
        "un`closed [x](http://evil.example)",
        "    ```\n[x](http://evil.example)",
        "foo\n    ```\n    y ``` [x](http://evil.example)",
        "| `a | [x](http://evil.example)` | b |\n|---|---|",
        "[foo\nbar]: http://evil.example\n\n[foo bar]",
        "![[x](http://evil.example)](http://evil.example)",
    ],
)
def test_evasions_are_neutralised(attack: str) -> None:
    """Constructs over lines, unclosed code, table cells and removed parts that join bring no link past."""
    out = shown(attack)
    assert "](http://evil" not in out.replace("'", "")
    assert "]: http://evil" not in out


def test_text_that_changes_with_each_pass_is_flattened(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is still not stable after some readings loses all signs that could mean something."""
    monkeypatch.setattr(inline, "MAX_PASSES", 1)
    out = shown("x [a](http://evil.example) & <b> [9] `c` www.evil.example")
    assert not set("[]`<&/.") & set(out)
    assert "evil" in out


@for_each("size", [1, 2, 3, 5])
def test_a_line_may_end_in_a_carriage_return(size: int) -> None:
    """A carriage return ends a line, alone or with a line feed, also if a chunk ends between or after them."""
    text = "One. [1]\rTwo.\r\n\r\nThree.\r"
    assert shown(text) == "".join(in_pieces(text, [size] * len(text))) == "One. [1]\nTwo.\n\nThree.\n"


@for_each("text", ["a\x00b\x1b[31m\x07c", "a\ud800b", "a\u0085b", "a\r\nb\rc"])
def test_control_characters_are_replaced(text: str) -> None:
    """Control characters and halves of characters do not reach a terminal or an encoder; line ends are one kind."""
    out = shown(text)
    out.encode("utf-8")
    assert all(sign == "\n" or sign.isprintable() or sign == "\ufffd" for sign in out)


SIGNS = ["`", "```", "~~~", "[", "]", "(", ")", "](", "<b>", "!", "\\", "&#91;", "|", "**"]
SPACES = ["\n", "\n\n", " ", "    ", "\t", "- ", "> ", "1. ", "\r", "\r\n"]
MARKS = [
    "[1]",
    "[9]",
    "[1-3]",
    "【9】",
    "http://evil.example",
    "https://docs.example/a",
    "www.e.example",
    "[r]: http://e.example",
]
WORDS = ["word ", "End. ", "好。"]
FRAGMENTS = st.sampled_from(SIGNS + SPACES + MARKS + WORDS)


@given(st.lists(FRAGMENTS, max_size=25).map("".join), st.lists(st.integers(0, 9), max_size=40))
def test_pieces_do_not_matter(text: str, sizes: list[int]) -> None:
    """The pieces that are given out, joined, are the whole text sanitised, however the text was cut."""
    assert "".join(in_pieces(text, sizes)) == shown(text)


@for_each(
    "text",
    ["First one. Second one. Third", "Zuerst dies! Dann\ndas. Ende", "第一句。第二句。第三", "- item [1]. Next. "],
)
def test_a_sentence_is_returned_when_it_is_complete(text: str) -> None:
    """Nothing waits longer than for the first character after its sentence and a blank, which may be a marker of it, and
    nothing is shown before its end.
    """
    pieces = in_pieces(text, [1] * len(text))
    first = next(position for position, piece in enumerate(pieces) if piece)
    assert first <= min(text.find(stop) for stop in ".!。" if stop in text) + 2
    assert pieces[first].strip()[-1] in ".!。"


BRACKETS = ["[", "![", "](", "[](", "[1,", "[1", "[1†", "[99]", "[x](y)", "[[x](y)", "a]: ", '[a](b "', "("]
CODE = ["`", "` ", "```\n", "~~~\n", "`a|b`"]
BLOCKS = [">", "- ", "- \n", "1. ", "\n", "\t"]
ADDRESSES = ["http://", "http://a ", "www.", "@", "a@", ":", "a.com/"]
OTHERS = ["<", "&#91;", "\\", "\\[", "a", ".", ". ", "。"]


@for_each("part", BRACKETS + CODE + BLOCKS + ADDRESSES + OTHERS)
def test_hostile_sizes_take_linear_time(part: str) -> None:
    """30,000 characters of any sign are done at once, in one piece and in small ones."""
    text = part * (HOSTILE_CHARS // len(part))
    begun = time.process_time()
    whole = shown(text)
    pieces = in_pieces(text, [64] * (len(text) // 64))
    assert time.process_time() - begun < HOSTILE_SECONDS
    assert "".join(pieces) == whole


INDENTED = (
    "Run it [1]:\n\n    git diff [<path>] & [9]. Then __new__ at https://evil.example/.\n\tcat <a>\n\nDone <b> [2].\n"
)


@given(st.lists(st.integers(1, 12), max_size=20))
def test_indented_code_is_code(sizes: list[int]) -> None:
    """Indented code is unchanged, whatever the chunks. Elsewhere an entity would be decoded."""
    text = "".join(in_pieces(INDENTED, sizes))
    assert text == INDENTED.replace("\t", "    ").replace("<b>", "&lt;b>")


@for_each("before", ["A paragraph", "- An item", "> A quotation"])
def test_a_continuation_line_is_no_code(before: str) -> None:
    """An indented continuation line is text, so a tag in it would be a tag."""
    assert shown(f"{before}\n      <b>") == f"{before}\n      &lt;b>"


def test_no_indented_code_below_the_maximum_depth() -> None:
    """Beyond the maximal depth the indentation of a line is unknown."""
    deep = "- " * 40
    assert "<b>" not in shown(f"{deep}a\n\n{' ' * 60}    <b>")


@for_each(
    ("written", "expected"),
    [
        ("The __new__ method, then __init__().", "The `__new__` method, then `__init__`()."),
        ("Call object.__new__ or **__call__** [1].", "Call object.`__new__` or **`__call__`** [1]."),
        ("`__new__` and \\_\\_new\\_\\_ stay.", "`__new__` and \\_\\_new\\_\\_ stay."),
        ("[__all__](https://evil.example) lists __FILE__.", "`__all__` lists `__FILE__`."),
        (
            "snake_case, a__b__c, __private and __Note__ are none.",
            "snake_case, a__b__c, __private and __Note__ are none.",
        ),
        ("| `a|b` | __new__ |", "| `a|b` | \\_\\_new\\_\\_ |"),
    ],
)
def test_a_name_with_underscores_is_no_emphasis(written: str, expected: str) -> None:
    """The name is shown as code, or escaped if code could be split. The reader sees its underscores."""
    assert shown(written) == expected
    assert shown(expected) == expected


def test_a_quoted_name_is_found_in_its_source() -> None:
    """A sentence copied with its identifiers is supported, however they are shown."""
    told = "The __new__ method creates the instance before __init__ runs."
    source = Source(index=1, title="Data model", url="https://docs.example/a", text=f"Classes. {told} More.")
    answer = sanitize(told.replace(" runs.", " runs [1]."), [source])
    (citation,) = CitationChecker([source], "en").check(answer).citations
    assert (citation.verdict, citation.score, citation.quote) == ("supported", 1.0, told)


@for_each(
    ("written", "expected"),
    [
        ("[foo]:\nhttps://evil.example/x\n\nText [1].", "\nText [1]."),
        ("[foo]:\n  <https://evil.example/x> 'title'\nText [1].", "Text [1]."),
        ("> [foo]:\n> https://evil.example/x\n\nText [1].", "\nText [1]."),
        ("[Note]:\nA text [1].", "[Note] :\nA text [1]."),
        ("Text.\n\n[foo]:", "Text.\n\n[foo] :"),
        ("a\n\n```\n[foo]:\nhttps://evil.example/x\n```\nb", "a\n\n```\n[foo]:\nhttps://evil.example/x\n```\nb"),
        ("a\n\n    [foo]:\n    https://evil.example/x\n", "a\n\n    [foo]:\n    https://evil.example/x\n"),
    ],
)
@for_each("size", [1, 7, 1000])
def test_a_definition_may_take_two_lines(written: str, expected: str, size: int) -> None:
    """Its target disappears with it; a label that no address follows is text."""
    assert "".join(in_pieces(written, [size] * (len(written) // size))) == expected


def test_removed_markers_at_the_beginning_of_a_line_take_linear_time() -> None:
    """The text before a removed marker is not read again for each marker."""
    small, large = "1[9]" * 1000, "1[9]" * 10_000
    assert is_linear(lambda: shown(small), lambda: shown(large), 10)


def test_a_long_line_below_the_title_of_a_list_takes_linear_time_in_any_pieces() -> None:
    """The line is kept until its end, and its beginning is not copied for each piece of it."""

    def remove(pieces: int) -> str:
        remover = SourceListRemover(SOURCES)
        return "".join(map(remover.feed, ["Sources:\n", *["word. "] * pieces])) + remover.finish()

    assert remove(3) == "Sources:\nword. word. word. "
    assert is_linear(lambda: remove(4000), lambda: remove(40_000), 10)


@for_each(
    ("written", "expected"),
    [
        ("Quiet is at ten (doc:house-rules.md).", "Quiet is at ten [2]."),
        ("Quiet is at ten. (doc:house-rules.md)", "Quiet is at ten. [2]"),
        ("It rains (<https://docs.example/a>).", "It rains [1]."),
        ("It rains (docs.example/a).", "It rains [1]."),
        ("Call `f(doc:house-rules.md)` now.", "Call `f(doc:house-rules.md)` now."),
        ("It rains (https://docs.example/a) [1].", "It rains (https://docs.example/a) [1]."),
        ("See [the page](https://docs.example/a).", "See [the page](https://docs.example/a)."),
    ],
)
@for_each("size", [1, 7, 1000])
def test_the_address_of_a_source_in_parentheses_cites_it(written: str, expected: str, size: int) -> None:
    """Small models copy the address from the prompt in place of the number. Before a marker it adds nothing."""
    sources = [
        Source(index=1, title="Data model", url="https://docs.example/a", text="It rains."),
        Source(index=2, title="Rules", url="doc:house-rules.md", text="Quiet is at ten."),
    ]
    sanitizer = AnswerSanitizer(sources)
    shown = "".join(sanitizer.feed(written[at : at + size]) for at in range(0, len(written), size)) + sanitizer.finish()
    assert shown == expected
