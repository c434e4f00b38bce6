"""Search syntax in a query that the reader did not write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.search.query_syntax import has_foreign_syntax

ASKED = "What is tea?"
FOREIGN = (
    "evil.dev/?d=tea", "tea evil.dev?d=1", "https://evil.example/x tea", "hxxp://evil.dev tea", "ftp://evil tea",
    "www.evil.dev tea", "evil.com", "evil.com.", "evil.co.uk tea", "evil.zip/x", "evil.dev:80", "evil.dev\\x", "//evil.dev/x",
    "user@evil.dev", "1.2.3.4/?d=x", "1.2.3.4:80", "localhost:8080x tea", "xn--80ak6aa92e.xn--p1ai", "пример.рф/?q=1",
    "evil。com tea", "ｅｖｉｌ．ｃｏｍ tea", "tea ev\u200bil.com", "茶请访问evil.dev/?d=1获取", "http://例え.jp/?d=1",
    "site:evil.com tea", "SITE:Evil tea", "(site:evil.com)", '"site:evil.com"', "tea,site:evil.com", "tea -site:evil",
    "inurl:evil tea", "filetype:pdf tea", "javascript:alert(1)", "-guardian news", '-"the guardian" news', "!g tea", "tea !!g",
    "g! tea", "tea :en", "\\tea", "site:in tea", "evil.asp.net tea", "asp.net.evil.com", "socket.io/?d=tea",
    "x@evil.net", "tea_evil.com",
    "\"evil.com", "a/evil.com", "site:innenstadt.de", "asp.net-evil.com", "draw.io.evil.com", "asp.net?d=tea",
)  # fmt: skip
ORDINARY = (
    "How do heat pumps work?", "Node.js vs Deno event loop", "Node.js/Express", "main.py argparse", "README.md format",
    "std::vector growth", ".NET runtime", "asyncio.TaskGroup vs asyncio.gather", "numpy 1.26", "v1.2.3 release", "x86_64 C#",
    "Tea: effects", "茶：功效", "at 10:30 in 3:1 ratio", "St. Petersburg 2:1", "e.g. tea", "U.S. elections 2024", "Mr.Smith",
    "TCP/IP and/or UDP", "What is 1.5/2.5?", "a/b testing", "Yahoo! news", "wait!", "🎉! emoji", "git --force push",
    "state-of-the-art", "Wie geht's? - Leben", "Rock 'n' roll", "Rechte der Lehrer:innen", "Mitarbeiter:in, befristet",
    "ASP.NET Core routing",
    "Socket.IO vs ws", "(draw.io)", "What is draw.io?", "the end of draw.io.", "How do I run main.py?",
    "What is asyncio.TaskGroup?", 'What is in "README.md"?',
)  # fmt: skip


@for_each("query", FOREIGN)
def test_addresses_operators_and_bangs_of_others_are_found(query: str) -> None:
    """Whatever hides them: brackets, quotes, full-width letters, invisible characters, a script without blanks."""
    assert has_foreign_syntax(query, (ASKED,))
    assert not has_foreign_syntax(query, (ASKED, query.replace("\u200b", "")))


@for_each("query", ORDINARY)
def test_ordinary_queries_have_none(query: str) -> None:
    """Names of code, times, fractions, abbreviations and punctuation are words."""
    assert not has_foreign_syntax(query, ())


@pytest.mark.parametrize(
    ("query", "written", "is_foreign"),
    [
        ("example.com history", "What does https://www.example.com/a say?", False),
        ("Was example.com's tea good?", "tea (example.com)", False),
        ("example.com 历史", "example.com的历史", False),
        ("evil.com tea", "notevil.com", True),
        ("https://example.com/a?d=tea", "https://example.com/a", True),
        ("https://example.com/a", "example.com", True),
        ("evil.com tea", "https://example.com/evil.com", True),
        ("site:evil.com site:example.com", "site:example.com", True),
    ],
)
def test_what_the_reader_wrote_is_allowed_whole(query: str, written: str, is_foreign: bool) -> None:
    """The same operator or address, or the host of an address; a part of one, or a longer one, is another."""
    assert has_foreign_syntax(query, (ASKED, written)) is is_foreign


@given(st.text(max_size=300))
def test_any_text_can_be_compared(text: str) -> None:
    """A reader's own words are never removed, unless only an address without a host is left."""
    assert not has_foreign_syntax(text, (text,))
