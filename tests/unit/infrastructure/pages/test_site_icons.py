"""The reader of site icons: what it requests, and what it refuses."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.domain.ports.icon_reader import Icon
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import Guard
from modules.llm_platform.infrastructure.pages import site_icons as site_icon_reader
from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
from modules.llm_platform.infrastructure.pages.robots import Robots
from modules.llm_platform.infrastructure.pages.site_icons import ICON_BYTES, SiteIconReader, detect_image_type
from modules.llm_platform.testing.reader_probe import Answer, FakeNetwork

PNG = b"\x89PNG\r\n\x1a\n and so on"
PAGE = "http://a.example.net/deep/page?x=1"


class Names:
    async def resolve(self, host: str, port: int) -> list[str]:
        return ["10.0.0.1"] if host.startswith("inside") else ["93.184.216.34"]


class Site:
    """Answers by target, and records its requests."""

    def __init__(self, **answers: Answer) -> None:
        self.asked: list[str] = []
        self._answers = {f"/{name.replace('_', '.')}": answer for name, answer in answers.items()}

    def respond(self, ip: str, port: int, host: str, target: str) -> Answer:
        self.asked.append(f"{host}{target}")
        return self._answers.get(target, (404, {}, b""))

    def reader(self, **options: Any) -> SiteIconReader:
        fetcher = SafeFetcher(Guard(Names()), PinnedConnections(FakeNetwork(self.respond)))
        return SiteIconReader(fetcher, Robots(fetcher) if options.pop("obeys", False) else None, **options)


async def test_a_site_is_asked_once_and_only_for_its_icon() -> None:
    """The page's address is not sent. The result, including a missing icon, is cached for an hour."""
    now = [0.0]
    site = Site(favicon_ico=(200, {"Content-Type": "application/octet-stream"}, PNG))
    reader = site.reader(clock=lambda: now[0])
    assert await reader.read(PAGE) == Icon("image/png", PNG)
    assert await reader.read("http://a.example.net/other") == Icon("image/png", PNG)
    assert site.asked == ["a.example.net/favicon.ico"]
    none = Site()
    reader = none.reader(clock=lambda: now[0])
    assert await reader.read(PAGE) is None
    assert await reader.read(PAGE) is None
    now[0] = site_icon_reader.TTL_S + 1
    assert await reader.read(PAGE) is None
    assert len(none.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"Content-Type": "image/svg+xml"}, b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>"),
        (200, {"Content-Type": "image/png"}, b"<html><script>alert(1)</script></html>"),
        (200, {"Content-Type": "text/html"}, PNG),
        (200, {"Content-Type": "image/png"}, PNG + b"x" * ICON_BYTES),
        (200, {"Content-Type": "image/png"}, itertools.chain([PNG], itertools.repeat(b"x" * 10_000))),
        (200, {"Content-Type": "image/png"}, b""),
        (302, {"Location": "http://tracker.example.org/a.ico"}, b""),
        (302, {"Location": "http://inside.a.example.net/favicon.ico"}, b""),
        (302, {"Location": "/favicon.ico"}, b""),
        (500, {}, b""),
    ],
)
async def test_what_is_no_icon_of_this_site_is_none(answer: Answer) -> None:
    """Scripts, pages, huge and endless bodies, other sites, the inside of the network, circles."""
    site = Site(favicon_ico=answer)
    assert await site.reader().read(PAGE) is None
    assert {address.partition("/")[0] for address in site.asked} == {"a.example.net"}


@pytest.mark.parametrize(
    "url", ["doc:notes.md", "javascript:alert(1)", "http://inside.example/", "file:///etc/passwd", "x"]
)
async def test_no_other_address_is_opened(url: str) -> None:
    """Documents, other schemes and private addresses have no icon."""
    site = Site(favicon_ico=(200, {"Content-Type": "image/png"}, PNG))
    assert await site.reader().read(url) is None
    assert site.asked == []


async def test_robots_txt_is_obeyed_where_pages_are_read_so() -> None:
    forbidden = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /favicon.ico")
    site = Site(favicon_ico=(200, {"Content-Type": "image/png"}, PNG), robots_txt=forbidden)
    assert await site.reader(obeys=True).read(PAGE) is None
    assert await site.reader().read(PAGE) == Icon("image/png", PNG)


async def test_callers_at_the_same_time_ask_a_site_once() -> None:
    """Twenty sources of one site are one request for its icon."""
    site = Site(favicon_ico=(200, {"Content-Type": "image/png"}, PNG))
    reader = site.reader()
    assert await asyncio.gather(*(reader.read(f"{PAGE}{n}") for n in range(20))) == [Icon("image/png", PNG)] * 20
    assert site.asked == ["a.example.net/favicon.ico"]


@in_virtual_time
async def test_the_wait_for_slow_sites_is_bounded() -> None:
    """A caller that waits for slow sites soon gets no icon, and asks again at the next page."""

    async def respond(ip: str, port: int, host: str, target: str) -> Answer:
        if host.startswith("slow"):
            await asyncio.Event().wait()
        return 200, {"Content-Type": "image/png"}, PNG

    reader = SiteIconReader(SafeFetcher(Guard(Names()), PinnedConnections(FakeNetwork(respond))))
    now = asyncio.get_running_loop().time
    began = now()
    urls = [f"http://slow{n}.example.net/" for n in range(site_icon_reader.MAX_CONCURRENT * 5)]
    waiting = [asyncio.create_task(reader.read(url)) for url in [*urls, PAGE]]
    assert await asyncio.gather(*waiting) == [None] * len(waiting)
    assert now() - began <= 2 * site_icon_reader.ICON_TIMEOUT_S
    assert await reader.read(PAGE) == Icon("image/png", PNG)


async def test_a_slow_site_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_icon_reader, "ICON_TIMEOUT_S", 0.05)
    asked = []

    async def never(ip: str, port: int, host: str, target: str) -> Answer:
        asked.append(target)
        await asyncio.Event().wait()
        raise AssertionError

    fetcher = SafeFetcher(Guard(Names()), PinnedConnections(FakeNetwork(never)))
    assert await SiteIconReader(fetcher).read(PAGE) is None
    assert asked == ["/favicon.ico"]


def test_the_type_is_that_of_the_bytes() -> None:
    webp = b"RIFF\x00\x00\x00\x00WEBPVP8 "
    types = [
        detect_image_type(data)
        for data in (PNG, b"GIF89a", b"\xff\xd8\xff\xe0", b"\x00\x00\x01\x00", webp, b"RIFF", b"<svg")
    ]
    assert types == ["image/png", "image/gif", "image/jpeg", "image/x-icon", "image/webp", None, None]
