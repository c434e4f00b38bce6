"""Sites of a search as people and models write them."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.urls.canonical_url import MAX_OPERATORS, admits_host, site_operators
from modules.llm_platform.domain.urls.site_names import (
    MAX_SITES,
    MAX_WRITTEN_LIST_CHARS,
    NO_MINUS,
    NO_SITE,
    NO_WILDCARD,
    TOO_LONG,
    parse_site,
    parse_unsigned_site,
)


@for_each(
    ("written", "name"),
    [
        ("nasa.gov", "nasa.gov"),
        (" NASA.gov ", "nasa.gov"),
        ("https://nasa.gov/x", "nasa.gov"),
        ("HTTP://www.NASA.gov/a?q=1#f", "nasa.gov"),
        ("nasa.gov/missions/", "nasa.gov"),
        ("nasa.gov:443", "nasa.gov"),
        ("//nasa.gov", "nasa.gov"),
        ("nasa.gov.", "nasa.gov"),
        ("www.nasa.gov", "nasa.gov"),
        ("www.gov", "www.gov"),
        ("site:nasa.gov", "nasa.gov"),
        ("*.edu", "edu"),
        (".gov", "gov"),
        ("-*.pinterest.com", "-pinterest.com"),
        ("-https://pinterest.com/pin", "-pinterest.com"),
        ("wiki", "wiki"),
        ("http://wiki:8080/page", "wiki"),
        ("10.0.0.7", "10.0.0.7"),
        ("my_wiki.intranet", "my_wiki.intranet"),
        ("bücher.de", "xn--bcher-kva.de"),
        ("https://BÜCHER.de/neu", "xn--bcher-kva.de"),
        ("президент.рф", "xn--d1abbgf6aiiy.xn--p1ai"),
        ("日本語。jp", "xn--wgv71a119e.jp"),
        ("ｎａｓａ．ｇｏｖ", "nasa.gov"),
        ("xn--bcher-kva.de", "xn--bcher-kva.de"),
    ],
)
def test_a_site_in_any_form_has_one_name(written: str, name: str) -> None:
    """Upper case, scheme, path, port, wildcard in front, final dot and script do not change which site is meant."""
    assert parse_site(written) == name


@for_each(
    ("written", "reason"),
    [
        ("", NO_SITE),
        ("-", NO_SITE),
        ("nasa gov", NO_SITE),
        ("nasa.gov,esa.int", NO_SITE),
        ("nasa..gov", NO_SITE),
        ("ftp://nasa.gov", NO_SITE),
        ("javascript:alert(1)", NO_SITE),
        ("user@nasa.gov", NO_SITE),
        ("127.0.0.1\\@nasa.gov", NO_SITE),
        ("[::1]", NO_SITE),
        ("nasa.gov\x00", NO_SITE),
        ("\u202evog.asan", NO_SITE),
        ("nasa.gov OR site:evil.example", NO_SITE),
        ("a" * 64 + ".org", NO_SITE),
        (".".join(["a" * 60] * 5), NO_SITE),
        ("ü" * 2001, NO_SITE),
        ("nasa.*", NO_WILDCARD),
        ("*", NO_WILDCARD),
        ("na*sa.gov", NO_WILDCARD),
        ("*nasa.gov", NO_WILDCARD),
        ("-nasa-.gov", NO_SITE),
    ],
)
def test_an_invalid_site_is_refused_with_the_remedy(written: str, reason: str) -> None:
    """The message gives the valid syntax."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_site(written)


def test_a_minus_is_refused_where_the_field_says_the_same() -> None:
    """`exclude_domains: ["-a.org"]` could mean either."""
    assert parse_unsigned_site("A.org") == "a.org"
    with pytest.raises(ValueError, match=re.escape(NO_MINUS)):
        parse_unsigned_site("-a.org")


@given(
    st.text(max_size=80) | st.from_regex(r"-?(https?://)?[*.a-zü-]{0,20}[:/@#?]{0,2}[a-z0-9.]{0,20}", fullmatch=True)
)
def test_a_name_is_safe_in_a_query_and_stable(written: str) -> None:
    """For any input, a name has only letters, digits, dots, hyphens and underscores, and normalising it again changes
    nothing.
    """
    name = ""
    with suppress(ValueError):
        name = parse_site(written)
    if not name:
        return
    assert re.fullmatch(r"-?[a-z0-9_][a-z0-9._-]*", name)
    assert parse_site(name) == name


NASA_ESA = ("nasa.gov", "-esa.int")


@for_each(
    "written",
    [
        ["NASA.gov", "-esa.int"],
        ["nasa.gov", "", " ", "-esa.int"],
        '["nasa.gov", "-esa.int"]',
        "nasa.gov, -esa.int",
        "nasa.gov -esa.int",
        "nasa.gov;-esa.int\n",
        "https://nasa.gov/x，-esa.int/y",
    ],
)
def test_a_list_may_be_a_string(written: object) -> None:
    """JSON, or names between commas, semicolons or blanks; blank names are left out."""
    assert WebSearchRequest(query="q", domains=written).domains == NASA_ESA


@for_each("written", ["", " ", "[]", [], [""], ()])
def test_an_empty_list_restricts_nothing(written: object) -> None:
    """A model writes an empty string for no restriction."""
    assert WebSearchRequest(query="q", domains=written).domains == ()


@for_each(
    ("written", "position", "message"),
    [
        (["a.org"] * MAX_SITES + ["secret"], (), f"at most {MAX_SITES} items"),
        (["a.org", "se cret"], (1,), NO_SITE),
        ("a.org,*secret*", (1,), NO_WILDCARD),
        ("secret," * (MAX_WRITTEN_LIST_CHARS // 7 + 1), (), TOO_LONG),
        ("[" * 90_000, (0,), NO_SITE),
        (json.dumps([["secret"]]), (0,), "valid string"),
        ([5], (0,), "valid string"),
        ({"secret": 1}, (), "tuple"),
        (5, (), "tuple"),
    ],
)
def test_a_refusal_names_the_place(written: object, position: tuple[int, ...], message: str) -> None:
    """The error names the field and the index in the list, but not the value."""
    with pytest.raises(ValidationError) as caught:
        WebSearchRequest(query="q", domains=written)
    [error] = caught.value.errors(include_input=False, include_url=False)
    assert error["loc"] == ("domains", *position)
    assert message in error["msg"]
    assert "secret" not in error["msg"]


def test_the_longest_list_is_taken() -> None:
    """300 sites, as Tavily's API takes."""
    names = [f"site{number}.example.org" for number in range(MAX_SITES)]
    assert WebSearchRequest(query="q", domains=",".join(names)).domains == tuple(names)


@for_each(
    ("host", "domain"),
    [("bücher.de", "bücher.de"), ("www.nasa.gov", "https://www.nasa.gov/"), ("mit.edu", "*.edu"), ("wiki", "WIKI")],
)
def test_results_match_in_any_form(host: str, domain: str) -> None:
    """A result of the named site is kept, however the site and the result's address are written."""
    assert admits_host(host, [parse_site(domain)])
    assert not admits_host(host, [f"-{parse_site(domain)}"])
    assert not admits_host("other.example", [parse_site(domain)])


def test_many_sites_are_left_to_the_filter_of_the_results() -> None:
    """A query with hundreds of operators would be refused or cut by the engines."""
    assert len(site_operators(["a.org"] * MAX_OPERATORS).split(" OR ")) == MAX_OPERATORS
    assert site_operators(["a.org"] * (MAX_OPERATORS + 1)) == ""
