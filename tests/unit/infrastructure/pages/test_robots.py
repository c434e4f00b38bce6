"""infrastructure/pages/robots.py: rules of a site for programs."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.reading_pages import fetcher, html, page, reader

from modules.llm_platform.domain.exceptions import PageBlockedError, PageRequestError
from modules.llm_platform.infrastructure.http.guarded.url import parse_address
from modules.llm_platform.infrastructure.pages import robots
from modules.llm_platform.infrastructure.pages.robots import CACHE_TTL_S, ROBOTS_SITES, Robots, allows, parse_rules

GROUPS = """
User-agent: somebot
Disallow: /

User-Agent: *
Disallow: /private # a comment
Allow: /private/open
disallow: /*.pdf$
Sitemap: https://a.example.net/sitemap.xml

user-agent: LLM-Platform
user-agent: other
Disallow: /ours
"""


@for_each(
    ("path", "allowed"),
    [("/", True), ("/ours/x", False), ("/private", True), ("/our", True), ("/x.pdf", True)],
)
def test_our_own_group_counts_alone(path: str, allowed: bool) -> None:
    """A site that names us means us; the group for everybody is then not ours."""
    assert allows(parse_rules(GROUPS), path) is allowed


@for_each(
    ("path", "allowed"),
    [
        ("/", True),
        ("/private", False),
        ("/private/x", False),
        ("/private/open", True),
        ("/private/open/x", True),
        ("/x.pdf", False),
        ("/x.pdf?a", True),
        ("/a/b.pdf", False),
        ("/%70rivate", False),
        ("/publicprivate", True),
    ],
)
def test_the_group_for_everybody(path: str, allowed: bool) -> None:
    """The longest rule that fits decides, allow wins a draw; * and $ are wildcards, percent-encoding is one."""
    assert allows(parse_rules(GROUPS, "unnamed"), path) is allowed


@for_each(
    ("text", "allowed"),
    [
        ("", True),
        ("Disallow: /", True),
        ("User-agent: *\nDisallow:", True),
        ("User-agent: *\nDisallow: /", False),
        ("\ufeffUser-agent: *\r\nDisallow: /", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", True),
        ("User-agent: *\nCrawl-delay: 10\nDisallow: /a", False),
        ("User-agent: *\nAllow: /\nUser-agent: x\nDisallow: /", True),
        ("User-agent: llm-platform/2.0\nDisallow: /", False),
        ("<html>Not found</html>", True),
        ("User-agent: *\nDisallow: *b", True),
        ("User-agent: *\nDisallow: /*/c$", True),
        ("User-agent: *\nDisallow: /a$", False),
        ("User-agent: *\nDisallow: /a*$", False),
        ("User-agent: *\nDisallow: /b", True),
        ("User-agent: llm\nDisallow: /", True),
        ("User-agent llm-platform\nDisallow: /", False),
        ("User-agent: x\nUser-agents: none\nUser-agent: *\nDisallow: /", False),
    ],
)
def test_as_sites_write_it(text: str, allowed: bool) -> None:
    """Files of all kinds are read as RFC 9309 says, and nonsense forbids nothing."""
    assert allows(parse_rules(text), "/a") is allowed


def test_hostile_patterns_take_no_time() -> None:
    """A pattern of thousands of wildcards is matched without backtracking."""
    rules = parse_rules("User-agent: *\nDisallow: /" + "*a" * 1900 + "$")
    began = time.perf_counter()
    assert allows(rules, "/" + "a" * 8000 + "b")
    assert time.perf_counter() - began < 10  # with backtracking it would never end


def test_a_file_of_many_programs_takes_little_memory() -> None:
    """Each rule is held once, not once for each program that the file names before it."""
    many = 2000
    text = "".join(f"User-agent: bot{n}\n" for n in range(many)) + "".join(f"Disallow: /{n}\n" for n in range(many))
    tracemalloc.start()
    try:
        assert allows(parse_rules(text), "/7")
        assert tracemalloc.get_traced_memory()[1] < 50e6  # rule by program it is several hundred megabytes
    finally:
        tracemalloc.stop()


@given(st.text(max_size=300), st.text(max_size=50))
def test_whatever_is_there_is_an_answer(text: str, path: str) -> None:
    """No file makes it fail."""
    assert allows(parse_rules(text), "/" + path) in (True, False)


class Site:
    """A site whose robots.txt is given; `asked` holds the paths."""

    def __init__(self, status: int = 200, text: str = "User-agent: *\nDisallow: /no", headers: Any = None) -> None:
        self.answer = (status, headers or {"Content-Type": "text/plain"}, text.encode())
        self.asked: list[str] = []

    def respond(self, ip: str, port: int, host: str, target: str) -> Any:
        self.asked.append(f"{host}{target}")
        if target == "/robots.txt":
            return self.answer
        if target == "/moved":
            return 302, {"Location": "/no"}, b""
        return page(html("<p>Some text.</p>"))(ip, port, host, target)


async def test_robots_txt_is_fetched_once_and_obeyed() -> None:
    """One fetch serves many pages. A forbidden page is not opened, even by a redirect."""
    site = Site()
    polite = reader(site.respond, robots=True)
    assert (await polite.read("http://a.example.net/yes")).text == "Some text."
    for path in ("no/page", "moved"):
        with pytest.raises(PageBlockedError, match="robots"):
            await polite.read(f"http://a.example.net/{path}")
    assert site.asked == ["a.example.net/robots.txt", "a.example.net/yes", "a.example.net/moved"]


async def test_pages_that_are_read_at_once_share_its_request() -> None:
    """A site that is asked for several pages gets one request for its rules, and so does the limit of the caller."""
    site = Site()

    async def respond(*request: Any) -> Any:
        await asyncio.sleep(0)  # as any network does
        return site.respond(*request)

    polite = reader(respond, robots=True)
    await asyncio.gather(*(polite.read(f"http://a.example.net/{number}") for number in range(5)))
    assert site.asked.count("a.example.net/robots.txt") == 1


async def test_a_long_file_does_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read and matched in a thread: 500 KB of patterns take seconds."""
    threads: set[str] = set()

    def note(work: Any) -> Any:
        def run(*args: Any) -> Any:
            threads.add(threading.current_thread().name)
            return work(*args)

        return run

    monkeypatch.setattr(robots, "parse_rules", note(parse_rules))
    monkeypatch.setattr(robots, "allows", note(allows))
    text = "User-agent: *\n" + "".join(f"Disallow: /*{number}$\n" for number in range(3000))
    await Robots(fetcher(Site(text=text).respond)).check(parse_address("http://a.example.net/yes"))
    assert threads
    assert threading.main_thread().name not in threads


async def test_robots_txt_is_not_fetched_without_the_setting() -> None:
    """Reading one page for a person is not crawling."""
    site = Site()
    await reader(site.respond).read("http://a.example.net/no")
    assert site.asked == ["a.example.net/no"]


@for_each(("status", "readable"), [(404, True), (403, True), (410, True), (429, False), (500, False), (503, False)])
async def test_missing_robots_txt_allows_all(status: int, readable: bool) -> None:
    """A client error means that there is no robots.txt. A server error means that its rules are unknown."""
    polite = reader(Site(status).respond, robots=True)
    if readable:
        assert await polite.read("http://a.example.net/no")
    else:
        with pytest.raises(PageBlockedError, match="try again later"):
            await polite.read("http://a.example.net/yes")


async def test_the_guard_stands_before_it_too() -> None:
    """robots.txt that redirects inside is not fetched there, and a forbidden page is refused as such."""
    dialled: list[str] = []

    def respond(ip: str, port: int, host: str, target: str) -> Any:
        dialled.append(ip)
        return 302, {"Location": "http://169.254.169.254/"}, b""

    polite = reader(respond, robots=True)
    with pytest.raises(PageBlockedError):
        await polite.read("http://a.example.net/")
    with pytest.raises(PageRequestError):
        await polite.read("http://127.0.0.1/")
    assert set(dialled) == {"93.184.215.14"}


async def test_rules_expire_and_are_limited() -> None:
    """After an hour it is asked again, and the oldest of many sites goes."""
    site, now = Site(), [0.0]
    rules = Robots(fetcher(site.respond), clock=lambda: now[0])
    for moment in (0.0, CACHE_TTL_S - 1, CACHE_TTL_S + 1):
        now[0] = moment
        await rules.check(parse_address("http://a.example.net/"))
    assert len(site.asked) == 2
    for number in range(ROBOTS_SITES + 5):
        await rules.check(parse_address(f"http://s{number}.example.net/"))
    assert len(rules._sites) == ROBOTS_SITES
