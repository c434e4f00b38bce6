"""Reads pages directly, through the safe fetcher: one page for a person, or the pages of a site for a crawl."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Self

from cachetools import TTLCache

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.domain.concurrency.caller_turns import CallerTurns
from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.dtos.site_crawl_dtos import LinkedPage
from modules.llm_platform.domain.exceptions import PageError, PageRequestError, PageTimeoutError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.research.page_links import keeps_links
from modules.llm_platform.domain.text.page_starts import convert_page_starts
from modules.llm_platform.infrastructure.http.guarded.url import PageAddress, follow, parse_address
from modules.llm_platform.infrastructure.pages.content import PAGE_REQUEST, Content, Parsers, extract_content, hash_text
from modules.llm_platform.infrastructure.pages.fetch import Fetched, SafeFetcher
from modules.llm_platform.infrastructure.pages.robots import ROBOTS_SITES, Robots
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_process import Hyperlinks, ParserEndedError

DIRECT_TIMEOUT_S: Final = 20.0
MAX_BODIES: Final = 32  # pages in memory, each up to PAGE_BYTES; a caller that is alone has half of them
MAX_CONCURRENT: Final = 20  # pages of all crawls
TURN_TTL_S: Final = 3600.0  # lifetime of what is known of the last page of a site; no site asks for a longer pause

TIMED_OUT = "The page did not load within {seconds:g} s: try again"


class DirectPageReader(IPageReader):
    """Fetches a page and extracts the text of HTML, PDF or plain text in any charset, within `timeout` seconds.

    Any number of pages may wait for their servers, but only `max_bodies` are in memory at once, from their first byte until
    they are parsed. Callers take turns. Raises PageBlockedError for bot walls.
    """

    name = "direct"

    def __init__(
        self,
        fetcher: SafeFetcher,
        parsers: Parsers,
        *,
        timeout: float = DIRECT_TIMEOUT_S,
        robots: Robots | None = None,
        redactor: Redactor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        max_bodies: int = MAX_BODIES,
    ) -> None:
        self._fetcher = fetcher
        self._parsers = parsers
        self._timeout = timeout
        self._bodies = CallerTurns(max_bodies, keeps_room=True)
        self._robots = robots
        self._redactor = redactor or Redactor()
        self._now = now

    async def prepare(self) -> None:
        with suppress(UnreadableDocument):  # the first page tells why
            await self._parsers.prepare()

    async def read(self, url: str) -> Page:
        address = parse_address(url)
        robots = self._robots.check if self._robots else None
        try:
            async with asyncio.timeout(self._timeout), AsyncExitStack() as turn:

                async def take_turn() -> None:
                    await turn.enter_async_context(self._bodies.turn(current_caller()))

                fetched = await self._fetcher.get(address, PAGE_REQUEST, robots, take_turn)
                content = await _read_content(self._fetcher, fetched, self._parsers, with_links=keeps_links())
        except TimeoutError as error:
            raise PageTimeoutError(TIMED_OUT.format(seconds=self._timeout)) from error
        page = _make_page(fetched, content, self._redactor, self._now())
        if content.hyperlinks is None:
            return page
        base = _resolve_link(fetched.address, content.hyperlinks.base) or fetched.address
        links = tuple((href, text) for href, text in content.hyperlinks.links if text)
        return page.model_copy(update={"links": links, "link_base": base.url})


async def _read_content(
    fetcher: SafeFetcher,
    fetched: Fetched,
    parsers: Parsers,
    *,
    with_links: bool,
    needs_text: bool = True,
    is_whole: bool = False,
) -> Content:
    """Return the content of a page. A host whose page ended its parser has to wait."""
    try:
        return await extract_content(fetched, parsers, with_links=with_links, needs_text=needs_text, is_whole=is_whole)
    except PageError as error:
        if isinstance(error.__cause__, ParserEndedError):
            fetcher.pause(fetched.address.host)
        raise


def _make_page(fetched: Fetched, content: Content, redactor: Redactor, now: datetime) -> Page:
    text = redactor.text(content.text)
    return Page(
        url=fetched.address.url,
        title=redactor.text(content.title),
        text=text,
        read_at=now,
        reader=DirectPageReader.name,
        sha256=hash_text(text),
        media_type=content.media_type,
        published=content.published,
        warning=content.warning,
        extraction=content.extraction,
        pages=convert_page_starts(content.text, content.pages, redactor.text, text),
    )


@dataclass(slots=True)
class _Turns:
    """The turns of the pages of one site. `free_at` is the time at which the next page may be opened."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    free_at: float = 0.0


class _Slot:
    """A slot for one of the pages that are read at once, as a context manager. `leave` releases it before the end."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._is_taken = False

    async def take(self) -> None:
        await self._slots.acquire()
        self._is_taken = True

    def leave(self) -> None:
        if self._is_taken:
            self._is_taken = False
            self._slots.release()

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()


class DirectSiteReader(ISiteReader):
    """Reads as `DirectPageReader`, always obeys robots.txt, and waits as its Crawl-delay says.

    `timeout` is the limit for one page, and begins with its turn. At most `max_concurrent` pages are read at once. A page that
    waits for its turn does not count, so that slow sites do not delay others.
    """

    def __init__(
        self,
        fetcher: SafeFetcher,
        parsers: Parsers,
        robots: Robots,
        *,
        timeout: float = DIRECT_TIMEOUT_S,
        max_concurrent: int = MAX_CONCURRENT,
        redactor: Redactor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._parsers = parsers
        self._robots = robots
        self._timeout = timeout
        self._redactor = redactor or Redactor()
        self._now = now
        self._clock = clock
        self._slots = asyncio.Semaphore(max_concurrent)
        self._turns: TTLCache[str, _Turns] = TTLCache(ROBOTS_SITES, TURN_TTL_S, clock)

    def address(self, url: str) -> str:
        return parse_address(url).url

    async def read(self, url: str, admits: Callable[[str], bool], *, is_whole: bool = False) -> LinkedPage:
        address, loop = parse_address(url), asyncio.get_running_loop()
        try:
            async with _Slot(self._slots) as slot, asyncio.timeout(self._timeout) as limit:

                async def visit(hop: PageAddress) -> None:
                    if not admits(hop.url):
                        raise PageError("The page redirects to an address that is not part of this crawl")
                    await self._robots.check(hop)
                    delay_s = await self._robots.delay_s(hop)
                    if delay_s:
                        limit.reschedule(None)
                        slot.leave()
                        await self._wait_for_turn(hop, delay_s, slot)
                        limit.reschedule(loop.time() + self._timeout)

                fetched = await self._fetcher.get(address, PAGE_REQUEST, visit)
                size_bytes = len(fetched.body)
                content = await _read_content(
                    self._fetcher, fetched, self._parsers, with_links=True, needs_text=False, is_whole=is_whole
                )
        except TimeoutError as error:
            raise PageTimeoutError(TIMED_OUT.format(seconds=self._timeout)) from error
        found = content.hyperlinks or Hyperlinks()
        base = _resolve_link(fetched.address, found.base) or fetched.address
        return LinkedPage(
            page=_make_page(fetched, content, self._redactor, self._now()),
            links=_list_links(fetched, content),
            images=tuple(target.url for target, _ in _list_targets(base, ((image, "") for image in found.images))),
            favicon=icon.url if found.icon and (icon := _resolve_link(base, found.icon)) else None,
            size_bytes=size_bytes,
        )

    async def _wait_for_turn(self, address: PageAddress, delay_s: float, slot: _Slot) -> None:
        """Wait until the site allows the next page and a slot is free: the pause begins when the page is opened."""
        turns = self._turns.setdefault(f"{address.scheme}://{address.netloc}", _Turns())
        async with turns.lock:  # a caller that leaves while it waits delays nobody
            await asyncio.sleep(max(0.0, turns.free_at - self._clock()))
            await slot.take()
            turns.free_at = self._clock() + delay_s


def _list_links(fetched: Fetched, content: Content) -> tuple[PageLink, ...]:
    found = content.hyperlinks or Hyperlinks()
    base = _resolve_link(fetched.address, found.base) or fetched.address
    return tuple(PageLink(url=target.url, text=text) for target, text in _list_targets(base, found.links))


def _list_targets(base: PageAddress, links: Iterable[tuple[str, str]]) -> Iterator[tuple[PageAddress, str]]:
    for href, text in links:
        if target := _resolve_link(base, href):
            yield target, text


def _resolve_link(base: PageAddress, href: str) -> PageAddress | None:
    """Return the address that a link leads to, or None if it is not a web address."""
    try:
        return follow(base, href.strip())
    except PageRequestError:
        return None
