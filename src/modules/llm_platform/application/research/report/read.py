"""Open the pages behind the best results (requirement MS4), and have each summarised as soon as it is there (§5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from modules.llm_platform.application.research.events import Read, Summarized
from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.report.summarize import SUMMARY_MAX_TOKENS, SUMMARY_VERSION, summarize
from modules.llm_platform.domain.canonical_url import canonical_url, host_of
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import Summary
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from shared.exceptions import AppException

READ_VERSION = "1"  # of what is kept of a page
READS_AT_ONCE = 8  # a page may take megabytes until it is text
DOCUMENTS = "documents"  # the reader of one's own files, which are not kept: they may change at any time
LATE = "timeout: the page was not there before the time for reading was over"


@dataclass(frozen=True, slots=True)
class WantedPage:
    """An address to read, the score of its result (None: the person gave it), and the sub-question it shall answer."""

    url: str
    title: str
    question: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class OpenPage:
    """A page that was read, and what it was wanted for."""

    wanted: WantedPage
    page: Page

    @property
    def is_document(self) -> bool:
        """Whether it is one of the operator's own files, whatever its address looks like."""
        return self.page.reader == DOCUMENTS


class ReadScheduler:
    """Reads each address once, and stands the next best in for one that cannot be read. Use as a context manager: what is
    still under way at its end is stopped.
    """

    def __init__(self, run: ReportRun) -> None:
        self._run = run
        self._at_once = asyncio.Semaphore(READS_AT_ONCE)
        self._reads: dict[str, asyncio.Task[Page | None]] = {}
        self._summaries: dict[str, asyncio.Task[Summary]] = {}
        self.failure: AppException = ResearchTimeoutError()  # why the last page that could not be read could not

    async def __aenter__(self) -> ReadScheduler:
        return self

    async def __aexit__(self, *exc: object) -> None:
        tasks = [*self._reads.values(), *self._summaries.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)  # whoever wanted their errors has them

    def begin(self, wanted: WantedPage) -> asyncio.Task[Page | None]:
        """Read this address, unless that is being done already."""
        address = canonical_url(wanted.url)
        if address not in self._reads:
            self._reads[address] = asyncio.create_task(self._read(wanted.url))
        return self._reads[address]

    async def collect(self, order: Sequence[WantedPage], count: int) -> list[OpenPage]:
        """Up to `count` pages in this order, the next best for each that cannot be read or holds what another holds.

        What is still being read then is not needed any more, and stops.
        """
        until = self._run.budget.until("read")
        waiting = iter(enumerate(order))
        under_way: dict[asyncio.Task[Page | None], int] = {}
        opened: dict[int, OpenPage] = {}
        seen: set[str] = set()
        while True:
            while len(opened) + len(under_way) < count and (following := next(waiting, None)):
                under_way[self.begin(following[1])] = following[0]
            if not under_way:
                break
            left = max(0.0, until - asyncio.get_running_loop().time())
            done, _ = await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            for task in done:
                place = under_way.pop(task)
                if (page := task.result()) and page.sha256 not in seen:
                    seen.add(page.sha256)
                    opened[place] = OpenPage(order[place], page)
                    self._summarise(opened[place])
        self._give_up([order[place] for place in under_way.values()])
        return [opened[place] for place in sorted(opened)]

    async def summaries(self, deadline: float) -> dict[str, Summary]:
        """The summaries by address, as far as they are there at `deadline` (event loop time)."""
        if self._summaries:
            timeout = max(0.0, deadline - asyncio.get_running_loop().time())
            await asyncio.wait(self._summaries.values(), timeout=timeout)
        return {url: task.result() for url, task in self._summaries.items() if task.done()}

    def _give_up(self, late: Sequence[WantedPage]) -> None:
        for task in self._reads.values():
            task.cancel()
        for wanted in late:
            self._run.note(Degraded(component=_component(wanted.url), reason=LATE))
            self._run.tell(
                Read(request_id=self._run.request_id, url=wanted.url, status=ResearchTimeoutError.code, chars=0)
            )

    async def _read(self, url: str) -> Page | None:
        run = self._run
        key = run.shelf.key(READ_VERSION, run.tools.label("read"), url=url)
        page = await run.shelf.get("docs", key, Page)
        status = "stored" if page else "read"
        if page is None:
            try:
                async with self._at_once:
                    page = await run.tools.pages.read(url)
            except AppException as error:
                self.failure = error
                run.note(Degraded.of(_component(url), error))
                run.tell(Read(request_id=run.request_id, url=url, status=error.code, chars=0))
                return None
            if page.reader != DOCUMENTS:
                await run.shelf.put("docs", key, page)
        run.tell(Read(request_id=run.request_id, url=url, status=status, chars=len(page.text)))
        return page

    def _summarise(self, opened: OpenPage) -> None:
        if opened.page.url not in self._summaries:
            self._summaries[opened.page.url] = asyncio.create_task(self._summary(opened.page, opened.wanted.url))

    async def _summary(self, page: Page, wanted_url: str) -> Summary:
        run = self._run
        key = run.stage_key("summarize", SUMMARY_VERSION, query=run.request.query, url=page.url, sha256=page.sha256)
        summary = await run.shelf.get("summaries", key, Summary)
        if summary is None:
            summary, degraded = await summarize(
                page, run.request.query, run.language, run.llm("summarize"),
                context_tokens=run.context_tokens("summarize", SUMMARY_MAX_TOKENS),
            )  # fmt: skip
            if run.note_stage("summarize", degraded):
                await run.shelf.put("summaries", key, summary)
        run.tell(Summarized(request_id=run.request_id, url=wanted_url))
        return summary


def _component(url: str) -> str:
    """Who could not be read; a document has no host."""
    return f"read/{host_of(url) or (DOCUMENTS if url.startswith('doc:') else 'address')}"
