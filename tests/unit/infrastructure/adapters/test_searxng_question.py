"""What goes out to SearXNG."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.dtos.web_search_dtos import VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.freshness import Freshness
from modules.llm_platform.infrastructure.adapters.searxng_protocol import (
    DEFAULT_ENGINES,
    allowed_host,
    categories_of,
    engines_of,
    escape_bangs,
    form_of,
    language_of,
    query_of,
)

TODAY = date(2026, 11, 20)


def acts(query: str) -> list[str]:
    """The words in which SearXNG would see its own syntax, after its reading rule: split at white space, look at the start."""
    return [
        word
        for word in re.split(r"\s+", query)
        if word.startswith("!!")
        or (word.startswith(("!", ":")) and re.match(r"\w", word[1:]))
        or (word.startswith("<") and word[1:].isdigit())
    ]


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("plain words", "plain words"),
        ("!gon cats", "gon cats"),
        ("what does !important do in css", "what does important do in css"),
        ("cats !!g", "cats g"),
        ("!!", '"!!"'),
        ("!! !!", '"!!!!"'),
        ("what is :en in a url", "what is en in a url"),
        ("python <5 or <850", "python 5 or 850"),
        ('say "!bang here"', 'say "!bang here"'),
        ('say "a !bang here"', 'say "a bang here"'),
        ("a != b, x::y, c:d, wow! 3<5", "a != b, x::y, c:d, wow! 3<5"),
        ("css :hover and ::before, :)", "css hover and ::before, :)"),
        ("<div> <5px >3", "<div> <5px >3"),
        ("!!<5 !!!:en", "5 en"),
        ("a\u3000!b\x85:fr\u2028!!c", "a\u3000b\x85fr\u2028c"),
        ("<²", "²"),
        ("🙂 ！！g", "🙂 ！！g"),
    ],
)
def test_its_syntax_is_made_harmless(query: str, sent: str) -> None:
    """Only what SearXNG would obey changes, and the words stay to be searched for."""
    assert escape_bangs(query) == sent
    assert not acts(sent)


@given(st.text(alphabet="!:<ab5\" \u3000\n-²é", min_size=1, max_size=20).filter(str.strip))
def test_no_query_keeps_a_syntax(query: str) -> None:
    """Whatever is asked, nothing acts, every letter and digit is still there, and the query is never empty."""
    sent = escape_bangs(query)
    assert not acts(sent)
    assert re.findall(r"\w", sent) == re.findall(r"\w", query)
    assert sent.strip()


@pytest.mark.parametrize("query", ["!gon cats", ":de katze", "cats <5", "wow!! !g", "！！g", "!wp a"])
def test_a_verbatim_query_goes_out_as_written(query: str) -> None:
    """The pass-through route means its bangs."""
    assert query_of(VerbatimWebSearchRequest(query=query)) == query


@pytest.mark.parametrize("query", ["!!g cats", "cats !!g", "cats !!", "!!", "a\u2003!!b", "a\x1c!!b"])
def test_a_redirect_is_refused(query: str) -> None:
    """`!!` would send the caller, and us, off the instance."""
    with pytest.raises(WebSearchRequestError, match="!!"):
        query_of(VerbatimWebSearchRequest(query=query))


@pytest.mark.parametrize(
    ("language", "sent"),
    [
        (None, "all"),
        ("en", "en"),
        ("en-US", "en-US"),
        ("zh-Hans-CN", "zh-CN"),
        ("zh-Hant", "zh-TW"),
        ("zh-Hans", "zh-CN"),
        ("sr-Latn", "sr"),
        ("sr-Latn-RS", "sr-RS"),
        ("es-419", "es"),
        ("fil", "fil"),
    ],
)
def test_languages_in_the_form_that_it_takes(language: str | None, sent: str) -> None:
    """Script and numeric region would be a 400; no wish is `all`, so that no header is guessed from."""
    assert language_of(language) == sent
    assert re.fullmatch(r"[a-z]{2,3}(-[a-zA-Z]{2})?", sent)


def test_engines_are_the_union_of_the_source_kinds() -> None:
    """Names with spaces; each once; the request's own win; documents have none; a verbatim request gets no default."""

    def of(request: WebSearchRequest) -> tuple[str, ...]:
        return engines_of(request, DEFAULT_ENGINES)

    assert of(WebSearchRequest(query="q")) == ("google", "bing", "duckduckgo")
    both = WebSearchRequest(query="q", sources=("news", "academic"))
    assert of(both) == ("google news", "bing news", "google scholar", "arxiv")
    assert of(both.with_(engines=("yep", "brave"))) == ("yep", "brave")
    assert of(WebSearchRequest(query="q", sources=("documents",))) == ("google", "bing", "duckduckgo")
    assert of(VerbatimWebSearchRequest(query="q")) == ()
    assert engines_of(both, {"news": ("a", "b"), "academic": ("b", "c")}) == ("a", "b", "c")


def test_categories_stand_for_the_source_kinds() -> None:
    """Where no engine is named, SearXNG's own groups keep the kind of source."""
    assert categories_of(WebSearchRequest(query="q", sources=("web", "academic", "news"))) == "general,science,news"
    assert categories_of(WebSearchRequest(query="q", sources=("documents",))) == "general"


def test_the_form() -> None:
    """JSON, always a language and a safesearch; a time range where there is one; no limit, which SearXNG does not know."""
    form = form_of(WebSearchRequest(query="cats", language="de"), ("google", "bing news"), Freshness("week"), 1, TODAY)
    assert form == {
        "q": "cats",
        "format": "json",
        "language": "de",
        "safesearch": "1",
        "engines": "google,bing news",
        "time_range": "week",
    }
    bare = form_of(WebSearchRequest(query="cats"), (), Freshness(start=date(2001, 1, 1), end=TODAY), 0, TODAY)
    assert set(bare) == {"q", "format", "language", "safesearch", "categories"}


def test_domains_are_asked_for() -> None:
    """Several wanted ones are joined by OR; catalogues of papers know no operators."""
    request = WebSearchRequest(query="asyncio", domains=("python.org", "pytest.example", "-pinterest.com"))
    assert query_of(request) == "asyncio (site:python.org OR site:pytest.example) -site:pinterest.com"
    assert query_of(request.with_(domains=("python.org",))) == "asyncio site:python.org"
    assert query_of(request.with_(sources=("academic",))) == "asyncio"


@pytest.mark.parametrize(
    ("host", "domains", "kept"),
    [
        ("docs.python.org", ("python.org",), True),
        ("python.org", ("python.org",), True),
        ("notpython.org", ("python.org",), False),
        ("python.org.evil.example", ("python.org",), False),
        ("a.example", ("-pinterest.com",), True),
        ("www.pinterest.com", ("-pinterest.com",), False),
        ("bugs.python.org", ("python.org", "-bugs.python.org"), False),
    ],
)
def test_hosts_are_checked_afterwards(host: str, domains: tuple[str, ...], kept: bool) -> None:
    """Engines take `site:` as a hint: what does not belong is dropped by host, subdomains included."""
    assert allowed_host(host, domains) is kept
