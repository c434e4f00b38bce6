"""Reads pages directly, through the safe fetcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageTimeoutError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.safe_reader.content import PAGE_REQUEST, Parsers, content_of, text_hash
from modules.llm_platform.infrastructure.safe_reader.fetch import SafeFetcher
from modules.llm_platform.infrastructure.safe_reader.robots import Robots
from modules.llm_platform.infrastructure.safe_reader.url import parse_address

TIMEOUT_S: Final = 20.0

TIMED_OUT = "The page did not load within {seconds:g} s: try again"


class DirectPageReader(IPageReader):
    """Fetches a page and extracts the text of HTML, PDF or plain text in any charset, within `timeout` seconds.

    Raises PageBlockedError for bot walls.
    """

    name = "direct"

    def __init__(
        self,
        fetcher: SafeFetcher,
        parsers: Parsers,
        *,
        timeout: float = TIMEOUT_S,
        robots: Robots | None = None,
        redactor: Redactor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._fetcher = fetcher
        self._parsers = parsers
        self._timeout = timeout
        self._robots = robots
        self._redactor = redactor or Redactor()
        self._now = now

    async def prepare(self) -> None:
        with suppress(UnreadableDocument):  # the first page tells why
            await self._parsers.prepare()

    async def read(self, url: str) -> Page:
        address = parse_address(url)
        try:
            async with asyncio.timeout(self._timeout):
                fetched = await self._fetcher.get(address, PAGE_REQUEST, self._robots.check if self._robots else None)
                content = await content_of(fetched, self._parsers)
        except TimeoutError as error:
            raise PageTimeoutError(TIMED_OUT.format(seconds=self._timeout)) from error
        text = self._redactor.text(content.text)
        return Page(
            url=fetched.address.url,
            title=self._redactor.text(content.title),
            text=text,
            read_at=self._now(),
            reader=self.name,
            sha256=text_hash(text),
            media_type=content.media_type,
            published=content.published,
            warning=content.warning,
        )
