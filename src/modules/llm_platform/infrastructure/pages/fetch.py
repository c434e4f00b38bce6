"""Fetches the bytes of one page: guard, connection, redirects and limits."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import httpx2
from cachetools import TTLCache

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.domain.concurrency.page_allowance import count_fetch
from modules.llm_platform.domain.exceptions import PageBlockedError, PageError
from modules.llm_platform.infrastructure.http.client import get_user_agent
from modules.llm_platform.infrastructure.http.errors import retry_after_s
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.errors import (
    TRANSPORT_ERRORS,
    make_status_error,
    make_transport_error,
)
from modules.llm_platform.infrastructure.http.guarded.guard import Checked, Guard
from modules.llm_platform.infrastructure.http.guarded.url import PageAddress, follow

CONNECTIONS_PER_HOST: Final = 2  # low, so that a report with ten pages of one site does not overload it


class PerHostLimiter:
    """A semaphore for each host, removed when unused."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        """Wait for a connection slot of the host."""
        slots, users = self._hosts.get(host) or (asyncio.Semaphore(CONNECTIONS_PER_HOST), 0)
        self._hosts[host] = (slots, users + 1)
        try:
            async with slots:
                yield
        finally:
            users = self._hosts[host][1] - 1
            if users:
                self._hosts[host] = (slots, users)
            else:
                del self._hosts[host]


MAX_REDIRECTS: Final = 5
PAGE_BYTES: Final = 5_000_000  # decompressed size
PAGE_COMPRESSION_RATIO: Final = 100  # decompressed to sent bytes; HTML compresses 5 to 20 times
MIN_RATIO_BYTES: Final = 256_000  # a short page of one repeated line is not a bomb
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
ENCODINGS: Final = ("gzip", "deflate")  # encodings that Python decodes

PARSER_PAUSE_S: Final = 60.0  # pause of a host with a page that ended its parser
MAX_PAUSED: Final = 10_000  # pairs of a caller and a host

TOO_LARGE = f"The page is larger than {PAGE_BYTES // 1_000_000} MB"

_TYPE = re.compile(r"\s*([\w.+-]{1,100}/[\w.+-]{1,100})\s*(?:;|$)", re.ASCII)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.ASCII | re.IGNORECASE)


@cache
def request_headers() -> dict[str, str]:
    """Return the headers of all requests for pages. They say nothing about the user."""
    return {
        "User-Agent": f"{get_user_agent()} (reads one page for its user)",
        "Accept": "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/pdf;q=0.9,text/*;q=0.5",
        "Accept-Language": "en,*;q=0.5",
        "Accept-Encoding": ", ".join(ENCODINGS),
    }


Visit: TypeAlias = Callable[[PageAddress], Awaitable[None]]
BeforeBody: TypeAlias = Callable[[], Awaitable[None]]


async def _skip_turn() -> None:
    """Do nothing: the default of `before_body`, for a caller that does not wait for a turn."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The pages that are accepted.

    - `media_types` may have `text/*` for all types of text, and "" for an undeclared type.
    - `max_bytes` limits the size after decompression.
    - `absent` are the statuses that mean that the page does not exist, and are not errors.
    """

    media_types: Collection[str]
    max_bytes: int = PAGE_BYTES
    absent: Collection[int] = ()


@dataclass(slots=True)
class Fetched:
    """A page: its address after redirects, its media type in lower case (empty if undeclared), its charset and bytes."""

    address: PageAddress
    media_type: str
    charset: str | None
    body: bytes

    def take_body(self) -> bytes:
        """Return the bytes and hold them no longer: dozens of pages wait for a parser at once."""
        body, self.body = self.body, b""
        return body


class SafeFetcher:
    """Fetches untrusted addresses. Each hop is parsed, resolved and checked, and connected to at the checked IP address."""

    def __init__(
        self, guard: Guard, connections: PinnedConnections, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._guard = guard
        self._connections = connections
        self._limiter = PerHostLimiter()
        self._paused: TTLCache[tuple[str, str], bool] = TTLCache(MAX_PAUSED, PARSER_PAUSE_S, clock)

    def pause(self, host: str) -> None:
        """Refuse pages of a host to this caller for PARSER_PAUSE_S: the next page may cost a parser as much as the last.

        Other callers can still read the host, because many people may publish pages on it.
        """
        self._paused[current_caller(), host] = True

    async def get(
        self,
        address: PageAddress,
        request: PageRequest,
        before: Visit | None = None,
        before_body: BeforeBody = _skip_turn,
    ) -> Fetched:
        """Return the page.

        - `before` is called with each address before it is opened, and may raise.
        - `before_body` is called once, when the page has begun to arrive and before its bytes are read into memory.

        Each request counts for the `page_allowance` of the caller. Raises page errors. The caller sets a deadline.
        """
        host_before = None
        for _ in range(MAX_REDIRECTS + 1):
            if (current_caller(), address.host) in self._paused:
                raise PageBlockedError(
                    f"A page of this host ended its parser, so no page of it is read for {PARSER_PAUSE_S:g} s",
                    retry_after_s=PARSER_PAUSE_S,
                )
            checked = await self._guard.check(address)
            await count_fetch(address.host, is_same_page=address.host == host_before)
            if before is not None:
                await before(address)
            try:
                async with self._limiter.at(address.host):
                    hop = await self._follow_hop(checked, request, before_body)
            except TRANSPORT_ERRORS as error:
                raise make_transport_error(error) from error
            if isinstance(hop, Fetched):
                return hop
            host_before, address = address.host, follow(address, hop)
        raise PageError(f"The page redirects more than {MAX_REDIRECTS} times")

    async def _follow_hop(self, checked: Checked, request: PageRequest, before_body: BeforeBody) -> Fetched | str:
        """Return the page, or the target of its redirect."""
        async with self._connections.request(checked, request_headers()) as answer:
            if answer.status_code in REDIRECTS:
                hop: Fetched | str = _read_location(answer)
            else:
                hop = await _read_page(answer, checked.address, request, before_body)
        return hop


async def _read_page(
    answer: httpx2.Response, address: PageAddress, request: PageRequest, before_body: BeforeBody
) -> Fetched:
    if answer.status_code in request.absent:
        return Fetched(address, "", None, b"")
    if error := make_status_error(answer.status_code, retry_after_s(answer.headers)):
        raise error
    media_type, charset = _read_media_type(answer)
    if not (media_type in request.media_types or f"{media_type.partition('/')[0]}/*" in request.media_types):
        raise PageError("The address is not a page: only text and PDF are read")
    await before_body()
    return Fetched(address, media_type, charset, await _read_body(answer, request.max_bytes))


def _read_location(answer: httpx2.Response) -> str:
    raw = next((value for name, value in answer.headers.raw if name.lower() == b"location"), b"")
    if not raw:
        raise PageError("The page redirects without a target")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _read_media_type(answer: httpx2.Response) -> tuple[str, str | None]:
    declared = answer.headers.get("content-type", "")
    found, charset = _TYPE.match(declared), _CHARSET.search(declared)
    media_type = found[1].lower() if found else ("" if not declared.strip() else "unknown/unknown")
    return media_type, charset[1] if charset else None


async def _read_body(answer: httpx2.Response, max_bytes: int) -> bytes:
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in (*ENCODINGS, "identity", ""):  # several encodings on top of each other are refused too
        raise PageError("The page has an encoding that was not requested")
    length = answer.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise PageError(TOO_LARGE)
    chunks, size = [], 0
    async for chunk in answer.aiter_bytes():
        size += len(chunk)
        if size > max_bytes:
            raise PageError(TOO_LARGE)
        if size > MIN_RATIO_BYTES and size > PAGE_COMPRESSION_RATIO * answer.num_bytes_downloaded:
            raise PageError("The page is compressed too strongly to be a page")
        chunks.append(chunk)
    return b"".join(chunks)
