"""The text of an answer while it is written: sanitised, completed with the markers that it lacks, and checked once.

The work is spread over the time in which a model writes, whether the reader sees a stream or waits for the whole text.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from cachetools import LRUCache

from modules.llm_platform.application.research.early_verification import EarlyVerification
from modules.llm_platform.application.research.read_pages import SourcesBeingRead
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.completion import MarkerCompleter
from modules.llm_platform.domain.citations.sentences import AnswerSentence
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.sentences import ends_sentence, sentence_spans

PREPARED_IN_THREAD_CHARS = 150_000  # all sources together; the checker prepares fewer in about 15 ms
REMEMBERED_ANSWERS = (
    64  # complete texts with their sources, at most about 20 MB; about 0.1 MB each where pages were read
)


@dataclass(frozen=True, slots=True)
class _CheckedText:
    """A text as it is shown.

    - `added` are the offsets of the markers that the platform added.
    - `sources` are the sources that it was checked against, and `checked` its citations.
    """

    text: str
    added: tuple[int, ...]
    sources: tuple[Source, ...]
    checked: CheckedAnswer


# A text from the cache is often the same: checking it took two thirds of a request's CPU.
_REMEMBERED: LRUCache[Hashable, _CheckedText] = LRUCache(REMEMBERED_ANSWERS)


class Draft:
    """The text so far, and its citation checker. A reset takes the text back.

    - `on_text` is called with the parts if `streamed`, else with the whole text at its end.
    - `reading` reads pages while the answer is written, which replace the excerpts in `sources`.
    - `lacks_markers` is True if the writer may have left markers out, so that the platform adds them.

    Long sources are prepared for the checker in a thread while the writer starts; any other one is prepared when it is first
    needed. A text that was checked before with the same sources is neither sanitised nor checked again.
    """

    def __init__(
        self,
        sources: tuple[Source, ...],
        language: str,
        streamed: bool,
        on_text: Callable[[str], None],
        on_reset: Callable[[str], None],
        reading: SourcesBeingRead | None = None,
        early: EarlyVerification | None = None,
    ) -> None:
        self.sources = self._first_sources = sources
        self._language = language
        self._reading, self._early = reading, early
        self._checker = CitationChecker(sources, language)
        self._is_long = sum(len(source.text) for source in sources) > PREPARED_IN_THREAD_CHARS
        loop = asyncio.get_running_loop()
        self._preparing = loop.run_in_executor(None, self._checker.prepare) if self._is_long else None
        self.is_streamed = streamed
        self._on_text, self._on_reset = on_text, on_reset
        self.lacks_markers = True
        self._begin()

    def _begin(self) -> None:
        self._sanitizer = AnswerSanitizer(self.sources)
        self._completer = MarkerCompleter(self._checker, self._language)
        self._unchecked: list[AnswerSentence] = []
        self._written: list[str] = []  # parts of the text that the writer has sent
        self._waiting = ""  # a text that is known as a whole, until its end is known
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
        return ends_sentence(text) or len(sentence_spans(text, self._language)) > 1

    async def feed(self, text: str) -> None:
        """Add the next part that the writer wrote."""
        self._written.append(text)
        if len(self._written) == 1 and self._key() in _REMEMBERED:
            self._waiting = text
            return
        text, self._waiting = self._waiting + text, ""
        units = list(self._sanitizer.units(text))
        if not units:
            return
        await self._take_pages()
        self._add_written(map(self._completer.feed, units) if self.lacks_markers else units)

    async def finish(self) -> None:
        """The writer has ended."""
        self._known = _REMEMBERED.get(self._key()) if self._waiting else None
        if self._known is not None:
            self._add_written((self._known.text,))
        else:
            units = list(self._sanitizer.units(self._waiting)) if self._waiting else []
            await self._take_pages()
            rest = self._sanitizer.finish()
            if self.lacks_markers:
                self._add_written((*map(self._completer.feed, units), self._completer.finish(rest)))
            else:
                self._add_written((*units, rest))
        self._is_finished = True
        if not self.is_streamed and self._parts:
            self._on_text(self.text)

    async def check(self) -> CheckedAnswer:
        """Check the citations of the finished text; the pages that it cites are waited for."""
        if self._reading is not None:
            await self._reading.finish(cited_numbers(self.text))
            await self._take_pages()
        checked = await self._checked()
        self._check_early(frozenset())
        return checked

    @stage("verify")
    async def _checked(self) -> CheckedAnswer:
        if self._known is not None and self.sources == self._known.sources:
            return self._known.checked
        text = self.text
        if self._is_long:
            await self._take_pages()
            checked = await asyncio.to_thread(self._checker.check, text, self.added)
        else:
            checked = self._checker.check(text, self.added)
        _REMEMBERED[self._key()] = _CheckedText(text, self.added, self.sources, checked)
        return checked

    def add(self, safe: str) -> None:
        """Add a text that needs no sanitising."""
        if safe:
            self._parts.append(safe)
            if self.is_streamed or self._is_finished:
                self._on_text(safe)

    def reset(self, reason: str) -> None:
        """Take back the text so far."""
        was_shown = bool(self._parts) and (self.is_streamed or self._is_finished)
        self._begin()
        if self._early is not None:
            self._early.discard()
        if was_shown:
            self._on_reset(reason)

    async def _take_pages(self) -> None:
        """Check against the pages that are read by now, in place of the excerpts of the search engine."""
        if self._preparing is not None:
            await self._preparing  # the thread reads the sources
        before, self.sources = self.sources, self._reading.take_pages() if self._reading else self.sources
        if before is not self.sources:
            for old, new in zip(before, self.sources, strict=True):
                if old is not new:
                    self._checker.replace(new)

    def _add_written(self, parts: Iterable[str]) -> None:
        part = "".join(parts)
        self.add(part)
        self._unchecked += self._completer.ended
        self._completer.ended.clear()
        if self._reading is None:
            self._check_early(frozenset())
        else:
            self._reading.read_cited(cited_numbers(part))
            self._check_early(self._reading.being_read())

    def _check_early(self, awaited: frozenset[int]) -> None:
        """Check the sentences that have ended and cite none of the `awaited` sources. The judge gets the doubted ones."""
        checked = self._checker.check_early(
            [sentence for sentence in self._unchecked if awaited.isdisjoint(sentence.cited)]
        )
        self._unchecked = [sentence for sentence in self._unchecked if not awaited.isdisjoint(sentence.cited)]
        if self._early is not None:
            self._early.add(checked)

    def _key(self) -> Hashable:
        """Return all that the checked text depends on."""
        return "".join(self._written), self._first_sources, self._language, self.lacks_markers


def cited_numbers(text: str) -> set[int]:
    """Return the numbers in the markers of a sanitised text."""
    return {number for _, _, number in render_markers(text)}
