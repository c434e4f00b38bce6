"""Which addresses are shown, and which are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.urls.canonical_url import (
    MAX_URL_CHARS,
    admits_host,
    canonical_url,
    get_host,
    is_openable,
    is_web_url,
    quote_url,
    site_operators,
)

SAME = [
    ("http://example.org", "https://www.example.org/"),
    ("https://Example.ORG:443/a", "https://example.org/a/"),
    ("http://example.org:80/a", "http://example.org/a"),
    ("https://example.org/a#part", "https://example.org/a"),
    ("https://example.org/a?utm_source=x&UTM_Medium=y&gclid=1&fbclid=2", "https://example.org/a"),
    ("https://example.org/a?b=2&a=1", "https://example.org/a?a=1&b=2"),
    ("https://example.org/a?", "https://example.org/a"),
    ("https://user@example.org./a", "https://example.org/a"),
]
DIFFERENT = [
    ("https://example.org/a", "https://example.org/A"),
    ("https://example.org/a?id=1", "https://example.org/a?id=2"),
    ("https://example.org/", "https://docs.example.org/"),
    ("https://example.org:8080/", "https://example.org/"),
    ("http://example.org:443/", "http://example.org/"),
    ("https://example.org/#/one", "https://example.org/#/two"),
    ("https://example.org/a?b", "https://example.org/a?c"),
    ("doc:a.md", "doc:b.md"),
]


@for_each(("one", "other"), SAME)
def test_the_same_page(one: str, other: str) -> None:
    """What leads to the same page has the same key."""
    assert canonical_url(one) == canonical_url(other)


@for_each(("one", "other"), DIFFERENT)
def test_different_pages(one: str, other: str) -> None:
    """Addresses that may lead to different pages have different keys."""
    assert canonical_url(one) != canonical_url(other)


@for_each("url", ["doc:notes/a b.md", "", "http://[::1", "not a url", "mailto:a@b.c", "https:///x"])
def test_other_schemes_are_unchanged(url: str) -> None:
    """Nothing makes it fail."""
    assert canonical_url(url) == url


@given(st.text(max_size=60) | st.from_regex(r"https?://[a-z.:@/?#&=_%\[\]]{0,40}", fullmatch=True))
def test_no_text_makes_it_fail(url: str) -> None:
    """Keys exist for any text, and blanks around it do not matter."""
    assert canonical_url(f" {url}\n") == canonical_url(url)
    assert bool(get_host(url)) == is_web_url(url)


@for_each(
    "url",
    [
        "http://example.org",
        "HTTPS://example.org/a?b=c#d",
        "https://example.org:8443/",
        "https://[2001:db8::1]:80/a",
        "https://münchen.example/straße",
        "https://example.org/a(b)'c,d;e%20f",
        "http://user:password@example.org/",
        "https://docs.example.org/3/library/asyncio.html#asyncio.Runner",
    ],
)
def test_web_addresses(url: str) -> None:
    """http and https with a host may be shown."""
    assert is_web_url(url)


@for_each(
    "url",
    [
        "",
        "example.org",
        "//example.org",
        "ftp://example.org",
        "javascript:alert(1)",
        "data:text/html,x",
        "magnet:?xt=urn",
        "http://",
        "http:///path",
        "http://:80/",
        "http://user@/",
        "http://?q",
        "http:/example.org",
        "https://exa mple.org",
        "https://example.org/a b",
        "https://example.org/a\nb",
        "https://example.org/\u00a0",
        "https://example.org/\u202egpj.exe",
        "https://example.org/\u200b",
        "https://example.org/\x00",
        "https://example.org/\ud800",
        'https://example.org/"onmouseover="x',
        "https://example.org/<script>",
        "http://127.0.0.1\\@example.org",
        " https://example.org",
        "https://example.org\n",
        "https://a@b@example.org/",
        "https://[::1",
        "https://example.org/" + "a" * MAX_URL_CHARS,
    ],
)
def test_unsafe_addresses_are_refused(url: str) -> None:
    """Other schemes, no host, white space, invisible characters and what two parsers would read differently are refused."""
    assert not is_web_url(url)
    assert get_host(url) == ""


def test_the_host_alone() -> None:
    """Without user, port and case."""
    assert get_host("https://Me:secret@WWW.Example.org.:8443/a@b") == "www.example.org"
    assert get_host("http://[2001:DB8::1]/") == "[2001:db8::1]"


@for_each("url", ["https://example.org/a", "http://[::1]:80/", "doc:notes/a%20b.md", "doc:ä.md"])
def test_addresses_a_source_can_have(url: str) -> None:
    """http, https and doc, without white space."""
    assert is_openable(url)


@for_each(
    "url",
    ["", "doc:", "doc:a b", "doc:a\nb", "javascript:alert(1)", "DOC:a", "file:///a", "//a.org", "doc:" + "a" * 5000],
)
def test_addresses_a_source_cannot_have(url: str) -> None:
    """Any other scheme, blanks, and data in the place of an address."""
    assert not is_openable(url)


@given(st.text(alphabet='htps:/.-aZ0 @[]\\"<>?#%_\u00e9\u200b\n', max_size=30).map(lambda tail: f"https://{tail}"))
def test_the_fast_way_agrees_with_the_slow_one(url: str) -> None:
    """A plain address is judged as it would be with a user's name in it, which only the slow way knows."""
    with_user = url.replace("https://", "https://me@", 1)
    if "@" not in url:
        assert is_web_url(url) == is_web_url(with_user)
        assert get_host(url) == get_host(with_user)


@for_each(
    ("host", "domains", "admitted"),
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
def test_domains_admit_their_subdomains(host: str, domains: tuple[str, ...], admitted: bool) -> None:
    """An included domain admits its subdomains, an excluded one excludes them."""
    assert admits_host(host, domains) is admitted


def test_domains_become_site_operators() -> None:
    """Included domains are joined by OR, in parentheses on request; excluded ones follow."""
    domains = ("a.org", "b.org", "-c.org")
    assert site_operators(domains) == "site:a.org OR site:b.org -site:c.org"
    assert site_operators(domains, parentheses=True) == "(site:a.org OR site:b.org) -site:c.org"
    assert site_operators(("a.org",), parentheses=True) == "site:a.org"
    assert site_operators(()) == ""


@for_each(
    ("quote", "named"),
    [
        ("It hunts at night.", "It%20hunts%20at%20night."),
        ("a, b - c & d", "a%2C%20b%20%2D%20c%20%26%20d"),
        (
            "one two three four five six seven eight nine ten eleven twelve thirteen",
            "one%20two%20three%20four,ten%20eleven%20twelve%20thirteen",
        ),
        ("line one\n\nline two", "line%20one"),
        ("| **Pump** A | 9 W | 12.5 |\n| B | 1 | 2 |", "Pump%20A,12.5"),
        ("Pump | 12.5", "Pump,12.5"),
        ("| Pump |", "Pump"),
    ],
)
def test_a_quote_is_named_within_elements_of_the_page(quote: str, named: str) -> None:
    """A browser finds words of one element, or what begins with some and ends with others: a row by its first and last cell."""
    assert quote_url("https://example.org/a", quote) == f"https://example.org/a#:~:text={named}"


def test_quote_of_a_pdf_is_at_its_page() -> None:
    """Viewers of PDFs know no text fragments. A document without an address on the web has none."""
    assert (
        quote_url("https://example.org/report.pdf#top", "Some words.", 15) == "https://example.org/report.pdf#page=15"
    )
    assert quote_url("doc:report.pdf", "Some words.", 15) is None
    assert quote_url("https://example.org/report.pdf", " ", 15) is None
