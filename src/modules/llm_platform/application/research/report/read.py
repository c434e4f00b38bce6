"""Read the pages of the best results, and summarize each as soon as it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.events import Read, Summarized
from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.report.summarize import SUMMARY_MAX_TOKENS, SUMMARY_VERSION, summarize
from modules.llm_platform.domain.concurrency.deadline import Deadline, set_deadline
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import Summary
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.page_links import keep_links
from modules.llm_platform.domain.urls.canonical_url import canonical_url, get_host
from shared.exceptions import AppException

READ_VERSION = "3"  # part of the keys of stored pages: raise it when they change
CONCURRENT_READS = 8  # a page may take megabytes of memory while it is converted
READ_TIMEOUT = "timeout: the page was not read in the time for reading"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """An address to read, and the sub-question that it may answer.

    `score` belongs to the search result. It is None if no search found the address.
    """

    url: str
    title: str
    question: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page and the request that it answers."""

    request: PageRequest
    page: Page

    @property
    def is_document(self) -> bool:
        """True if it is one of the operator's own files."""
        return self.page.reader == DOCUMENTS


class ReadScheduler:
    """Reads pages, each address once, and summarizes each page as soon as it is read.

    Use it as a context manager. At the end of the block, running reads and summaries are cancelled.
    """

    def __init__(self, run: ReportRun) -> None:
        self._run = run
        self._slots = asyncio.Semaphore(CONCURRENT_READS)
        self._reads: dict[str, asyncio.Task[Page | None]] = {}
        self._summaries: dict[str, asyncio.Task[Summary]] = {}
        self.failure: AppException = run.make_timeout_error()  # why the last unreadable page failed

    async def __aenter__(self) -> ReadScheduler:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await cancel_and_wait(*self._reads.values(), *self._summaries.values())  # their errors were reported before

    def start(self, request: PageRequest) -> asyncio.Task[Page | None]:
        """Start reading this address, unless it is being read already."""
        address = canonical_url(request.url)
        if address not in self._reads:
            self._reads[address] = asyncio.create_task(self._read(request.url))
        return self._reads[address]

    async def collect(self, requests: Sequence[PageRequest], count: int) -> list[ReadPage]:
        """Return up to `count` pages in the order of the requests.

        The next request replaces one whose page cannot be read or has the same text as another page. Reads that are still
        running when the phase ends are cancelled.
        """
        until = self._run.budget.compute_phase_end("read")
        remaining = iter(enumerate(requests))
        running: dict[asyncio.Task[Page | None], int] = {}
        pages: dict[int, ReadPage] = {}
        seen: set[str] = set()
        while True:
            while len(pages) + len(running) < count and (following := next(remaining, None)):
                running[self.start(following[1])] = following[0]
            if not running:
                break
            left = max(0.0, until - asyncio.get_running_loop().time())
            done, _ = await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            for task in done:
                position = running.pop(task)
                if (page := task.result()) and page.sha256 not in seen:
                    seen.add(page.sha256)
                    pages[position] = ReadPage(requests[position], page)
                    self._start_summary(page, requests[position].url)
        self._cancel_late([requests[position] for position in running.values()])
        return [pages[position] for position in sorted(pages)]

    def _start_summary(self, page: Page, requested_url: str) -> None:
        """Start to summarize the page, unless this has begun before or the caller has asked for the text."""
        if page.url not in self._summaries and not self._run.early_finish.is_due:
            self._summaries[page.url] = asyncio.create_task(self._summarize_page(page, requested_url))

    async def collect_summaries(self, deadline: float) -> dict[str, Summary]:
        """Return the summaries by address. Waits until all are ready, until `deadline` (event loop time) or an early finish."""
        if self._summaries:
            await self._run.early_finish.wait(self._summaries.values(), deadline)
        return {url: task.result() for url, task in self._summaries.items() if task.done()}

    def _cancel_late(self, late: Sequence[PageRequest]) -> None:
        for task in self._reads.values():
            task.cancel()
        for request in late:
            self._run.reads["late"] += 1
            self._run.add_degraded(Degraded(component=_name_component(request.url), reason=READ_TIMEOUT))
            self._run.emit(
                Read(request_id=self._run.request_id, url=request.url, status=ResearchTimeoutError.code, chars=0)
            )

    @stage("read")
    async def _read(self, url: str) -> Page | None:
        """Return the page, from the checkpoints if it was read before; None if it cannot be read."""
        run = self._run
        set_deadline(Deadline(run.budget.compute_phase_end("read")))  # `collect` cancels at this time
        key = run.checkpoints.make_key(READ_VERSION, run.tools.get_label("read"), url=url)
        page, status = await run.checkpoints.get("docs", key, Page), "stored"
        if page is None:
            page, status = await self._call_reader(url), "read"
            if page is None:
                return None
            if page.reader != DOCUMENTS:
                await run.checkpoints.put("docs", key, page)
        run.early_finish.found()
        run.reads["read"] += page.reader != DOCUMENTS
        run.emit(Read(request_id=run.request_id, url=url, status=status, chars=len(page.text)))
        return page

    async def _call_reader(self, url: str) -> Page | None:
        """Return the page; None, with a reason in `degraded`, if the reader fails, and None at an early finish."""
        run = self._run
        try:
            async with run.early_finish.limit(), self._slots:
                with keep_links():
                    return await run.tools.pages.read(url)
        except TimeoutError:  # the caller asked for the text
            run.reads["late"] += 1
        except AppException as error:
            self.failure = error
            run.reads["failed"] += 1
            run.add_degraded(Degraded.of(_name_component(url), error))
            run.emit(Read(request_id=run.request_id, url=url, status=error.code, chars=0))
        return None

    async def _summarize_page(self, page: Page, requested_url: str) -> Summary:
        run = self._run
        key = run.make_stage_key(
            "summarize", SUMMARY_VERSION, query=run.request.query, url=page.url, sha256=page.sha256
        )
        summary = await run.checkpoints.get("summaries", key, Summary)
        if summary is None:
            summary, degraded = await summarize(
                page,
                run.request.query,
                run.language,
                run.get_llm("summarize"),
                context_tokens=run.compute_context_tokens("summarize", SUMMARY_MAX_TOKENS),
            )
            if run.record_stage("summarize", degraded):
                await run.checkpoints.put("summaries", key, summary.model_copy(update={"degraded": degraded}))
        else:
            run.add_degraded(*summary.degraded)
        run.emit(Summarized(request_id=run.request_id, url=requested_url))
        return summary


def _name_component(url: str) -> str:
    """Return the component for `degraded`: `read/` and the host, or the kind of an address without a host."""
    return f"read/{get_host(url) or (DOCUMENTS if url.startswith('doc:') else 'address')}"
