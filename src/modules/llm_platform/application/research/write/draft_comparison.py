"""Compare the sentences of an answer with its sources while the text is still written and pages are still read.

Most of the work is done before the last word, also for a reader who waits for the whole text.
"""

import asyncio
from collections.abc import Collection, Iterable

from modules.llm_platform.application.research.check.early_judging import EarlyJudging
from modules.llm_platform.application.research.check.support_reader import SupportReader
from modules.llm_platform.application.research.find.found import FoundSources, Writers
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.markdown.markers import render_markers

PREPARED_IN_THREAD_CHARS = 150_000  # preparing this much takes about 15 ms; more is prepared in a thread


class DraftComparison:
    """One checker for a whole draft, with the models that decide what it leaves undecided.

    - `sources` get the text of their pages when these are read.
    - `early` asks the judge while the model writes; None if the judge is asked after the last word, or never.

    Long sources are prepared for the checker in a thread while the writer starts. `aclose` cancels the calls of the judge and
    the support model that still run.
    """

    def __init__(self, run: Run, found: FoundSources, writers: Writers) -> None:
        self.sources = found.sources
        self.checker = CitationChecker(self.sources, run.language)
        self.early = _make_early_judging(writers)
        self._run, self._pages = run, found.pages_being_read
        self._unchecked: list[AnswerSentence] = []
        model = writers.support_model
        self._support = SupportReader(model, self.checker) if model is not None else None
        self._is_judged = writers.judge_task is not None
        is_long = sum(len(source.text) for source in self.sources) > PREPARED_IN_THREAD_CHARS
        loop = asyncio.get_running_loop()
        self._preparing = loop.run_in_executor(None, self.checker.prepare) if is_long else None

    async def aclose(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()  # nobody waits for it after the run was cancelled
        if self._support is not None:
            await self._support.aclose()
        if self.early is not None:
            await self.early.aclose()

    @property
    def is_preparing(self) -> bool:
        return self._preparing is not None and not self._preparing.done()

    @property
    def reads_undecided(self) -> bool:
        """True if the support model decides what the word comparison leaves undecided. If there is a judge, the judge does."""
        return self._support is not None and not self._is_judged

    @property
    def degraded(self) -> tuple[Degraded, ...]:
        """What the support model did not read."""
        return self._support.degraded if self._support is not None else ()

    async def update_sources(self) -> None:
        """Replace the excerpts of sources by the pages that have been read by now. Later checks use the pages."""
        if self._preparing is not None:  # the thread still reads the old sources
            await asyncio.shield(self._preparing)  # a deadline ends the wait, not the preparation
        if self._pages is None:
            return
        before, self.sources = self.sources, self._pages.get_sources()
        if before is not self.sources:
            for old, new in zip(before, self.sources, strict=True):
                if old is not new:
                    self.checker.replace_source(new)

    def follow(self, part: str, ended: Iterable[AnswerSentence]) -> None:
        """Take the next part of the text, and check the sentences that have ended and whose pages are not being read."""
        self._unchecked += ended
        if self._pages is None:
            self.check_early()
        else:
            self._pages.read_cited(_list_cited_numbers(part))
            self.check_early(self._pages.list_being_read())

    def check_early(self, awaited: frozenset[int] = frozenset()) -> None:
        """Check the finished sentences, and let the judge and the support model begin with the doubted ones.

        Sentences that cite one of the `awaited` sources are checked later, because their pages are still being read.
        """
        ready = [sentence for sentence in self._unchecked if awaited.isdisjoint(sentence.cited)]
        self._unchecked = [sentence for sentence in self._unchecked if not awaited.isdisjoint(sentence.cited)]
        checked = self.checker.check_early(ready)
        if self.early is not None:
            self.early.add(checked)
        if self._support is not None and self.reads_undecided:
            self._support.begin()

    async def wait_for_pages(self, text: str) -> None:
        """Wait for the pages that the finished text cites."""
        if self._pages is not None:
            await self._pages.finish(_list_cited_numbers(text))
            await self.update_sources()

    async def check(self, text: str, added: Collection[int]) -> CheckedAnswer:
        """Check a finished text. `added` are the offsets of the markers that the platform added."""
        checked = await self._compare(text, added)
        if self.reads_undecided and await self._finish_support():
            checked = await self._compare(text, added)
        return checked

    async def read_unjudged(
        self, text: str, added: Collection[int], citations: tuple[Citation, ...]
    ) -> tuple[Citation, ...]:
        """After the judge failed, let the support model decide the citations that the judge left without a verdict."""
        if not await self._finish_support():
            return citations
        read = {_locate(citation): citation for citation in (await self._compare(text, added)).citations}
        return tuple(
            read.get(_locate(citation), citation) if citation.checked_by == "words" else citation
            for citation in citations
        )

    def discard(self) -> None:
        """Forget the sentences so far, because their text was discarded."""
        self._unchecked.clear()
        self.checker.undecided.clear()
        if self.early is not None:
            self.early.discard()

    async def _finish_support(self) -> bool:
        """Let the support model read what is undecided. Return whether a verdict may have changed since the last check."""
        return self._support is not None and await self._support.finish(self._run.deadline)

    async def _compare(self, text: str, added: Collection[int]) -> CheckedAnswer:
        """Check the text by the word comparison. Verdicts that the support model has given so far replace lexical verdicts."""
        if self._preparing is None:
            return self.checker.check(text, added)
        await self.update_sources()
        if self._pages is not None:
            await self._pages.store(self.sources)
        if self._support is not None:
            await self._support.settle()  # nothing else may use the checker while the thread does
        return await asyncio.to_thread(self.checker.check, text, added)


def _make_early_judging(writers: Writers) -> EarlyJudging | None:
    """Return how the judge is asked while the model writes, where the reader does not wait for it afterwards."""
    judge_task = writers.judge_task
    if judge_task is None or judge_task.max_wait_share is None or writers.writer is writers.fallback:
        return None
    return EarlyJudging(judge_task)


def _locate(citation: Citation) -> tuple[int, int, int]:
    return citation.start, citation.end, citation.source_index


def _list_cited_numbers(text: str) -> set[int]:
    """Return the numbers in the markers of a sanitised text."""
    return {number for _, _, number in render_markers(text)}
