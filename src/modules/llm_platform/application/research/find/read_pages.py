"""Read the best pages of a search, so that a shallow or deep answer cites pages and not excerpts.

Reading begins with the first results. The writer waits for it for a limited time, and a failed page never fails an answer.

While the answer is written, late pages are still read, and pages of other sources are read once the text cites them. When the
text is complete, it is checked against the pages read so far. A source without a page keeps the excerpt of the search engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from modules.llm_platform.application.research.events import Read
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.page_links import keep_links
from modules.llm_platform.domain.research.source_date import choose_source_date
from modules.llm_platform.domain.retrieval.excerpt import RankedPassages
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_web_url
from shared.exceptions import AppException

READ_SHARE = 0.1  # the writer waits for pages at most this share of the run's time limit
PAGES = {"shallow": 3, "deep": 4}
READ_S = {"shallow": 1.2, "deep": 2.5}
FURTHER_PAGES = 2  # for each page of the limit, this many more may be read while the answer is written
LATE_SHARE = 0.5  # this share of `seconds` is kept for further rounds and for pages that the text cites last
MAX_STORED_TOKENS = 5000  # about 20,000 characters of a page are stored, sent in raw_results and compared
PROMPT_GROWTH = 0.5  # with pages instead of excerpts, the prompt may grow by this share
EXCERPT_CHARS = 500  # the beginning of a linked page, which has no excerpt of a search engine
MAX_TITLE_CHARS = 300
OTHER_TOKENS = 300  # an estimate of the parts of a prompt that are not sources
LINKED_PAGES = 2  # only the first pages of a deep run keep links, because finding links takes as long as parsing


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How many pages a run reads, and how many seconds it waits for them. None means the default of the depth."""

    pages: int | None = None
    seconds: float | None = None

    def get_page_limit(self, request: ResearchRequest) -> int:
        """Return how many pages a run reads before the answer is written."""
        for limit in (request.pages, self.pages):
            if limit is not None:
                return limit
        return PAGES.get(request.depth, 0)

    def calculate_seconds(self, run: Run, timeout_s: float) -> float:
        """Return how many seconds a run waits for pages: at most READ_SHARE of its time limit `timeout_s`."""
        if run.given is not None:
            return timeout_s * READ_SHARE
        seconds = READ_S.get(run.request.depth, 0.0) if self.seconds is None else self.seconds
        return min(seconds, timeout_s * READ_SHARE)


DEFAULT_READING = ReadOptions()


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """How many pages were read, could not be read, and were not read in time."""

    read: int = 0
    failed: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A page, cut to MAX_STORED_TOKENS. `passages` are for the prompt; None if the prompt was built before."""

    page: Page
    passages: RankedPassages | None = None


class PageReads:
    """Reads the pages of one run concurrently. At the end of the context manager, unfinished reads are cancelled.

    Before the answer is written, at most `limit` pages are read in addition to the given pages, and the run waits for them at
    most `seconds` in total. `allow` raises both limits for a further round. No wait exceeds the deadline of the run.
    """

    def __init__(self, reader: IPageReader | None, run: Run, limit: int, seconds: float) -> None:
        self._reader = reader
        self._run = run
        self._given = {url: page for url, page in run.given.pages.items() if is_web_url(url)} if run.given else {}
        self.limit = (limit if reader is not None else 0) + len(self._given)
        self._seconds = self._left = seconds
        self._preparing: asyncio.Task[None] | None = None
        self._tasks: dict[str, asyncio.Task[RankedPage | None]] = {}
        self._began: dict[str, float] = {}  # the start of each read, in event loop time
        self._failed = 0
        follows_links = run.request.depth == "deep" and run.request.rounds != 0
        self._keep_links_of = LINKED_PAGES if follows_links else 0

    async def __aenter__(self) -> PageReads:
        if self._reader is not None and self.limit:
            self._preparing = asyncio.create_task(self._reader.prepare())  # while the search waits for its providers
        for url, page in self._given.items():
            self._add_task(url, self._rank(url, page, in_prompt=True))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await cancel_and_wait(*self._tasks.values(), *([self._preparing] if self._preparing else []))

    def start(self, urls: Iterable[str], count: int) -> None:
        """Begin to read the first `count` of these addresses, up to the limit of the run."""
        self._start([url for url in urls if is_web_url(url)][: max(0, count)], self.limit)

    def allow(self, pages: int) -> None:
        """Allow this many more pages, and at least LATE_SHARE of `seconds` to wait for them."""
        if self.limit:
            self.limit += pages
            self._left = max(self._left, self._seconds * LATE_SHARE)

    async def collect(self, urls: Sequence[str]) -> Mapping[str, RankedPage]:
        """Read these pages, and return the ones that arrive in time, by canonical address.

        If a page cannot be read, the page of the next address is read instead. A late page is still read after the return.
        """
        until = self._get_time() + self._left
        while self.limit:
            self._start(urls, self.limit)
            if not await self._wait(self._tasks.values(), until):
                break
        wanted = {canonical_url(url) for url in urls}
        return {address: page for address, page in self.get_pages().items() if address in wanted}

    async def follow(self, links: Sequence[PageLink], admits: Callable[[Page], bool]) -> list[WebSearchResultItem]:
        """Read linked pages, and return the ones that arrive in time as search results.

        A page is left out unless `admits` accepts it. `admits` gets the page with its address after redirects.
        """
        found = await self.collect([link.url for link in links]) if links else {}
        read = [(link, found[address].page) for link in links if (address := canonical_url(link.url)) in found]
        return [_make_result(page.title or link.text, link.url, page) for link, page in read if admits(page)]

    def list_given(self) -> list[WebSearchResultItem]:
        """Return the pages that the run was given as search results."""
        return [_make_result(page.title, url, page) for url, page in self._given.items()]

    async def read_sources(self, sources: tuple[Source, ...]) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
        """Return the sources with the pages that arrive in time, and the same sources cut to what a writer reads."""
        return add_pages(
            sources, await self.collect([source.url for source in sources if source.text_kind == "snippet"])
        )

    def start_further(self, urls: Iterable[str]) -> None:
        """Begin to read these pages without waiting for them: in all, at most 1 + FURTHER_PAGES for each page of the limit."""
        further = FURTHER_PAGES * (self.limit - len(self._given))
        self._start(urls, self.limit + further, in_prompt=False)

    async def wait_for(self, urls: Sequence[str]) -> None:
        """Read these pages too, and wait for them.

        The wait lasts as long as time is left, but at least LATE_SHARE of `seconds`, because a page that the end of a text
        cites has only just been requested. It ends earlier when each page has had `seconds`.
        """
        self.start_further(urls)
        wanted = set(map(canonical_url, urls))
        running = {address: task for address, task in self._tasks.items() if address in wanted and not task.done()}
        end = max((self._began[address] + self._seconds for address in running), default=0.0)
        until = min(self._get_time() + max(self._left, self._seconds * LATE_SHARE), end)
        while await self._wait(running.values(), until):
            pass

    def list_being_read(self) -> Collection[str]:
        """Return the canonical addresses of the pages that are being read."""
        return [address for address, task in self._tasks.items() if not task.done()]

    def get_pages(self) -> Mapping[str, RankedPage]:
        """Return the pages read so far, by canonical address."""
        done = ((address, task.result()) for address, task in self._tasks.items() if task.done())
        return {address: page for address, page in done if page is not None}

    def end(self) -> ReadCounts:
        """Cancel the unfinished reads, and return how many pages were read, failed or came too late."""
        late = [task for task in self._tasks.values() if not task.done()]
        for task in late:
            self._emit(task.get_name(), ResearchTimeoutError.code)
            task.cancel()
        return ReadCounts(len(self._tasks) - len(late) - self._failed, self._failed, len(late))

    async def _wait(self, tasks: Iterable[asyncio.Task[RankedPage | None]], until: float) -> bool:
        """Wait until one of the tasks ends; return False if all have ended or the time is over."""
        running, began = [task for task in tasks if not task.done()], self._get_time()
        end, early_finish = min(until, self._run.deadline), self._run.early_finish
        if not running or end <= began or early_finish.is_due:
            return False
        await early_finish.wait(running, end, return_when=asyncio.FIRST_COMPLETED)
        self._left -= self._get_time() - began
        return True

    def _start(self, urls: Iterable[str], limit: int, *, in_prompt: bool = True) -> None:
        for url in urls:
            address = canonical_url(url)
            if self._run.early_finish.is_due or self._reader is None:
                return
            if address not in self._tasks and len(self._tasks) - self._failed < limit:
                keeps_links = len(self._tasks) < self._keep_links_of
                self._add_task(url, self._read(self._reader, url, in_prompt=in_prompt, keeps_links=keeps_links))

    def _add_task(self, url: str, read: Coroutine[Any, Any, RankedPage | None]) -> None:
        address = canonical_url(url)
        self._began[address] = self._get_time()
        self._tasks[address] = asyncio.create_task(read, name=url)

    @stage("read")
    async def _read(self, reader: IPageReader, url: str, *, in_prompt: bool, keeps_links: bool) -> RankedPage | None:
        try:
            with keep_links() if keeps_links else nullcontext():
                page = await reader.read(url)
        except AppException as error:
            self._failed += 1
            self._emit(url, error.code)
            return None
        return await self._rank(url, page, in_prompt=in_prompt)

    async def _rank(self, url: str, page: Page, *, in_prompt: bool) -> RankedPage:
        question, language = self._run.request.query, self._run.language
        read = await run_in_thread_if_long(len(page.text), _rank_passages, page, question, language, in_prompt)
        self._emit(url, "read", len(page.text))
        return read

    def _emit(self, url: str, status: str, chars: int = 0) -> None:
        self._run.emit(Read(request_id=self._run.request_id, url=url, status=status, chars=chars))

    @staticmethod
    def _get_time() -> float:
        return asyncio.get_running_loop().time()


class SourcesBeingRead:
    """The numbered sources of an answer, while some of their pages are still being read.

    `store` is called again with all sources when more pages have been read.
    """

    def __init__(
        self, sources: tuple[Source, ...], reads: PageReads, store: Callable[[tuple[Source, ...]], Awaitable[None]]
    ) -> None:
        self._sources = self._stored = sources
        self._reads = reads
        self._store = store
        self._pages_added = 0

    def read_cited(self, cited: Collection[int]) -> None:
        """Begin to read the pages of those cited sources that have only the excerpt of a search engine."""
        self._reads.start_further(self._list_unread(cited))

    def list_being_read(self) -> frozenset[int]:
        """Return the numbers of the sources that have only an excerpt and whose pages are being read."""
        addresses = self._reads.list_being_read()
        snippets = (source for source in self._sources if addresses and source.text_kind == "snippet")
        return frozenset(source.index for source in snippets if canonical_url(source.url) in addresses)

    async def finish(self, cited: Collection[int]) -> None:
        """Wait for the pages of the cited sources while there is time. Store the sources again if pages came."""
        await self._reads.wait_for(self._list_unread(cited))
        await self.store(self.get_sources())

    async def store(self, sources: tuple[Source, ...]) -> None:
        """Store the sources again if they have new pages, so that the stored texts are those that the check compares."""
        if sources != self._stored:
            self._stored = sources
            await self._store(sources)

    def _list_unread(self, cited: Collection[int]) -> list[str]:
        return [source.url for source in self._sources if source.index in cited and source.text_kind == "snippet"]

    def get_sources(self) -> tuple[Source, ...]:
        """Return the sources with the pages read so far. Without a new page, the result is the same tuple as before."""
        pages = self._reads.get_pages()
        if len(pages) > self._pages_added:
            self._pages_added = len(pages)
            self._sources = tuple(add_page(source, pages.get(canonical_url(source.url))) for source in self._sources)
        return self._sources


def _make_result(title: str, url: str, page: Page) -> WebSearchResultItem:
    return WebSearchResultItem(
        title=title[:MAX_TITLE_CHARS],
        url=url,
        snippet=page.text[:EXCERPT_CHARS],
        published_date=page.published,
    )


def _rank_passages(page: Page, question: str, language: str, in_prompt: bool) -> RankedPage:
    """Return a page cut to MAX_STORED_TOKENS, with its passages ranked for the prompt.

    Passages are ranked as each page arrives, so that the prompt does not wait for the ranking of all pages.
    """
    size = count_tokens(page.text)
    if size > MAX_STORED_TOKENS:
        ranked = RankedPassages(page.text, question, language, size)
        text, pages = ranked.select_excerpt(MAX_STORED_TOKENS), ranked.find_page_starts(MAX_STORED_TOKENS, page.pages)
        page, size = page.model_copy(update={"text": text, "pages": pages}), count_tokens(text)
    return RankedPage(page, RankedPassages(page.text, question, language, size) if in_prompt else None)


def add_page(source: Source, read: RankedPage | None) -> Source:
    """Return the source with the text of its page, unless it has that already."""
    if read is None or source.text_kind != "snippet":
        return source
    page = read.page
    return source.model_copy(
        update={
            "text": page.text,
            "text_kind": "page",
            "published": choose_source_date(page.published, source.published),
            "extraction": page.extraction,
            "pages": page.pages,
            "read_at": page.read_at,
            "media_type": page.media_type,
        }
    )


def add_pages(
    sources: tuple[Source, ...], pages: Mapping[str, RankedPage]
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return the sources with the texts of their pages, and the parts of them that a writer reads.

    Sources with pages come first, and all are numbered from 1 again.
    """
    if not pages:
        return sources, sources
    page_of = {source.index: pages.get(canonical_url(source.url)) for source in sources}
    sizes = {source.index: count_tokens(source.text) for source in sources}
    more = int((OTHER_TOKENS + sum(sizes.values())) * PROMPT_GROWTH) // len(pages)
    read: list[tuple[Source, Source]] = []
    for number, source in enumerate(sorted(sources, key=lambda source: page_of[source.index] is None), 1):
        page = page_of[source.index]
        whole = short = add_page(source.model_copy(update={"index": number}), page)
        if page is not None and page.passages is not None:
            excerpt = page.passages.select_excerpt(sizes[source.index] + more)
            short = whole.model_copy(update={"text": excerpt})
        read.append((whole, short))
    return tuple(whole for whole, _ in read), tuple(short for _, short in read)
