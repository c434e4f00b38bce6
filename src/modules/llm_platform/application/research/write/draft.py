"""The text of an answer while it is written: it is sanitised, gets its missing markers, and is checked.

Most of this happens while the model is still writing, also for a reader who waits for the whole text.
"""

import asyncio
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Self

from cachetools import LRUCache

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.check.early_verification import EarlyVerification
from modules.llm_platform.application.research.check.support_reading import SupportReading
from modules.llm_platform.application.research.find.found import Found, Writers
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.forms.completion import MarkerCompleter
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.sentences import ends_sentence, split_sentences

PREPARED_IN_THREAD_CHARS = 150_000  # preparing this much takes about 15 ms; more is prepared in a thread
REMEMBERED_ANSWERS = 64  # complete texts with their sources: about 0.1 MB each, 20 MB at most


@dataclass(frozen=True, slots=True)
class _CheckedText:
    """A finished text and its citations.

    - `added` are the offsets of the markers that the platform added.
    - `sources` are the sources that the text was checked against.
    """

    text: str
    added: tuple[int, ...]
    sources: tuple[Source, ...]
    checked: CheckedAnswer


# A cached answer is often the same text again, and checking it took two thirds of a request's CPU time.
_REMEMBERED: LRUCache[Hashable, _CheckedText] = LRUCache(REMEMBERED_ANSWERS)


class Draft:
    """The answer of a run while it is written, checked and judged. A reset discards the text.

    `write` and `check` in `writing.py` fill it in. It is a context manager: at its end, calls of the judge and the support
    model that still run are cancelled.

    - `sources` get the text of their pages when these are read while the answer is written.
    - `lacks_markers` is True if the writer may have left markers out, so that the platform adds them.
    - `synthesis` is the text of the writer, set by `write`.
    - `checked` has the citations with their verdicts, set by `check`.
    - `spent` counts the writers and the judge, and `degraded` says what failed.

    A caller that streams gets each part of the text when it is written. Other callers get the whole text at the end. Long
    sources are prepared for the checker in a thread while the writer starts. A text that was checked before with the same
    sources is neither sanitised nor checked again.
    """

    synthesis: Synthesis
    checked: CheckedAnswer

    def __init__(self, run: Run, found: Found, writers: Writers) -> None:
        self.run, self.found, self.writers = run, found, writers
        self.sources = found.sources
        self.spent = NOTHING_SPENT
        self.degraded: tuple[Degraded, ...] = ()
        self.lacks_markers = True
        self.early: EarlyVerification | None = None
        verification = writers.verification
        if verification and verification.max_wait_share is not None and writers.writer is not writers.fallback:
            # The judge is asked while the model writes, because the reader does not wait for it afterwards.
            self.early = EarlyVerification(verification)
        self._checker = CitationChecker(self.sources, run.language)
        model = writers.support_model
        self._support = SupportReading(model, self._checker) if model is not None else None
        self._is_judged = verification is not None  # the judge decides the same doubts
        self._is_long = sum(len(source.text) for source in self.sources) > PREPARED_IN_THREAD_CHARS
        loop = asyncio.get_running_loop()
        self._preparing = loop.run_in_executor(None, self._checker.prepare) if self._is_long else None
        self._begin()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._preparing is not None:
            self._preparing.cancel()  # nobody waits for it after the run was cancelled
        if self._support is not None:
            await self._support.aclose()
        if self.early is not None:
            await self.early.aclose()

    def _begin(self) -> None:
        self._sanitizer = AnswerSanitizer(self.sources)
        self._completer = MarkerCompleter(self._checker, self.run.language)
        self._unchecked: list[AnswerSentence] = []
        self._written: list[str] = []  # parts of the text that the writer has sent
        self._waiting = (
            ""  # held back: the first part if it may be a text of _REMEMBERED, all parts during the preparation
        )
        self._parts: list[str] = []
        self._is_finished = False
        self._known: _CheckedText | None = None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def added(self) -> tuple[int, ...]:
        """The offsets of the markers that the platform added."""
        return self._known.added if self._known else tuple(self._completer.added)

    def has_sentence(self) -> bool:
        """Return whether the text has a finished sentence."""
        text = self.text.strip()
        return ends_sentence(text) or len(split_sentences(text, self.run.language)) > 1

    async def feed(self, text: str) -> None:
        """Add the next part that the writer wrote."""
        self._written.append(text)
        self._waiting += text
        if len(self._written) == 1 and self._make_key() in _REMEMBERED:
            return
        if self._preparing is not None and not self._preparing.done():
            return  # a deadline during a wait here would lose this part
        text, self._waiting = self._waiting, ""
        units = list(self._sanitizer.units(text))
        if not units:
            return
        await self._take_pages()
        self._add_written(map(self._completer.feed, units) if self.lacks_markers else units)

    async def finish(self) -> None:
        """Complete the text when the writer has ended. A caller that does not stream gets it now."""
        self._known = _REMEMBERED.get(self._make_key()) if self._waiting else None
        if self._known is not None:
            self._add_written((self._known.text,))
        else:
            await self._take_pages()  # first, because a deadline may end this wait, and then `finish` is called again
            units = list(self._sanitizer.units(self._waiting)) if self._waiting else []
            rest = self._sanitizer.finish()
            if self.lacks_markers:
                self._add_written((*map(self._completer.feed, units), self._completer.finish(rest)))
            else:
                self._add_written((*units, rest))
        self._is_finished = True
        if not self.run.is_streamed and self._parts:
            self._emit(self.text)

    def _emit(self, text: str) -> None:
        self.run.emit(events.Token(request_id=self.run.request_id, text=text))

    async def check_words(self) -> CheckedAnswer:
        """Wait for the pages that the finished text cites, then check its citations."""
        if self.found.reading is not None:
            await self.found.reading.finish(list_cited_numbers(self.text))
            await self._take_pages()
        checked = await self._check()
        self._check_early(frozenset())
        if self._support is not None:
            self.degraded += self._support.degraded
        return checked

    async def read_unjudged(self, citations: tuple[Citation, ...]) -> tuple[Citation, ...]:
        """After the judge failed, let the support model decide the citations that the judge left without a verdict."""
        if self._support is None or not await self._support.finish(self.run.deadline):
            return citations
        self.degraded += self._support.degraded
        read = {_locate(citation): citation for citation in (await self._compare()).citations}
        return tuple(
            read.get(_locate(citation), citation) if citation.checked_by == "words" else citation
            for citation in citations
        )

    @stage("verify")
    async def _check(self) -> CheckedAnswer:
        if self._known is not None and self.sources == self._known.sources:
            return self._known.checked
        checked = await self._compare()
        if self._support is not None and not self._is_judged and await self._support.finish(self.run.deadline):
            checked = await self._compare()
        if self._support is None or not self._support.degraded:
            _REMEMBERED[self._make_key()] = _CheckedText(self.text, self.added, self.sources, checked)
        return checked

    async def _compare(self) -> CheckedAnswer:
        """Check the text by its words. Verdicts that the support model has given so far replace verdicts of the words."""
        if not self._is_long:
            return self._checker.check(self.text, self.added)
        await self._take_pages()
        if self.found.reading is not None:
            await self.found.reading.store_taken()
        if self._support is not None:
            await self._support.settle()  # nothing else may use the checker while the thread does
        return await asyncio.to_thread(self._checker.check, self.text, self.added)

    def add(self, safe: str) -> None:
        """Add a text that needs no sanitising."""
        if safe:
            self._parts.append(safe)
            if self.run.is_streamed or self._is_finished:
                self._emit(safe)

    def reset(self, reason: str) -> None:
        """Discard the text so far. A caller that has seen it is told `reason`."""
        was_shown = bool(self._parts) and (self.run.is_streamed or self._is_finished)
        self._begin()
        self._checker.doubts.drop()
        if self.early is not None:
            self.early.discard()
        if was_shown:
            self.run.emit(events.Reset(request_id=self.run.request_id, reason=reason))

    async def _take_pages(self) -> None:
        """Replace the excerpts of sources by the pages that have been read by now. Later checks use the pages."""
        if self._preparing is not None:  # the thread still reads the old sources
            await asyncio.shield(self._preparing)  # a deadline ends the wait, not the preparation
        before, self.sources = self.sources, self.found.reading.take_pages() if self.found.reading else self.sources
        if before is not self.sources:
            for old, new in zip(before, self.sources, strict=True):
                if old is not new:
                    self._checker.replace_source(new)

    def _add_written(self, parts: Iterable[str]) -> None:
        part = "".join(parts)
        self.add(part)
        self._unchecked += self._completer.ended
        self._completer.ended.clear()
        if self.found.reading is None:
            self._check_early(frozenset())
        else:
            self.found.reading.read_cited(list_cited_numbers(part))
            self._check_early(self.found.reading.list_being_read())

    def _check_early(self, awaited: frozenset[int]) -> None:
        """Check the finished sentences, and let the judge and the support model begin with the doubted ones.

        Sentences that cite one of the `awaited` sources are checked later, because their pages are still being read.
        """
        checked = self._checker.check_early(
            [sentence for sentence in self._unchecked if awaited.isdisjoint(sentence.cited)]
        )
        self._unchecked = [sentence for sentence in self._unchecked if not awaited.isdisjoint(sentence.cited)]
        if self.early is not None:
            self.early.add(checked)
        if self._support is not None and not self._is_judged and self._known is None:
            self._support.begin()

    def _make_key(self) -> Hashable:
        """Return everything that the checked text depends on, as the key of _REMEMBERED."""
        is_read = self._support is not None and not self._is_judged
        return "".join(self._written), self.found.sources, self.run.language, self.lacks_markers, is_read


def _locate(citation: Citation) -> tuple[int, int, int]:
    return citation.start, citation.end, citation.source_index


def list_cited_numbers(text: str) -> set[int]:
    """Return the numbers in the markers of a sanitised text."""
    return {number for _, _, number in render_markers(text)}
