"""The text of an answer while it is written: it is sanitised, gets its missing markers, and is checked.

Most of this happens while the model is still writing, also for a reader who waits for the whole text.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Self

from cachetools import LRUCache

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.find.found import FoundSources, Writers
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.write.draft_comparison import DraftComparison
from modules.llm_platform.domain.citations.checker import CheckedAnswer
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.sentences import ends_sentence, split_sentences

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
    """The text of an answer while it is written, checked and judged. A reset discards the text.

    It is a context manager: at its end, calls of the judge and the support model that still run are cancelled.

    - `comparison` follows the text as it is written.
    - `lacks_markers` is True if the writer may have left markers out, so that the platform adds them.

    A caller that streams gets each part of the text when it is written. Other callers get the whole text at the end. A text
    that was checked before with the same sources is neither sanitised nor checked again. Nobody gets a text that is held until it
    is released.
    """

    def __init__(self, run: Run, found: FoundSources, writers: Writers) -> None:
        self.run, self.found, self.writers = run, found, writers
        self.comparison = DraftComparison(run, found, writers)
        self.lacks_markers = True
        self._begin()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.comparison.aclose()

    def _begin(self) -> None:
        self._sanitizer = AnswerSanitizer(self.sources)
        self._completer = MarkerCompleter(self.comparison.checker, self.run.language)
        self._written: list[str] = []  # parts of the text that the writer has sent
        # Held back: the first part if it may be a text of _REMEMBERED, and all parts while the sources are prepared.
        self._waiting = ""
        self._parts: list[str] = []
        self._is_finished = False
        self.is_held = False
        self._known: _CheckedText | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, with the text of their pages if these were read while the answer was written."""
        return self.comparison.sources

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

    def set_writer(self, writer: ISynthesizer) -> None:
        """Prepare for the text of this writer. A fallback that sets all markers itself gets none added."""
        self.lacks_markers = writer is not self.writers.fallback or self.writers.completes_fallback

    async def feed(self, text: str) -> None:
        """Add the next part that the writer wrote."""
        self._written.append(text)
        self._waiting += text
        if len(self._written) == 1 and self._make_key() in _REMEMBERED:
            return
        if self.comparison.is_preparing:
            return  # a deadline during a wait here would lose this part
        text, self._waiting = self._waiting, ""
        units = list(self._sanitizer.units(text))
        if not units:
            return
        await self.comparison.update_sources()
        self._add_written(map(self._completer.feed, units) if self.lacks_markers else units)

    async def finish(self) -> None:
        """Complete the text when the writer has ended. A caller that does not stream gets it now."""
        self._known = _REMEMBERED.get(self._make_key()) if self._waiting else None
        if self._known is not None:
            self._add_written((self._known.text,))
        else:
            # First, because a deadline may end this wait, and then `finish` is called again.
            await self.comparison.update_sources()
            units = list(self._sanitizer.units(self._waiting)) if self._waiting else []
            rest = self._sanitizer.finish()
            if self.lacks_markers:
                self._add_written((*map(self._completer.feed, units), self._completer.finish(rest)))
            else:
                self._add_written((*units, rest))
        self._is_finished = True
        if not (self.run.is_streamed or self.is_held) and self._parts:
            self._emit(self.text)

    def hold(self) -> None:
        """Show nothing of the text until `release`, unless a part has been shown."""
        self.is_held = self.is_held or not (self.run.is_streamed and self._parts)

    def release(self) -> None:
        """Show the finished text that was held."""
        self.is_held = False
        self._emit(self.text)

    async def is_supported(self) -> bool:
        """Return whether a source supports a sentence of the finished text, or may support one: not all was compared."""
        await self.comparison.wait_for_pages(self.text)
        checked = await self.check_citations()
        has_support = any(citation.verdict in ("supported", "unchecked") for citation in checked.citations)
        return has_support or bool(self.comparison.degraded)

    def _add_written(self, parts: Iterable[str]) -> None:
        part = "".join(parts)
        self.add(part)
        self.comparison.follow(part, self._completer.ended)
        self._completer.ended.clear()

    def add(self, safe: str) -> None:
        """Add a text that needs no sanitising."""
        if safe:
            self._parts.append(safe)
            if (self.run.is_streamed or self._is_finished) and not self.is_held:
                self._emit(safe)

    def _emit(self, text: str) -> None:
        self.run.emit(events.Token(request_id=self.run.request_id, text=text))

    def reset(self, reason: str) -> None:
        """Discard the text so far. A caller that has seen it is told `reason`."""
        was_shown = bool(self._parts) and (self.run.is_streamed or self._is_finished) and not self.is_held
        self._begin()
        self.comparison.discard()
        if was_shown:
            self.run.emit(events.Reset(request_id=self.run.request_id, reason=reason))

    @stage("verify")
    async def check_citations(self) -> CheckedAnswer:
        """Check the citations of the finished text, or use an earlier check of the same text against the same sources."""
        if self._known is not None and self.sources == self._known.sources:
            checked = self._known.checked
        else:
            checked = await self.comparison.check(self.text, self.added)
            if not self.comparison.degraded:
                _REMEMBERED[self._make_key()] = _CheckedText(self.text, self.added, self.sources, checked)
        self.comparison.check_early()
        return checked

    def _make_key(self) -> Hashable:
        """Return everything that the checked text depends on, as the key of _REMEMBERED."""
        is_read = self.comparison.reads_undecided
        return "".join(self._written), self.found.sources, self.run.language, self.lacks_markers, is_read
