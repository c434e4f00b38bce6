"""A crawl of hostile sites on a network without sockets: what it opens and what it costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.reading_pages import HTML, PUBLIC, Names, html, site_reader
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.services.site_crawl_service import SiteCrawlService
from modules.llm_platform.domain.dtos.site_crawl_dtos import SiteCrawl, SiteCrawlRequest
from modules.llm_platform.domain.exceptions import PageBlockedError, PageConnectionError, PageRequestError
from modules.llm_platform.infrastructure.parsing import html_page
from modules.llm_platform.infrastructure.parsing.parser_process import read_answer

ROOT = "https://a.example.net/"


class Site:
    """A server.

    `pages` maps a target to a body, or to (status, headers, body). robots.txt is absent unless it is given.
    """

    def __init__(self, **pages: Any) -> None:
        self.pages = {f"/{name.removeprefix('_')}": page for name, page in pages.items()}
        self.asked: list[str] = []

    def respond(self, ip: str, port: int, host: str, target: str) -> tuple[int, Any, bytes]:
        self.asked.append(f"{ip}:{port} {host}{target}")
        page = self.pages.get(target, (404, HTML, b""))
        return page if isinstance(page, tuple) else (200, HTML, page)

    async def crawl(self, names: Names | None = None, **fields: Any) -> SiteCrawl:
        reader = site_reader(self.respond, names)
        return await SiteCrawlService(reader).crawl(SiteCrawlRequest(**{"url": ROOT, **fields}))

    @property
    def opened(self) -> list[str]:
        return [address.partition(" a.example.net")[2] for address in self.asked if "/robots.txt" not in address]


def page(*links: str, head: str = "") -> bytes:
    return html(
        "<p>Tea is a drink that people make.</p>" + "".join(f'<a href="{link}">x</a>' for link in links), head=head
    )


@for_each(
    "url",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://localhost/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "gopher://a.example.net/",
        "http://user:pass@a.example.net/",
    ],
)
async def test_crawl_of_a_private_address_is_refused_before_a_connection(url: str) -> None:
    site = Site(_=page())
    with pytest.raises(PageRequestError):
        await site.crawl(url=url)
    assert site.asked == []


async def test_name_that_resolves_to_a_private_address_is_refused() -> None:
    site = Site(_=page())
    with pytest.raises(PageRequestError):
        await site.crawl(Names(["10.0.0.5"]))
    assert site.asked == []


async def test_links_and_redirects_to_private_addresses_are_not_opened() -> None:
    """The address guard checks every page and every redirect, also with `allow_external`."""
    metadata = "http://169.254.169.254/latest/meta-data/"
    site = Site(_=page(metadata, "/hop", "http://127.0.0.1:6379/"), hop=(302, {"Location": metadata}, b""))
    found = await site.crawl(allow_external=True)
    assert [page.page.url for page in found.pages] == [ROOT]
    assert {page.url for page in found.failed} == {metadata, f"{ROOT}hop", "http://127.0.0.1:6379/"}
    assert all(address.startswith(f"{PUBLIC}:443 ") for address in site.asked)


async def test_redirect_to_another_site_is_not_followed() -> None:
    site = Site(_=page("/hop"), hop=(302, {"Location": "https://elsewhere.example.net/"}, b""))
    found = await site.crawl()
    assert "redirects" in found.failed[0].error
    assert not any("elsewhere" in address for address in site.asked)


async def test_robots_txt_is_obeyed_and_read_once() -> None:
    robots = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /private")
    site = Site(_=page("/private/a", "/open"), open=page(), **{"robots.txt": robots, "private/a": page()})
    found = await site.crawl()
    assert site.opened == ["/", "/open"]
    assert "robots.txt" in found.failed[0].error
    assert sum("robots.txt" in address for address in site.asked) == 1
    with pytest.raises(PageBlockedError):
        await site.crawl(url=f"{ROOT}private/a")


async def test_site_whose_robots_txt_cannot_be_read_is_not_crawled() -> None:
    site = Site(_=page(), **{"robots.txt": (500, HTML, b"")})
    with pytest.raises(PageBlockedError):
        await site.crawl()
    assert site.opened == []


@in_virtual_time
async def test_crawl_delay_is_kept_between_the_pages_of_a_site() -> None:
    """Three pages take two pauses. The pauses do not count for the time limit of a page."""
    robots = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nCrawl-delay: 1.5")
    site = Site(_=page("/a", "/b"), a=page(), b=page(), **{"robots.txt": robots})
    clock = asyncio.get_running_loop().time
    reader = site_reader(site.respond, timeout=1.2, clock=clock)
    found = await SiteCrawlService(reader).crawl(SiteCrawlRequest(url=ROOT))
    assert len(found.pages) == 3
    assert clock() == pytest.approx(3.0)


@in_virtual_time
async def test_pages_that_wait_for_their_turn_do_not_block_other_sites() -> None:
    """Sites with a long Crawl-delay do not use the slots for concurrent pages, also after a redirect."""
    answers = {
        "/robots.txt": (200, {"Content-Type": "text/plain"}, b"User-agent: *\nCrawl-delay: 100"),
        "/go": (302, {"Location": "/page"}, b""),
    }
    running = most_running = 0

    async def respond(ip: str, port: int, host: str, target: str) -> tuple[int, Any, bytes]:
        nonlocal running, most_running
        if target == "/robots.txt":
            return answers[target] if host.startswith("slow") else (404, HTML, b"")
        running += 1
        most_running = max(most_running, running)
        await asyncio.sleep(1)
        running -= 1
        return answers.get(target, (200, HTML, page()))

    clock = asyncio.get_running_loop().time
    reader = site_reader(respond, max_concurrent=2, clock=clock)
    slow = [
        asyncio.create_task(reader.read(f"http://slow{number}.example.net/go", lambda hop: True))
        for number in range(5)
        for _ in range(2)
    ]
    await asyncio.sleep(50)
    began = clock()
    await asyncio.gather(*(reader.read(f"http://quick{number}.example.net/", lambda hop: True) for number in range(6)))
    assert clock() - began == pytest.approx(3)
    await asyncio.gather(*slow)
    assert most_running == 2


@in_virtual_time
async def test_a_cancelled_read_releases_its_places() -> None:
    """A caller may leave in the queue, during the read or during the delay, and no place is lost."""
    robots = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nCrawl-delay: 100")

    async def respond(ip: str, port: int, host: str, target: str) -> tuple[int, Any, bytes]:
        if target == "/robots.txt":
            return robots if host.startswith("slow") else (404, HTML, b"")
        await asyncio.sleep(1)
        return 200, HTML, page()

    reader = site_reader(respond, max_concurrent=2, clock=asyncio.get_running_loop().time)
    urls = [f"http://{name}.example.net/" for name in ("slow", "slow", "a", "b", "c")]
    for seconds in (0, 0.5, 1.5, 50, 99.5, 101):
        tasks = [asyncio.create_task(reader.read(url, lambda hop: True)) for url in urls]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(reader.read(url, lambda hop: True) for url in urls[2:4]))
    assert asyncio.get_running_loop().time() - began == pytest.approx(1)


async def test_endless_calendar_ends_at_the_limit() -> None:
    site = Site()

    def respond(ip: str, port: int, host: str, target: str) -> tuple[int, Any, bytes]:
        site.asked.append(target)
        if target == "/robots.txt":
            return 404, HTML, b""
        day = int(target.partition("=")[2].partition("&")[0] or 0)
        return 200, HTML, page(f"/?day={day + 1}", f"/?day={day + 2}&utm_source=x", f"/?day={day + 1}#top")

    found = await SiteCrawlService(site_reader(respond)).crawl(SiteCrawlRequest(url=ROOT, max_depth=5, limit=6))
    assert (len(site.asked) - 1, found.stopped) == (6, "limit")


async def test_hostile_links_are_dropped() -> None:
    """Invalid links, too long links and nofollow links are dropped."""
    links = (
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:a@b.c",
        "http://[::1",
        "//user@a.example.net/",
        "\\\\\\\\evil.example\\\\x",
        "http://a.example.net\\\\@evil.example/",
        "/" + "x" * 5000,
        "ftp://a.example.net/",
        "",
        "#top",
        "/ok",
    )
    site = Site(_=page(*links) + b'<a rel="nofollow" href="/advert">x</a>', ok=page())
    found = await site.crawl()
    assert found.urls == (ROOT, f"{ROOT}ok")


async def test_page_that_says_nofollow_has_no_links() -> None:
    site = Site(_=page("/a", head='<meta name="Robots" content="index, NOFOLLOW">'))
    assert (await site.crawl()).urls == (ROOT,)


async def test_base_of_a_page_cannot_name_another_site() -> None:
    site = Site(_=page("x", head='<base href="https://evil.example.net/">'))
    assert (await site.crawl()).urls == (ROOT,)


@in_virtual_time
async def test_huge_page_and_silent_server_cost_their_own_page() -> None:
    async def silent() -> Any:
        await asyncio.Event().wait()

    site = Site(_=page("/huge", "/silent", "/ok"), huge=b"x" * 6_000_000, ok=page())

    def respond(ip: str, port: int, host: str, target: str) -> Any:
        return silent() if target == "/silent" else site.respond(ip, port, host, target)

    reader = site_reader(respond, timeout=1.0)
    found = await SiteCrawlService(reader).crawl(SiteCrawlRequest(url=ROOT))
    assert [page.page.url for page in found.pages] == [ROOT, f"{ROOT}ok"]
    assert sorted(page.url for page in found.failed) == [f"{ROOT}huge", f"{ROOT}silent"]


async def test_unreachable_site_is_an_error_of_the_site() -> None:
    def respond(ip: str, port: int, host: str, target: str) -> Any:
        if target == "/robots.txt":
            return 404, HTML, b""
        raise OSError

    with pytest.raises(PageConnectionError):
        await SiteCrawlService(site_reader(respond)).crawl(SiteCrawlRequest(url=ROOT))


def test_number_of_links_of_a_page_is_bounded() -> None:
    """A page with a hundred thousand links takes little memory and time."""
    many = page(*(f"/{number}" for number in range(100_000))).decode()
    found = read_answer(html_page.read_linked_page(many)).hyperlinks
    assert found is not None
    assert len(found.links) == html_page.MAX_LINKS


async def test_menu_without_text_is_crawled() -> None:
    """A start page with links but without text is no error of the crawl."""
    site = Site(_=html('<nav><a href="/a">A</a></nav>'), a=page())
    found = await site.crawl()
    assert [page.page.url for page in found.pages] == [ROOT, f"{ROOT}a"]
    assert found.pages[0].page.text == ""


async def test_favicon_and_images_are_absolute() -> None:
    icon = '<link rel="shortcut icon" href="/f.ico">'
    site = Site(_=html('<p>Tea is a drink.</p><img src="i/tea.png"><img src="data:x">', head=icon))
    [first] = (await site.crawl()).pages
    assert (first.images, first.favicon) == ((f"{ROOT}i/tea.png",), f"{ROOT}f.ico")
