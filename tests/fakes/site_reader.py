"""A site in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urljoin

from modules.llm_platform.domain.dtos.page_dtos import PageLink
from modules.llm_platform.domain.dtos.site_crawl_dtos import LinkedPage
from modules.llm_platform.domain.exceptions import PageError, PageRequestError
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.domain.urls.canonical_url import is_web_url
from modules.llm_platform.testing.page_reader import sample_page
from shared.exceptions import AppException

SiteOutcome = Sequence[str | tuple[str, str]] | AppException | str  # links, with or without text; an error; a redirect


class FakeSiteReader(ISiteReader):
    """`pages` maps a URL to its links (a link is an address, or an address and its text), an error, or a redirect.

    `gates`: a URL whose page comes when its event is set. `size_bytes`: of each page. `others`: what all other
    URLs have, by default an error. `urls` records what was opened.
    """

    def __init__(
        self,
        pages: Mapping[str, SiteOutcome],
        gates: Mapping[str, asyncio.Event] | None = None,
        size_bytes: int = 10,
        others: SiteOutcome | None = None,
    ) -> None:
        self.urls: list[str] = []
        self.running = 0
        self.most_running = 0
        self._pages = pages
        self._gates = gates or {}
        self._size_bytes = size_bytes
        self._others = PageError("There is no such page (404)") if others is None else others

    def address(self, url: str) -> str:
        if not is_web_url(url):
            raise PageRequestError("This is no web address")
        return url

    async def read(self, url: str, admits: Callable[[str], bool], *, is_whole: bool = False) -> LinkedPage:
        self.urls.append(url)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            if url in self._gates:
                await self._gates[url].wait()
        finally:
            self.running -= 1
        if not admits(url):
            raise PageError("not admitted")
        outcome = self._pages.get(url, self._others)
        if isinstance(outcome, str):
            if not admits(outcome):
                raise PageError("The page redirects to an address that is not part of this crawl")
            url, outcome = outcome, self._pages[outcome]
        if isinstance(outcome, AppException):
            raise outcome
        assert not isinstance(outcome, str)
        pairs = [(link, "") if isinstance(link, str) else link for link in outcome]
        links = tuple(PageLink(url=urljoin(url, href), text=text) for href, text in pairs)
        text = f"{'All text' if is_whole else 'Text'} of {url}"
        return LinkedPage(page=sample_page(url, text), links=links, size_bytes=self._size_bytes)
