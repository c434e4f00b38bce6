"""Reads /favicon.ico of sites, through the safe fetcher."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from cachetools import TTLCache

from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.domain.ports.icon_reader import Icon, IIconReader
from modules.llm_platform.infrastructure.http.guarded.url import PageAddress, parse_address
from modules.llm_platform.infrastructure.pages.fetch import PageRequest, SafeFetcher
from modules.llm_platform.infrastructure.pages.robots import Robots
from shared.exceptions import AppException

ICON_TIMEOUT_S: Final = 3.0  # limit for a site, and for the wait for a slot before it
ICON_BYTES: Final = 100_000
MAX_ICONS: Final = 200  # icons in memory: 20 MB at most
TTL_S: Final = 3600.0  # applies to unreadable icons too
MAX_CONCURRENT: Final = 4
REQUEST: Final = PageRequest({"image/*", "application/octet-stream", ""}, ICON_BYTES)
# SVG is none of them: it may hold scripts and load other files.
SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
)


class SiteIconReader(IIconReader):
    """Asks each site at most once per TTL_S and does not follow redirects to other sites. `robots` are the rules to
    obey, or None.

    Concurrent callers share one request. A site whose turn does not come within ICON_TIMEOUT_S is asked by a later caller.
    """

    def __init__(
        self, fetcher: SafeFetcher, robots: Robots | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetcher = fetcher
        self._robots = robots
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._flights: SingleFlight[Icon | None] = SingleFlight()
        self._icons: TTLCache[str, Icon | None] = TTLCache(MAX_ICONS, TTL_S, clock)

    async def read(self, url: str) -> Icon | None:
        try:
            page = parse_address(url)
        except AppException:
            return None
        address = PageAddress(page.scheme, page.host, page.port, "/favicon.ico", page.ip)
        if address.url not in self._icons:
            return (await self._flights.run(address.url, partial(self._fetch, address)))[0]
        return self._icons.get(address.url)

    async def _fetch(self, address: PageAddress) -> Icon | None:
        """Read the icon, and remember what was found once the site was asked."""
        try:
            async with asyncio.timeout(ICON_TIMEOUT_S):
                await self._slots.acquire()
        except TimeoutError:
            return None
        icon = None
        try:
            with suppress(AppException, TimeoutError):
                async with asyncio.timeout(ICON_TIMEOUT_S):
                    icon = await self._read(address)
        finally:
            self._slots.release()
        self._icons[address.url] = icon
        return icon

    async def _read(self, address: PageAddress) -> Icon | None:
        async def visit(hop: PageAddress) -> None:
            if hop.host.removeprefix("www.") != address.host.removeprefix("www."):
                raise PageError("The icon is at another site")
            if self._robots is not None:
                await self._robots.check(hop)

        fetched = await self._fetcher.get(address, REQUEST, visit)
        media_type = detect_image_type(fetched.body)
        return Icon(media_type, fetched.body) if media_type else None


def detect_image_type(data: bytes) -> str | None:
    """Return the media type of an image by its first bytes, whatever its server says, or None for any other content."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in SIGNATURES if data.startswith(signature)), None)
