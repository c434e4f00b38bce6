"""The form that is sent to SearXNG."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.infrastructure.search.searxng.form import (
    DEFAULT_ENGINES,
    build_form,
    build_query,
    choose_categories,
    choose_engines,
    escape_bangs,
    format_language,
)

TODAY = date(2026, 11, 20)


def syntax_in(query: str) -> list[str]:
    """Return the words that SearXNG reads as syntax: it splits at white space and checks the beginning of each word."""
    return [
        word
        for word in re.split(r"\s+", query)
        if word.startswith("!!")
        or (word.startswith(("!", ":")) and re.match(r"\w", word[1:]))
        or (word.startswith("<") and word[1:].isdigit())
    ]


@for_each(
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
def test_query_syntax_is_removed(query: str, sent: str) -> None:
    """Only the marks that SearXNG would interpret are removed; the words stay."""
    assert escape_bangs(query) == sent
    assert not syntax_in(sent)


@given(st.text(alphabet='!:<ab5" \u3000\n-²é', min_size=1, max_size=20).filter(str.strip))
def test_no_query_contains_syntax(query: str) -> None:
    """Every letter and digit of any query stays, and the query is never empty."""
    sent = escape_bangs(query)
    assert not syntax_in(sent)
    assert re.findall(r"\w", sent) == re.findall(r"\w", query)
    assert sent.strip()


@for_each("query", ["!gon cats", ":de katze", "cats <5", "wow!! !g", "！！g", "!wp a"])
def test_a_verbatim_query_is_unchanged(query: str) -> None:
    """The route that passes queries on uses the syntax."""
    assert build_query(VerbatimWebSearchRequest(query=query)) == query


@for_each("query", ["!!g cats", "cats !!g", "cats !!", "!!", "a\u2003!!b", "a\x1c!!b"])
def test_a_redirect_is_refused(query: str) -> None:
    """`!!` would redirect to another site."""
    with pytest.raises(WebSearchRequestError, match="!!"):
        build_query(VerbatimWebSearchRequest(query=query))


@for_each(
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
def test_languages_in_searxngs_form(language: str | None, sent: str) -> None:
    """Scripts and numeric regions would be a 400; without a language it is `all`, so that no header decides."""
    assert format_language(language) == sent
    assert re.fullmatch(r"[a-z]{2,3}(-[a-zA-Z]{2})?", sent)


def test_engines_are_the_union_of_the_source_kinds() -> None:
    """Each engine is listed once, the request's own first.

    Documents have no engine, and a verbatim request gets no default.
    """

    def of(request: WebSearchRequest) -> tuple[str, ...]:
        return choose_engines(request, DEFAULT_ENGINES)

    assert of(WebSearchRequest(query="q")) == ("google", "bing", "duckduckgo")
    both = WebSearchRequest(query="q", sources=("news", "academic"))
    assert of(both) == ("google news", "bing news", "google scholar", "arxiv")
    assert of(both.with_(engines=("yep", "brave"))) == ("yep", "brave")
    assert of(WebSearchRequest(query="q", sources=("documents",))) == ("google", "bing", "duckduckgo")
    assert of(VerbatimWebSearchRequest(query="q")) == ()
    assert choose_engines(both, {"news": ("a", "b"), "academic": ("b", "c")}) == ("a", "b", "c")


def test_categories_stand_for_the_source_kinds() -> None:
    """Without named engines, SearXNG's categories select the kind of source."""
    assert choose_categories(WebSearchRequest(query="q", sources=("web", "academic", "news"))) == "general,science,news"
    assert choose_categories(WebSearchRequest(query="q", sources=("documents",))) == "general"


def test_the_form_has_all_fields() -> None:
    """Always JSON, a language and safesearch; a time range if there is one; no count, which SearXNG does not support."""
    form = build_form(
        WebSearchRequest(query="cats", language="de"), ("google", "bing news"), Freshness("week"), 1, lambda: TODAY
    )
    assert form == {
        "q": "cats",
        "format": "json",
        "language": "de",
        "safesearch": "1",
        "engines": "google,bing news",
        "time_range": "week",
    }
    bare = build_form(
        WebSearchRequest(query="cats"), (), Freshness(start=date(2001, 1, 1), end=TODAY), 0, lambda: TODAY
    )
    assert set(bare) == {"q", "format", "language", "safesearch", "categories"}


def test_domains_become_operators() -> None:
    """Several domains are joined by OR; catalogues of papers support no operators."""
    request = WebSearchRequest(query="asyncio", domains=("python.org", "pytest.example", "-pinterest.com"))
    assert build_query(request) == "asyncio (site:python.org OR site:pytest.example) -site:pinterest.com"
    assert build_query(request.with_(domains=("python.org",))) == "asyncio site:python.org"
    assert build_query(request.with_(sources=("academic",))) == "asyncio"
