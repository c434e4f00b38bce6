"""infrastructure/http/guarded/url.py: one reading of an address, or none."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.exceptions import PageRequestError
from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts
from modules.llm_platform.infrastructure.http.guarded.url import (
    PAGE_URL_CHARS,
    follow,
    is_public,
    parse_address,
    parse_ip,
)

PIECES = [
    "http://",
    "https://",
    "HTTP:",
    "//",
    "\\",
    "@",
    ":",
    "80",
    "[",
    "]",
    "::1",
    "127.0.0.1",
    "a.example",
    "%",
    "é",
    "。",
    "?",
    "#",
    "/",
    "..",
    " ",
    "\n",
    "\x00",
    "x",
    "1",
    ".",
    "0x7f",
    "１",
    "\u200b",
    "localhost",
    "2130706433",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=60))
@example("http://127.0.0.1\\@a.example/")
@example("http://a.example:80:80/")
def test_address_is_parsed_as_by_other_parsers(url: str) -> None:
    """Any input gives our error, or an address whose host and port equal those of the standard library."""
    try:
        address = parse_address(url)
    except PageRequestError:
        return
    parts = urlsplit(address.url)
    assert parts.hostname == address.host
    assert (parts.port or {"http": 80, "https": 443}[parts.scheme]) == address.port
    assert parts.username is None
    assert address.url.isascii()
    assert " " not in address.url
    assert parse_address(address.url) == address
    assert len(address.url) <= PAGE_URL_CHARS


@given(st.lists(st.sampled_from([*PIECES, "../", "./", "b?c"]), max_size=6).map("".join))
def test_a_redirect_changes_its_host_only_by_saying_so(location: str) -> None:
    """A relative Location stays on the host; everything else is an absolute address, parsed as strictly."""
    base = parse_address("https://a.example.net:8443/dir/page?q=1")
    try:
        address = follow(base, location)
    except PageRequestError:
        return
    if (address.host, address.port) != (base.host, base.port):
        assert location.lower().startswith(("http:", "https:", "//"))


@for_each(
    ("location", "url"),
    [
        ("/x", "https://a.example.net:8443/x"),
        ("x", "https://a.example.net:8443/dir/x"),
        ("../x?y", "https://a.example.net:8443/x?y"),
        ("../../../x", "https://a.example.net:8443/x"),
        ("../../.evil.example/", "https://a.example.net:8443/.evil.example/"),
        ("?y", "https://a.example.net:8443/dir/page?y"),
        ("#y", "https://a.example.net:8443/dir/page"),
        ("", "https://a.example.net:8443/dir/page"),
        ("//b.example.net/y", "https://b.example.net/y"),
        ("http://b.example.net", "http://b.example.net/"),
    ],
)
def test_where_a_redirect_leads(location: str, url: str) -> None:
    """As RFC 3986 resolves it."""
    assert follow(parse_address("https://a.example.net:8443/dir/page?q=1"), location).url == url


def test_an_error_repeats_nothing() -> None:
    """No message holds a part of the address."""
    for url in (
        "ftp://secret.example/",
        "http://secret:secret@secret.example/",
        "http://secret.example:secret/",
        "http://sec ret/",
    ):
        with pytest.raises(PageRequestError) as caught:
            parse_address(url)
        assert "secret" not in str(caught.value)


@for_each("text", ["1.2.3", "01.2.3.4", "1.2.3.4 ", "::1%eth0", "fe80::1%25x", "", "a", "1.2.3.4.5", "١.2.3.4"])
def test_no_ip_address(text: str) -> None:
    """Only the one way to write it is one."""
    assert parse_ip(text) is None


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_public_is_never_more_than_the_standard_library_says(ip: object) -> None:
    """Our table refuses all that `is_global` refuses, and multicast."""
    if is_public(ip):  # type: ignore[arg-type]
        assert ip.is_global  # type: ignore[attr-defined]
        assert not ip.is_multicast  # type: ignore[attr-defined]


def test_entries_of_the_operator_are_read_as_written() -> None:
    """Case, brackets and a final dot do not matter."""
    allowed = AllowedHosts(["Wiki.Corp.", "[FD00::1]:8080", "::1"])
    for url in ("http://wiki.corp:99/", "http://[fd00::1]:8080/", "http://[::1]:5/"):
        assert allowed.allows_name(parse_address(url))
    assert not allowed.allows_name(parse_address("http://[fd00::1]/"))
    assert not allowed.has_networks
