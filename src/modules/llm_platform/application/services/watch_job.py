"""Run a watched question as a background run. It first reads the pages of the earlier runs again, without a cache.

The `output` of its answer is the reading: the facts of its ledger, and the texts of their pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from modules.llm_platform.application.research.events import Done, Read, ResearchEvent, Started
from modules.llm_platform.application.research.run import GivenPages, StoreSources
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.domain.concurrency.page_allowance import page_allowance
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_job_dtos import WATCH, ClaimedJob
from modules.llm_platform.domain.dtos.sent import Sent, merge_sent
from modules.llm_platform.domain.dtos.source_dtos import Source, TextKind
from modules.llm_platform.domain.dtos.watch_dtos import MAX_REREAD_PAGES, LedgerFact, WatchedPages, WatchReading
from modules.llm_platform.domain.exceptions import PageTimeoutError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.privacy.egress_log import open_egress_log
from modules.llm_platform.domain.search.fresh_searches import search_afresh
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_web_url
from modules.llm_platform.domain.watches.ledger_facts import read_facts
from modules.llm_platform.domain.watches.page_versions import PageVersion
from shared.exceptions import AppException

CONCURRENT_READS: Final = 5
READ_S: Final = 60.0  # limit for all pages of one step
MAX_WATCHED_CHARS: Final = 50_000  # of each page that is compared


@dataclass(frozen=True, slots=True)
class PagesRead:
    """The pages that were read, and the errors of the other pages, by requested address."""

    pages: Mapping[str, Page]
    errors: Mapping[str, AppException]
    sent_to: tuple[Sent, ...] = ()

    def __add__(self, other: PagesRead) -> PagesRead:
        return PagesRead(
            {**self.pages, **other.pages}, {**self.errors, **other.errors}, (*self.sent_to, *other.sent_to)
        )


class WatchRunner:
    """Carries out background runs of watched questions.

    - `fresh_reader` reads pages and documents as they are now. It has no cache.
    - `cached_reader` reads the pages that the run itself has read a moment ago. It may have a cache.
    """

    def __init__(
        self,
        research: ResearchService,
        fresh_reader: IPageReader,
        cached_reader: IPageReader,
    ) -> None:
        self._research = research
        self._fresh_reader = fresh_reader
        self._cached_reader = cached_reader

    async def stream(self, job: ClaimedJob, store_sources: StoreSources) -> AsyncGenerator[ResearchEvent, None]:
        """Yield the events of the research run, whose searches are fresh. It must have a task of its own.

        If the run may use only the pages of the watch and none can be read, raises the error of the first page.
        """
        if not job.last_event:  # an attempt that continues finds what the last one paid for in the caches
            search_afresh()
        first, sources = WatchedPages.model_validate(job.client_request[WATCH]), tuple[Source, ...]()

        async def keep(found: tuple[Source, ...]) -> None:
            nonlocal sources
            sources = found
            await store_sources(found)

        # A report reads `urls` of its request itself, with the readers of reports.
        is_report = job.request.depth == "report"
        read = await _read_pages(self._fresh_reader, () if is_report else first.urls)
        if first.are_all and read.errors and not read.pages:
            raise next(iter(read.errors.values()))
        given = None if is_report else GivenPages(read.pages, first.are_all)
        research = self._research.stream(
            job.request, request_id=job.id, owner=job.owner, store_sources=keep, given=given
        )
        async with aclosing(research) as events:
            async for event in events:
                if isinstance(event, Done):
                    response = await self._add_reading(event.response, sources, read, reads_more=not is_report)
                    event = event.model_copy(update={"response": response})
                yield event
                if isinstance(event, Started):
                    for url, error in read.errors.items():
                        yield Read(request_id=job.id, url=url, status=error.code, chars=0)

    async def _add_reading(
        self, response: ResearchResponse, sources: tuple[Source, ...], read: PagesRead, *, reads_more: bool
    ) -> ResearchResponse:
        """Return the answer with its reading. A fact that its page does not have in full is left out."""
        language = response.metadata.language
        facts = read_facts(response.evidence, response.citations, sources, language)
        if reads_more:
            known = set(map(canonical_url, read.pages))
            unread = [url for url in dict.fromkeys(fact.url for fact in facts) if canonical_url(url) not in known]
            read += await _read_pages(self._cached_reader, unread[:MAX_REREAD_PAGES])
        reading = WatchReading(
            at=datetime.now(UTC), language=language, facts=facts, sources=tuple(_list_texts(sources, facts, read.pages))
        )
        reading = await asyncio.to_thread(_drop_ungrounded_facts, reading)
        sent_to = merge_sent((*read.sent_to, *response.metadata.sent_to))
        metadata = response.metadata.model_copy(update={"sent_to": sent_to})
        return response.model_copy(update={"output": reading.model_dump(mode="json"), "metadata": metadata})


def _list_texts(sources: Iterable[Source], facts: Iterable[LedgerFact], read: Mapping[str, Page]) -> Iterable[Source]:
    """Return the pages in `read`, cut to MAX_WATCHED_CHARS, and the other sources that have facts or are pages."""
    texts = {canonical_url(url): _make_source(url, page) for url, page in read.items()}
    quoted = {canonical_url(fact.url) for fact in facts}
    for source in sources:
        address = canonical_url(source.url)
        if address in quoted or source.text_kind == "page":
            texts.setdefault(address, source)
    return texts.values()


def _make_source(url: str, page: Page) -> Source:
    kind: TextKind = "page" if is_web_url(url) else "document"
    return Source(
        index=0,
        title=page.title,
        url=url,
        text=page.text[:MAX_WATCHED_CHARS],
        published=page.published,
        text_kind=kind,
        read_at=page.read_at,
    )


def _drop_ungrounded_facts(reading: WatchReading) -> WatchReading:
    """Return the reading without facts that the text of their page lacks, because a later run could not find them there."""
    pages = {
        canonical_url(source.url): PageVersion(source, source.read_at or reading.at, reading.language)
        for source in reading.sources
    }

    def is_grounded(fact: LedgerFact) -> bool:
        page = pages.get(canonical_url(fact.url))
        return page is not None and page.has(page.read_claim(fact.quote))

    return reading.model_copy(update={"facts": tuple(filter(is_grounded, reading.facts))})


async def _read_pages(reader: IPageReader, urls: Iterable[str]) -> PagesRead:
    """Read the pages within READ_S seconds in total. Each page counts toward the rate limit of the caller."""
    slots = asyncio.Semaphore(CONCURRENT_READS)

    async def read(url: str) -> Page | AppException:
        async with slots:
            try:
                async with asyncio.timeout_at(until):
                    return await reader.read(url)
            except TimeoutError:
                return PageTimeoutError()
            except AppException as error:
                return error

    until, asked = asyncio.get_running_loop().time() + READ_S, tuple(dict.fromkeys(urls))
    with open_egress_log() as egress_log, page_allowance():
        async with asyncio.TaskGroup() as group:
            tasks = {url: group.create_task(read(url)) for url in asked}
    results = {url: task.result() for url, task in tasks.items()}
    pages = {url: result for url, result in results.items() if isinstance(result, Page)}
    errors = {url: result for url, result in results.items() if isinstance(result, AppException)}
    return PagesRead(pages, errors, egress_log.sent())
