"""Sanitise the texts of a structured answer like the answer they come from, and keep the markers that it supports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from modules.llm_platform.application.research.check.thread_support import ReadSupport, settle_undecided
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.markers import render_markers, renumber_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.untrusted.output_schema import output_errors

MAX_NAME_CHARS: Final = 200  # longest name of a property that the schema does not define
ADDRESS: Final = "{place}: only addresses of the sources are allowed"


class OutputStrings:
    """Cleans the objects that a model makes of one answer. `unsupported` counts the texts of the last one that lost markers.

    The evidence of a source is the sentences of the answer that cite it, without the unsupported ones. A source without evidence
    supports no text, so its markers are removed. `read_support` asks a
    support model about texts that say a sentence in other words. If it is None, only words are compared.
    """

    def __init__(
        self, response: ResearchResponse, schema: Mapping[str, Any], read_support: ReadSupport | None = None
    ) -> None:
        self.unsupported = 0
        self._schema = schema
        self._own = frozenset(_list_strings(schema))  # names and constants that the caller wrote: properties, enums
        self._sources = _list_evidence(response)
        self._known = frozenset(text for source in self._sources for text in (source.title, source.url))
        self._language = response.metadata.language
        self._without_evidence = {one.source_index for one in response.citations} - _list_accepted(response.citations)
        self._checker = CitationChecker(self._sources, self._language)
        self._read_support = read_support

    def clean_strings(self, value: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        """Return the object with clean texts; None with the errors if that does not fit the schema any more."""
        if foreign := list(self._find_foreign_addresses(value, "$")):
            return None, foreign
        for adds_markers in (True, False):  # a short or fixed text may have no room for a marker
            self.unsupported = 0
            clean = self._clean(value, adds_markers=adds_markers)
            errors = output_errors(self._schema, clean)
            if not errors:
                return clean, []
        return None, errors

    def _clean(self, value: Any, *, adds_markers: bool) -> Any:
        if isinstance(value, dict):
            return {
                self._clean_name(key): self._clean(member, adds_markers=adds_markers) for key, member in value.items()
            }
        if isinstance(value, list):
            return [self._clean(entry, adds_markers=adds_markers) for entry in value]
        return self._clean_text(value, adds_markers=adds_markers) if isinstance(value, str) else value

    def _clean_name(self, name: str) -> str:
        return name if name in self._own else sanitize(name[:MAX_NAME_CHARS], ())

    def _clean_text(self, text: str, *, adds_markers: bool) -> str:
        if text in self._own or text in self._known:
            return text
        text = sanitize(text, self._sources)
        if adds_markers and not render_markers(text):
            completer = MarkerCompleter(self._checker, self._language)
            text = completer.feed(text) + completer.finish("")
        return self._remove_unsupported(text) if render_markers(text) else text

    def _remove_unsupported(self, text: str) -> str:
        """Return the text without the markers of sources whose evidence does not support it."""
        citations = self._checker.check(text).citations
        judged = {citation.source_index for citation in citations}
        supported = _list_accepted(citations) - self._without_evidence
        if not judged <= supported and settle_undecided(self._checker, self._read_support):
            supported |= _list_accepted(self._checker.check(text).citations) - self._without_evidence
        if judged <= supported:
            return text
        self.unsupported += 1
        kept = {number: number for _, _, number in render_markers(text) if number in supported or number not in judged}
        return renumber_markers(text, kept)

    def _find_foreign_addresses(self, value: Any, place: str) -> Iterator[str]:
        """Yield the places of texts that are an address which no source has."""
        if isinstance(value, dict):
            for key, member in value.items():
                yield from self._find_foreign_addresses(member, f"{place}.{key}" if key in self._own else f"{place}.*")
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                yield from self._find_foreign_addresses(entry, f"{place}[{index}]")
        elif isinstance(value, str):
            is_address = "://" in value and not any(map(str.isspace, value.strip()))
            if is_address and value not in self._own and sanitize(value, self._sources) != value:
                yield ADDRESS.format(place=place)


def _list_accepted(citations: Iterable[Citation]) -> set[int]:
    """Return the numbers of the sources with at least one citation that is not unsupported."""
    return {citation.source_index for citation in citations if citation.verdict != "unsupported"}


def _list_evidence(response: ResearchResponse) -> tuple[Source, ...]:
    """Return the cited sources with the sentences that cite them instead of their texts."""
    sentences: defaultdict[int, list[str]] = defaultdict(list)
    for citation in response.citations:
        if citation.verdict != "unsupported":
            sentences[citation.source_index].append(
                renumber_markers(response.synthesis[citation.start : citation.end], {})
            )
    return tuple(
        Source(index=source.index, title=source.title, url=source.url, text="\n\n".join(sentences[source.index]))
        for source in response.sources
    )


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield key
            yield from _list_strings(member)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _list_strings(entry)
