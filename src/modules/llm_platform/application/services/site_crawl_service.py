"""Crawls the pages of one site, breadth first, within bounds of depth, breadth, pages, size and time."""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from modules.llm_platform.domain.concurrency.page_allowance import page_allowance
from modules.llm_platform.domain.concurrency.task_group import gather_all
from modules.llm_platform.domain.dtos import site_crawl_dtos as dtos
from modules.llm_platform.domain.dtos.page_dtos import PageLink
from modules.llm_platform.domain.exceptions import PageTimeoutError
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.domain.retrieval.bm25 import make_passage_vector, make_question_vector
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.domain.urls.url_pattern import UrlPattern
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_CONCURRENT_READS: Final = 5  # limit for one crawl; the reader opens fewer connections to one host
MAX_CRAWL_BYTES: Final = 50_000_000  # decompressed size of all pages
MAX_LINK_CHARS: Final = 1000  # a longer address is not followed
LINK_BATCH_SIZE: Final = 100  # links examined before other tasks have their turn

NOT_READ: Final = {
    "deadline": "The page was not read before the deadline of the crawl",
    "size": f"The pages before it have more than {MAX_CRAWL_BYTES // 1_000_000} MB together",
}
ROOT_TIMED_OUT: Final = "The first page was not read before the deadline of the crawl"

_PATH_WORDS = re.compile(r"[\W_]+")


class SiteCrawlService:
    """Crawls sites as their robots.txt allows.

    Subdomains belong to the site. Pages of other sites are read only if the request allows it. Their links are not followed.
    """

    def __init__(self, reader: ISiteReader) -> None:
        self._reader = reader

    async def read_page(self, url: str, *, is_whole: bool = False) -> dtos.LinkedPage:
        """Read one page with its links. With `is_whole`, it has all of its visible text. Raises the page errors."""
        return await self._reader.read(self._reader.address(url), lambda _: True, is_whole=is_whole)

    async def crawl(self, request: dtos.SiteCrawlRequest) -> dtos.SiteCrawl:
        """Read the first page and the pages up to `max_depth` links away.

        Raises the page error of the first page; errors of other pages are in `failed`.
        """
        return await self._run(request, levels=request.max_depth + 1)

    async def map(self, request: dtos.SiteCrawlRequest) -> dtos.SiteCrawl:
        """List the addresses up to `max_depth` links away, without reading the last ones. Raises as `crawl` does."""
        return await self._run(request, levels=request.max_depth, lists_last=True)

    async def _run(self, request: dtos.SiteCrawlRequest, *, levels: int, lists_last: bool = False) -> dtos.SiteCrawl:
        began = time.perf_counter()
        crawl = _Crawl(self._reader, request)
        with page_allowance(max_of_host=None):  # most pages are of one host, which is asked as its robots.txt says
            found = await crawl.run(levels, lists_last=lists_last)
        extra = {"pages": len(found.pages), "failed": len(found.failed), "stopped": found.stopped or ""}
        log.info("site crawled", extra={**extra, "duration_ms": round((time.perf_counter() - began) * 1000, 1)})
        return found


class SiteScope:
    """Decides which addresses belong to a crawl. All are in the spelling of `ISiteReader.address`."""

    def __init__(self, request: dtos.SiteCrawlRequest, root: str) -> None:
        parts = urlsplit(root)
        self._host = (parts.hostname or "").removeprefix("www.")
        self._ports = {None, parts.port}
        self._allows_external = request.allow_external
        self._selected = [*map(UrlPattern, request.select_paths)], [*map(UrlPattern, request.select_domains)]
        self._excluded = [*map(UrlPattern, request.exclude_paths)], [*map(UrlPattern, request.exclude_domains)]

    def is_on_site(self, url: str) -> bool:
        """Return whether the host is the site or below it, at the usual port or the port of the first page."""
        parts = urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.")
        return (host == self._host or host.endswith(f".{self._host}")) and parts.port in self._ports

    def admits(self, url: str) -> bool:
        """Return whether a page with this address is read."""
        parts = urlsplit(url)
        if len(url) > MAX_LINK_CHARS or not (self._allows_external or self.is_on_site(url)):
            return False
        texts = parts.path, parts.hostname or ""
        for text, selected, excluded in zip(texts, self._selected, self._excluded, strict=True):
            if selected and not any(pattern.matches(text) for pattern in selected):
                return False
            if any(pattern.matches(text) for pattern in excluded):
                return False
        return True


class _Crawl:
    """One crawl. `_found` maps canonical to admitted addresses. `_outcomes` has the outcome of each opened address."""

    def __init__(self, reader: ISiteReader, request: dtos.SiteCrawlRequest) -> None:
        self._reader = reader
        self._request = request
        self._root = reader.address(request.url)
        self._scope = SiteScope(request, self._root)
        self._wanted = set(make_question_vector(request.instructions).indices) if request.instructions else set()
        self._reads = asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._found = {canonical_url(self._root): self._root}
        self._read: set[str] = set()  # canonical addresses after redirects
        self._outcomes: dict[str, dtos.LinkedPage | AppException | None] = {}  # None: a page that was read before
        self._size = 0
        self._stopped: dtos.StopReason | None = None

    async def run(self, levels: int, *, lists_last: bool) -> dtos.SiteCrawl:
        level = [self._root]
        try:
            async with asyncio.timeout(self._request.timeout_s):
                for number in range(levels):
                    await gather_all(self._open(url) for url in level)
                    is_last = number + 1 == levels
                    following = [] if is_last and not lists_last else await self._follow(level)
                    self._forget_links(level)
                    level = following
        except TimeoutError:
            self._stopped = "deadline"
        return self._make_result(reads_all=not lists_last)

    async def _open(self, url: str) -> None:
        async with self._reads:
            if self._size > MAX_CRAWL_BYTES:
                self._stopped = "size"
                return
            admits = self._scope.is_on_site if url == self._root else self._scope.admits
            try:
                linked = await self._reader.read(
                    url, lambda hop: hop == url or admits(hop), is_whole=self._request.whole_pages
                )
            except AppException as error:
                self._outcomes[url] = error
                return
        self._size += linked.size_bytes
        address = canonical_url(linked.page.url)
        self._outcomes[url] = None if address in self._read else linked
        self._read.add(address)

    async def _follow(self, level: Sequence[str]) -> list[str]:
        """Return the new addresses that the pages of a level link to."""
        following: list[str] = []
        for url in level:
            linked = self._outcomes.get(url)
            if isinstance(linked, dtos.LinkedPage) and self._scope.is_on_site(linked.page.url):
                following += await self._select_new_links(linked)
        return following

    def _forget_links(self, level: Sequence[str]) -> None:
        """Drop the links of pages that were followed: five hundred pages may have half a million."""
        for url in level:
            linked = self._outcomes.get(url)
            if isinstance(linked, dtos.LinkedPage):
                self._outcomes[url] = linked.model_copy(update={"links": ()})

    async def _select_new_links(self, linked: dtos.LinkedPage) -> list[str]:
        new: list[str] = []
        for position, link in enumerate(self._rank_links(linked.links)):
            if position % LINK_BATCH_SIZE == 0:
                await asyncio.sleep(0)
            if len(new) == self._request.max_breadth:
                break
            key = canonical_url(link.url)
            if key in self._found or key in self._read or not self._scope.admits(link.url):
                continue
            if len(self._found) >= self._request.limit:
                self._stopped = self._stopped or "limit"
                break
            self._found[key] = link.url
            new.append(link.url)
        return new

    def _rank_links(self, links: Sequence[PageLink]) -> Sequence[PageLink]:
        """Sort the links by the words that their text and path share with the instructions, most first.

        Without instructions, the links keep their order.
        """
        if not self._wanted:
            return links

        def count_shared_words(link: PageLink) -> int:
            words = f"{link.text} {_PATH_WORDS.sub(' ', unquote(urlsplit(link.url).path))}"
            return len(self._wanted.intersection(make_passage_vector(words).indices))

        return sorted(links, key=count_shared_words, reverse=True)

    def _make_result(self, *, reads_all: bool) -> dtos.SiteCrawl:
        first = self._outcomes.get(self._root)
        if first is None:
            raise PageTimeoutError(ROOT_TIMED_OUT)
        if isinstance(first, AppException):
            raise first
        pages: list[dtos.LinkedPage] = []
        failed: list[dtos.UnreadPage] = []
        for url in self._found.values():
            outcome = self._outcomes.get(url)
            if isinstance(outcome, dtos.LinkedPage):
                pages.append(outcome)
            elif isinstance(outcome, AppException):
                failed.append(dtos.UnreadPage(url=url, error=outcome.message, code=outcome.code))
            elif reads_all and url not in self._outcomes and self._stopped in NOT_READ:
                failed.append(dtos.UnreadPage(url=url, error=NOT_READ[self._stopped]))
        return dtos.SiteCrawl(
            base_url=self._root,
            urls=tuple(self._found.values()),
            pages=tuple(pages),
            failed=tuple(failed),
            stopped=self._stopped,
        )
