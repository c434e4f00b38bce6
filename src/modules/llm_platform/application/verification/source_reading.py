"""Read the sources of a text: each address once, with limited concurrency, until a deadline."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.concurrency.page_allowance import MANY_OF_HOST, MAX_PAGES_PER_HOST
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.verification_dtos import SourceState, VerifiedSource
from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageNotFoundError,
    PageRequestError,
    PageTimeoutError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.text.page_starts import PageStarts
from modules.llm_platform.domain.urls.canonical_url import canonical_url, get_host, is_web_url
from shared.exceptions import AppException

MAX_CONCURRENT_READS: Final = 8  # pages of one text at once
MAX_PAGE_CHARS: Final = 200_000  # the rest of a longer page is not compared
NO_ADDRESS: Final = "The text names no web address for this source"
NO_ENTRY: Final = "The text cites this number and lists no source for it"
NOT_IN_TIME: Final = "The page was not read before the deadline"

# Most specific first.
STATES: Final[tuple[tuple[type[AppException], SourceState], ...]] = (
    (PageRequestError, "refused"),
    (PageConfigError, "refused"),
    (PageNotFoundError, "dead"),
    (PageTimeoutError, "late"),
    (PageBlockedError, "refused"),
    (PageConnectionError, "dead"),
)
OnRead = Callable[[str, str, int], None]  # called with the address, "read" or the code of the error, and the characters


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source after the attempt to read it.

    - `shown` is what the answer shows of the source.
    - `text` is empty if the source was not read.
    - `pages` says where the pages of a PDF begin in the text.
    - `is_whole` is True if the text is a whole page or document.
    """

    shown: VerifiedSource
    text: str = ""
    pages: PageStarts = ()
    is_whole: bool = False

    @property
    def index(self) -> int:
        return self.shown.index

    def make_source(self) -> Source:
        """Return the source as the citation checker takes it."""
        shown = self.shown
        return Source(
            index=shown.index,
            title=shown.title,
            url=shown.url or "",
            text=self.text,
            text_kind=shown.text_kind,
            published=shown.published,
            extraction=shown.extraction,
            pages=self.pages,
            is_whole=self.is_whole,
        )


async def read_sources(
    sources: Sequence[CitedSource], reader: IPageReader, until: float, on_read: OnRead
) -> AsyncGenerator[list[ReadSource], None]:
    """Yield the sources as they are read. Sources with the same address come together. `until` is event loop time."""
    by_address: dict[str, list[CitedSource]] = {}
    pages_of_host: Counter[str] = Counter()
    settled = []
    for source in sources:
        key = canonical_url(source.url) if source.url else ""
        if source.text:
            settled.append(_take_given(source))
        elif not key:
            settled.append(_report_unread(source, "no_text", NO_ADDRESS if source.is_listed else NO_ENTRY))
        elif key in by_address:
            by_address[key].append(source)
        elif pages_of_host[get_host(source.url)] >= MAX_PAGES_PER_HOST:
            settled.append(_report_unread(source, "refused", MANY_OF_HOST))
        else:
            pages_of_host[get_host(source.url)] += 1
            by_address[key] = [source]
    if settled:
        yield settled
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_READS)
    tasks = [asyncio.create_task(_read(group, reader, until, semaphore, on_read)) for group in by_address.values()]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        await cancel_and_wait(*tasks)


async def _read(
    group: Sequence[CitedSource], reader: IPageReader, until: float, semaphore: asyncio.Semaphore, on_read: OnRead
) -> list[ReadSource]:
    """Read the page of sources with the same address."""
    url = group[0].url
    try:
        async with deadline_at(until), semaphore:
            page = await reader.read(url)
    except TimeoutError:
        on_read(url, PageTimeoutError.code, 0)
        return [_report_unread(source, "late", NOT_IN_TIME) for source in group]
    except AppException as error:
        on_read(url, error.code, 0)
        states: list[SourceState] = [state for kind, state in STATES if isinstance(error, kind)]
        return [_report_unread(source, (*states, "no_text")[0], error.message) for source in group]
    on_read(url, "read", len(page.text))
    return [
        ReadSource(
            VerifiedSource(
                index=source.index,
                url=source.url,
                title=source.title or page.title,
                state="read",
                text_kind="page" if is_web_url(url) else "document",
                published=page.published,
                extraction=page.extraction,
                pages=len(page.pages) or None,
            ),
            page.text[:MAX_PAGE_CHARS],
            page.pages,
            is_whole=len(page.text) <= MAX_PAGE_CHARS,
        )
        for source in group
    ]


def _take_given(source: CitedSource) -> ReadSource:
    shown = VerifiedSource(
        index=source.index,
        url=source.url or None,
        title=source.title,
        state="read",
        text_kind="document",
        pages=len(source.pages) or None,
    )
    return ReadSource(shown, source.text, source.pages, is_whole=source.is_whole)


def _report_unread(source: CitedSource, state: SourceState, reason: str) -> ReadSource:
    return ReadSource(
        VerifiedSource(index=source.index, url=source.url or None, title=source.title, state=state, reason=reason)
    )


def mark_found(source: ReadSource) -> ReadSource:
    """Return a source that a search found."""
    return replace(source, shown=source.shown.model_copy(update={"is_found": True}))
