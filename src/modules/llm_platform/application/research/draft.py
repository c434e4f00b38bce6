"""The text of an answer while it is written: sanitised, completed with the markers that it lacks, and checked once.

The work is spread over the time in which a model writes, whether the reader sees a stream or waits for the whole text.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from modules.llm_platform.application.research.early_verification import EarlyVerification
from modules.llm_platform.application.research.read_pages import SourcesBeingRead
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.completion import MarkerCompleter
from modules.llm_platform.domain.citations.sentences import AnswerSentence
from modules.llm_platform.domain.dtos.research_dtos import Citation, Source
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.sentences import ends_sentence, sentence_spans

PREPARED_IN_THREAD_CHARS = 150_000  # all sources together; the checker prepares fewer in about 15 ms
REMEMBERED_ANSWERS = 64  # complete texts with their sources, at most about 20 MB; usually less than 1 MB


@dataclass(frozen=True, slots=True)
class _CheckedText:
    """A text as it is shown, the offsets of the markers that the platform added, and its checked citations."""

    text: str
    added: tuple[int, ...]
    checked: CheckedAnswer


# A text from the cache is often the same: checking it took two thirds of a request's CPU.
_REMEMBERED: LRUCache[Hashable, _CheckedText] = LRUCache(REMEMBERED_ANSWERS)


class SourceChecks:
    """One citation checker for one answer. It takes the pages that are read while the answer is written.

    Long sources are prepared in a thread while the writer starts; each other one is prepared when it is first needed.
    """

    def __init__(self, sources: tuple[Source, ...], language: str, reading: SourcesBeingRead | None) -> None:
        self.sources = sources
        self.language = language
        self._reading = reading
        self._checker = CitationChecker(sources, language)
        self._is_long = sum(len(source.text) for source in sources) > PREPARED_IN_THREAD_CHARS
        loop = asyncio.get_running_loop()
        self._preparing = loop.run_in_executor(None, self._checker.prepare) if self._is_long else None

    async def take_pages(self) -> None:
        """Check against the pages that are read by now, in place of the excerpts of the search engine."""
        if self._preparing is not None:
            await self._preparing  # the thread reads the sources
        before, self.sources = self.sources, self._reading.take_pages() if self._reading else self.sources
        if before is not self.sources:
            for old, new in zip(before, self.sources, strict=True):
                if old is not new:
                    self._checker.replace(new)

    def read_cited(self, text: str) -> None:
        """Begin to read the pages that this part of the answer cites."""
        if self._reading is not None:
            self._reading.read_cited(cited_numbers(text))

    def being_read(self) -> frozenset[int]:
        """Return the sources whose pages will replace their excerpts."""
        return self._reading.being_read() if self._reading is not None else frozenset()

    def check_early(self, sentences: Sequence[AnswerSentence]) -> list[tuple[str, Citation]]:
        """Check sentences of an answer that is not complete, so that `check` need not."""
        return self._checker.check_early(sentences)

    async def wait_for_pages(self, text: str) -> None:
        """Wait a bounded time for the pages that the complete answer cites."""
        if self._reading is not None:
            await self._reading.finish(cited_numbers(text))
            await self.take_pages()

    def completer(self) -> MarkerCompleter:
        return MarkerCompleter(self._checker, self.language)

    async def check(self, text: str, added: Collection[int]) -> CheckedAnswer:
        """Check a text. Sentences that were checked before are not compared again."""
        if self._is_long:
            await self.take_pages()
            return await asyncio.to_thread(self._checker.check, text, added)
        return self._checker.check(text, added)


class Draft:
    """The text so far. A reset takes it back. `on_text` gets the parts where `streamed`, else the whole text at its end.

    `lacks_markers`: the writer may have left markers out, so that the platform adds them. A text that was checked before with
    the same sources is neither sanitised nor checked again.
    """

    def __init__(
        self,
        checks: SourceChecks,
        streamed: bool,
        on_text: Callable[[str], None],
        on_reset: Callable[[str], None],
        early: EarlyVerification | None = None,
    ) -> None:
        self._checks, self._early = checks, early
        self._is_streamed = streamed
        self._on_text, self._on_reset = on_text, on_reset
        self._first_sources = checks.sources
        self.lacks_markers = True
        self._begin()

    def _begin(self) -> None:
        self._sanitizer = AnswerSanitizer(self._checks.sources)
        self._completer = self._checks.completer()
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
        return ends_sentence(text) or len(sentence_spans(text, self._checks.language)) > 1

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
        await self._checks.take_pages()
        self._add_written(map(self._completer.feed, units) if self.lacks_markers else units)

    async def finish(self) -> None:
        """The writer has ended."""
        self._known = _REMEMBERED.get(self._key()) if self._waiting else None
        if self._known is not None:
            self._add_written((self._known.text,))
        else:
            units = list(self._sanitizer.units(self._waiting)) if self._waiting else []
            await self._checks.take_pages()
            rest = self._sanitizer.finish()
            if self.lacks_markers:
                self._add_written((*map(self._completer.feed, units), self._completer.finish(rest)))
            else:
                self._add_written((*units, rest))
        self._is_finished = True
        if not self._is_streamed and self._parts:
            self._on_text(self.text)

    async def check(self) -> CheckedAnswer:
        """Check the citations of the finished text; the pages that it cites are waited for."""
        await self._checks.wait_for_pages(self.text)
        checked = await self._checked()
        self._check_early(frozenset())
        return checked

    @stage("verify")
    async def _checked(self) -> CheckedAnswer:
        has_first_sources = self._checks.sources is self._first_sources
        if self._known is not None and has_first_sources:
            return self._known.checked
        text = self.text
        checked = await self._checks.check(text, self.added)
        if has_first_sources:
            _REMEMBERED[self._key()] = _CheckedText(text, self.added, checked)
        return checked

    def add(self, safe: str) -> None:
        """Add a text that needs no sanitising."""
        if safe:
            self._parts.append(safe)
            if self._is_streamed or self._is_finished:
                self._on_text(safe)

    def reset(self, reason: str) -> None:
        """Take back the text so far."""
        was_shown = bool(self._parts) and (self._is_streamed or self._is_finished)
        self._begin()
        if self._early is not None:
            self._early.discard()
        if was_shown:
            self._on_reset(reason)

    def _add_written(self, parts: Iterable[str]) -> None:
        part = "".join(parts)
        self.add(part)
        self._checks.read_cited(part)
        self._unchecked += self._completer.ended
        self._completer.ended.clear()
        self._check_early(self._checks.being_read())

    def _check_early(self, awaited: frozenset[int]) -> None:
        """Check the sentences that have ended and cite none of the `awaited` sources. The judge gets the doubted ones."""
        checked = self._checks.check_early([sentence for sentence in self._unchecked if awaited.isdisjoint(sentence.cited)])
        self._unchecked = [sentence for sentence in self._unchecked if not awaited.isdisjoint(sentence.cited)]
        if self._early is not None:
            self._early.add(checked)

    def _key(self) -> Hashable:
        """Return all that the checked text depends on."""
        return "".join(self._written), self._first_sources, self._checks.language, self.lacks_markers


def cited_numbers(text: str) -> set[int]:
    """Return the numbers in the markers of a sanitised text."""
    return {number for _, _, number in render_markers(text)}
