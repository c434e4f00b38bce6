"""Read the best pages of a search before a quick or deep answer is written, so that it cites what was read.

Reading begins with the first results, takes a bounded time, and never fails an answer: what was not read in time stays the
excerpt of the search engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.events import Read
from modules.llm_platform.domain.canonical_url import canonical_url, is_web_url
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.retrieval.excerpt import fitting_excerpt
from modules.llm_platform.domain.task_group import cancel_and_wait
from modules.llm_platform.domain.text.tokens import count_tokens
from shared.exceptions import AppException

READ_SHARE = 0.1  # of the time of a research, at most
PAGES = {"shallow": 3, "deep": 5}
READ_S = {"shallow": 1.2, "deep": 2.5}
MAX_STORED_TOKENS = 5000  # of a page: about twenty thousand characters are stored, sent in raw_results and compared
PROMPT_GROWTH = 0.5  # a prompt with pages is at most longer by this share than one with the search engine's excerpts
OTHER_TOKENS = 300  # of a prompt, beside the sources
INLINE_CHARS = 30_000  # of all pages together; longer ones are searched for passages in a thread


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Settings: pages and seconds; None for the default of each depth."""

    pages: int | None = None
    seconds: float | None = None

    def page_limit(self, context: ResearchContext) -> int:
        """How many pages this research may read."""
        for wish in (context.request.pages, self.pages):
            if wish is not None:
                return wish
        return PAGES.get(context.request.depth, 0)

    def seconds_for(self, context: ResearchContext, timeout_s: float) -> float:
        seconds = READ_S.get(context.request.depth, 0.0) if self.seconds is None else self.seconds
        return min(seconds, timeout_s * READ_SHARE)


DEFAULT_READING = ReadOptions()


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """How many pages were read, could not be read, and were not read in time."""

    read: int = 0
    failed: int = 0
    late: int = 0


NOTHING_READ = ReadCounts()


class PageReads:
    """The reads of one research. A context manager: what is still being read at its end is cancelled."""

    def __init__(self, reader: IPageReader | None, context: ResearchContext, limit: int) -> None:
        self._reader = reader
        self._context = context
        self.limit = limit if reader is not None else 0
        self._preparing: asyncio.Task[None] | None = None
        self._tasks: dict[str, asyncio.Task[Page | None]] = {}
        self._failed = 0
        self.counts = NOTHING_READ

    async def __aenter__(self) -> PageReads:
        if self._reader is not None and self.limit:
            self._preparing = asyncio.create_task(self._reader.prepare())  # beside the search
        return self

    async def __aexit__(self, *exc: object) -> None:
        await cancel_and_wait(*self._tasks.values(), *([self._preparing] if self._preparing else []))

    def start(self, urls: Iterable[str], count: int) -> None:
        """Begin to read the first `count` of these addresses, as far as the limit of the research allows."""
        for url in [url for url in urls if is_web_url(url)][: max(0, count)]:
            if len(self._tasks) - self._failed < self.limit:
                self._task(url)

    async def collect(self, urls: Sequence[str], seconds: float) -> Mapping[str, Page]:
        """The pages that are read within `seconds`, by canonical address. The next best replaces one that cannot be read."""
        until = asyncio.get_running_loop().time() + seconds
        while self.limit:
            self.start((url for url in urls if canonical_url(url) not in self._tasks), len(urls))
            running = [task for task in self._tasks.values() if not task.done()]
            left = until - asyncio.get_running_loop().time()
            if not running or left <= 0:
                break
            await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        wanted = {canonical_url(url) for url in urls}
        pages: dict[str, Page] = {}
        late = 0
        for address, task in self._tasks.items():
            if not task.done():
                late += 1
                self._emit(task.get_name(), ResearchTimeoutError.code)
                task.cancel()
            elif (page := task.result()) is not None and address in wanted:
                pages[address] = page
        self.counts = ReadCounts(len(pages), self._failed, late)
        return pages

    def _task(self, url: str) -> None:
        address = canonical_url(url)
        if address not in self._tasks:
            self._tasks[address] = asyncio.create_task(self._read(url), name=url)

    @stage("read")
    async def _read(self, url: str) -> Page | None:
        if self._reader is None:
            return None
        try:
            page = await self._reader.read(url)
        except AppException as error:
            self._failed += 1
            self._emit(url, error.code)
            return None
        self._emit(url, "read", len(page.text))
        return page

    def _emit(self, url: str, status: str, chars: int = 0) -> None:
        self._context.emit(Read(request_id=self._context.request_id, url=url, status=status, chars=chars))


async def with_pages(
    sources: tuple[Source, ...], pages: Mapping[str, Page], question: str, language: str
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """The sources with the texts of their pages, those first, and what a writer reads of them. Numbered anew."""
    if not pages:
        return sources, sources
    if sum(len(page.text) for page in pages.values()) <= INLINE_CHARS:
        return _with_pages(sources, pages, question, language)
    return await asyncio.to_thread(_with_pages, sources, pages, question, language)


def _with_pages(
    sources: Sequence[Source], pages: Mapping[str, Page], question: str, language: str
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    page_of = {source.index: pages.get(canonical_url(source.url)) for source in sources}
    sizes = {source.index: count_tokens(source.text) for source in sources}
    more = int((OTHER_TOKENS + sum(sizes.values())) * PROMPT_GROWTH) // len(pages)
    read: list[tuple[Source, Source]] = []
    for number, source in enumerate(sorted(sources, key=lambda each: page_of[each.index] is None), 1):
        page = page_of[source.index]
        whole = short = source.model_copy(update={"index": number})
        if page is not None:
            text = fitting_excerpt(page.text, question, MAX_STORED_TOKENS, language)
            published = source.published or page.published
            whole = whole.model_copy(update={"text": text, "text_kind": "page", "published": published})
            excerpt = fitting_excerpt(text, question, sizes[source.index] + more, language)
            short = whole.model_copy(update={"text": excerpt})
        read.append((whole, short))
    return tuple(whole for whole, _ in read), tuple(short for _, short in read)
