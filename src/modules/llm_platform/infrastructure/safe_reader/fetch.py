"""Fetches one page: guard, connection, redirects, limits. What comes back is bytes that nobody has looked into yet."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import httpx2

from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.infrastructure.http.client import user_agent
from modules.llm_platform.infrastructure.http.errors import retry_after_s
from modules.llm_platform.infrastructure.safe_reader.connection import PinnedConnections
from modules.llm_platform.infrastructure.safe_reader.errors import TRANSPORT_ERRORS, of_status, of_transport
from modules.llm_platform.infrastructure.safe_reader.guard import Checked, Guard
from modules.llm_platform.infrastructure.safe_reader.url import PageAddress, follow

# At most two connections to one host at a time: a report that needs ten pages of one site is no attack on it.


CONNECTIONS_PER_HOST: Final = 2


class PerHostLimiter:
    """One semaphore for each host that is being read, forgotten when nobody waits for it."""

    def __init__(self, at_once: int = CONNECTIONS_PER_HOST) -> None:
        self._at_once = at_once
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        """Wait for a turn, and keep it for the block."""
        turn, waiting = self._hosts.get(host) or (asyncio.Semaphore(self._at_once), 0)
        self._hosts[host] = (turn, waiting + 1)
        try:
            async with turn:
                yield
        finally:
            waiting = self._hosts[host][1] - 1
            if waiting:
                self._hosts[host] = (turn, waiting)
            else:
                del self._hosts[host]


MAX_REDIRECTS: Final = 5
MAX_BYTES: Final = 5_000_000  # after decompression
MAX_RATIO: Final = 100  # of decompressed to sent bytes; HTML compresses 5 to 20 times
RATIO_COUNTS_FROM: Final = 256_000  # bytes: a short page of one repeated line is no bomb
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
ENCODINGS: Final = ("gzip", "deflate")  # what Python decodes by itself; others were not asked for

TOO_LARGE = f"The page is larger than {MAX_BYTES // 1_000_000} MB"
BOMB = "The page unpacks to far more than was sent, as no page does"
WRONG_TYPE = "The address is no page: only text and PDF are read"
WRONG_ENCODING = "The page is compressed in a way that nobody asked for"
NOWHERE = "The page redirects to nowhere"
TOO_FAR = f"The page redirects more than {MAX_REDIRECTS} times"

_TYPE = re.compile(r"\s*([\w.+-]{1,100}/[\w.+-]{1,100})\s*(?:;|$)", re.ASCII)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.ASCII | re.IGNORECASE)


@cache
def request_headers() -> dict[str, str]:
    """The same for every page: who we are, what we read; nothing about who asks."""
    return {
        "User-Agent": f"{user_agent()} (reads one page for its user)",
        "Accept": "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/pdf;q=0.9,text/*;q=0.5",
        "Accept-Language": "en,*;q=0.5",
        "Accept-Encoding": ", ".join(ENCODINGS),
    }


Visit: TypeAlias = Callable[[PageAddress], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What is taken: media types (`text/*` for all of text, "" for none declared), how much of it after decompression,
    and the statuses that mean "there is none" rather than an error.
    """

    media_types: Collection[str]
    max_bytes: int = MAX_BYTES
    absent: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page as it came: where from (after redirects), of what type (lower case, empty when not said), the bytes."""

    address: PageAddress
    media_type: str
    charset: str | None
    body: bytes


class SafeFetcher:
    """Fetches what strangers chose. Each hop is parsed, resolved and checked anew, and dialled where it was checked."""

    def __init__(self, guard: Guard, connections: PinnedConnections, turns: PerHostLimiter | None = None) -> None:
        self._guard = guard
        self._connections = connections
        self._turns = turns or PerHostLimiter()

    async def get(self, address: PageAddress, wanted: PageRequest, before: Visit | None = None) -> Fetched:
        """The page; `before` is called with each address that is about to be opened, and may raise.

        Raises the page errors; takes as long as it takes, so the caller sets a deadline.
        """
        for _ in range(MAX_REDIRECTS + 1):
            checked = await self._guard.check(address)
            if before is not None:
                await before(address)
            try:
                async with self._turns.at(address.host):
                    hop = await self._hop(checked, wanted)
            except TRANSPORT_ERRORS as error:
                raise of_transport(error) from error
            if isinstance(hop, Fetched):
                return hop
            address = follow(address, hop)
        raise PageError(TOO_FAR)

    async def _hop(self, checked: Checked, wanted: PageRequest) -> Fetched | str:
        """The page, or where it redirects to."""
        async with self._connections.get(checked, request_headers()) as answer:
            if answer.status_code in REDIRECTS:
                hop: Fetched | str = _location(answer)
            else:
                hop = await _page(answer, checked.address, wanted)
        return hop


async def _page(answer: httpx2.Response, address: PageAddress, wanted: PageRequest) -> Fetched:
    if answer.status_code in wanted.absent:
        return Fetched(address, "", None, b"")
    if error := of_status(answer.status_code, retry_after_s(answer.headers)):
        raise error
    media_type, charset = _media_type(answer)
    if not _is_one_of(media_type, wanted.media_types):
        raise PageError(WRONG_TYPE)
    return Fetched(address, media_type, charset, await _body(answer, wanted.max_bytes))


def _location(answer: httpx2.Response) -> str:
    raw = next((value for name, value in answer.headers.raw if name.lower() == b"location"), b"")
    if not raw:
        raise PageError(NOWHERE)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _media_type(answer: httpx2.Response) -> tuple[str, str | None]:
    declared = answer.headers.get("content-type", "")
    found, charset = _TYPE.match(declared), _CHARSET.search(declared)
    media_type = found[1].lower() if found else ("" if not declared.strip() else "unknown/unknown")
    return media_type, charset[1] if charset else None


def _is_one_of(media_type: str, wanted: Collection[str]) -> bool:
    return media_type in wanted or f"{media_type.partition('/')[0]}/*" in wanted


async def _body(answer: httpx2.Response, max_bytes: int) -> bytes:
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in (*ENCODINGS, "identity", ""):  # two on top of each other are none of these either
        raise PageError(WRONG_ENCODING)
    length = answer.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise PageError(TOO_LARGE)
    chunks, size = [], 0
    async for chunk in answer.aiter_bytes():
        size += len(chunk)
        if size > max_bytes:
            raise PageError(TOO_LARGE)
        if size > RATIO_COUNTS_FROM and size > MAX_RATIO * answer.num_bytes_downloaded:
            raise PageError(BOMB)
        chunks.append(chunk)
    return b"".join(chunks)
