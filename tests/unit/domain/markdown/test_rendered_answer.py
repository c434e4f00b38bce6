"""A CommonMark or GFM renderer shows nothing external in a sanitised answer, whatever the model wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.sanitizer import sanitize

SOURCES = [
    Source(index=number, title="", url=url, text="")
    for number, url in ((1, "https://good.example/a"), (2, "https://good.example/x_(y)"), (3, "doc:guide/a.md"))
]
URLS = {source.url for source in SOURCES}
NUMBERS = {source.index for source in SOURCES}
COMMONMARK = MarkdownIt("commonmark", {"html": True})
WITH_TABLES = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

SIGNS = [
    "`",
    "``",
    "```",
    "~~~",
    "[",
    "]",
    "(",
    ")",
    "](",
    "]:",
    "![",
    "<",
    ">",
    "!",
    "\\",
    "&",
    "|",
    "**",
    "_",
    '"',
    "'",
]
SPACES = [
    "\n",
    "\n",
    "\n\n",
    " ",
    "    ",
    "\t",
    "- ",
    "1. ",
    "2. ",
    "> ",
    "* ",
    "# ",
    "---",
    "|---|",
    "| a | b |\n|---|---|\n",
]
MARKS = ["[1]", "[9]", "[99]", "9", "[1, 9]", "【9】", "９", "[^9]", "&#91;", "&#93;", "&#57;", "\u200b"]
LINKS = [
    "http://evil.example/x",
    "https://good.example/a",
    "www.evil.example",
    "//evil.example",
    "javascript:alert(1)",
    "doc:guide/a.md",
    "[x](http://evil.example)",
    "[x](https://good.example/a)",
    "![x](http://evil.example)",
    "[r]: http://evil.example",
    "[a][r]",
    "[r]",
    "<script>",
    "<b",
    "</b>",
    "<!--",
    "<?",
    "<http://evil.example>",
    "<a href='x'>",
    "http:",
    "//",
    "www",
    ".evil.example",
]
WORDS = ["word", "foo. ", "Bar! ", "好。", "`c`", "``c`d``", "\r", "\x00", "\ud800"]
INLINE = st.lists(st.sampled_from(SIGNS + SPACES + MARKS + LINKS + WORDS), max_size=20).map("".join)

INDENTS = [
    "",
    "",
    "  ",
    "   ",
    "    ",
    "      ",
    "- ",
    "-   ",
    "-\t",
    "1. ",
    "2. ",
    "10. ",
    "> ",
    ">",
    "\t",
    "-",
    "-      ",
]
LINES = [
    "",
    "```",
    "````",
    "~~~",
    "``` x",
    "~~~ `",
    "foo",
    "[x](http://evil.example)",
    "[9]",
    "`a`",
    "<b>",
    "# h",
    "---",
    "===",
    "a | b",
    "|-|-|",
    "`",
]
LINE = st.tuples(st.lists(st.sampled_from(INDENTS), max_size=3).map("".join), st.sampled_from(LINES)).map("".join)
BLOCKS = st.lists(LINE, max_size=9).map("\n".join)


def problems(markdown: str) -> Iterator[str]:
    for renderer in (COMMONMARK, WITH_TABLES):
        for token in renderer.parse(markdown):
            if token.type == "html_block":
                yield token.content
            yield from foreign(token.children or [])


def foreign(inline: list[Token]) -> Iterator[str]:
    text = ""
    for token in inline:
        target = token.attrs.get("href", token.attrs.get("src"))
        if token.type == "html_inline" or (target is not None and target not in URLS):
            yield token.content or str(target)
        text += {"code_inline": "\x01", "softbreak": "\n", "hardbreak": "\n"}.get(token.type, token.content)
    yield from (number for number in re.findall(r"\[(\d+)\]", text) if int(number) not in NUMBERS)


@settings(max_examples=400)
@given(INLINE | BLOCKS)
def test_a_renderer_shows_no_untrusted_link_or_html(written: str) -> None:
    """No HTML, no link or image but a source's, and outside code no [n] but a source's."""
    assert not list(problems(sanitize(written, SOURCES)))


@settings(max_examples=200)
@given(BLOCKS, st.sampled_from(["[9](http://evil.example)", "x <b> [99]", "    y`"]))
def test_plain_fences_are_unchanged(before: str, code: str) -> None:
    """A renderer reads fenced code after any closed blocks as the same code."""
    written = f"{sanitize(before, SOURCES)}\n\n<!---->\n\n# h\n\n```\n{code}\n```\n"
    fences = [token.content for token in COMMONMARK.parse(sanitize(written, SOURCES)) if token.type == "fence"]
    assert fences[-1] == f"{code}\n"


@for_each(
    "written",
    [
        "[2](]:[2]10)",
        "- a\n\n   ```\n```\n[x](http://evil.example)\n```\n[x](http://evil.example)",
        "。[2](]:[2]10) \nwww.evil.example",
        "````[9]\\| a | b |\n|---|---|\n[1]: http://evil.example| a | b |",
        "【9】> \t```\n[x](http://evil.example)",
        "1. ９９2. ~~~+\n[r]: http://evil.example\n ~~~",
        "foo\n[99]\n2. x\n   ```\n[x](http://evil.example)\n   ```\n[x](http://evil.example)",
    ],
)
def test_former_bypasses_stay_closed(written: str) -> None:
    """Inputs that a search by chance found stay harmless."""
    assert not list(problems(sanitize(written, SOURCES)))
