"""Read the citations that people and models write, and rewrite them as markers `[n]`.

The citation checker reads the rewritten text, and `CitedText.map_span` maps its sentences back to the text as sent. The known
forms are listed in docs/reference/citation-forms.md, and `citation_tokens` reads them. Reading takes time linear in the length
of the text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from modules.llm_platform.domain.citations.forms.citation_tokens import TOKEN, TokenReader
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource, CitedText, CitedTextWriter
from modules.llm_platform.domain.citations.forms.exported_answer import find_export_lines
from modules.llm_platform.domain.citations.forms.numbered_sources import NumberedSources
from modules.llm_platform.domain.citations.forms.source_lists import TextLine, find_source_lists, read_text_lines
from modules.llm_platform.domain.markdown.markers import mask_code_spans

MAX_MARKERS: Final = 6000
CODE_KINDS: Final = frozenset({"code", "fence", "indented"})


class TooManyCitationsError(ValueError):
    """The text has more than MAX_MARKERS citations: `[1-200]` counts as two hundred."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {MAX_MARKERS:,} citations")


def read_citations(text: str, given: Sequence[CitedSource] = ()) -> CitedText:
    """Return the text with markers `[n]`, and its sources: the `given` sources, and the sources that the text lists or links to.

    Raises TooManyCitationsError.
    """
    lines = read_text_lines(text)
    exported = find_export_lines(lines)
    lists = find_source_lists([replace(line, text="") if at in exported else line for at, line in enumerate(lines)])
    left_out = lists.lines | exported
    sources = NumberedSources(given, lists.entries)
    prose = (line.text for at, line in enumerate(lines) if at not in left_out and line.kind not in CODE_KINDS)
    sources.reserve_cited_numbers(prose)
    return _Rewriter(text, sources).rewrite(lines, left_out)


class _Rewriter:
    """Rewrites a text line by line."""

    def __init__(self, text: str, sources: NumberedSources) -> None:
        self._text, self._sources = text, sources
        self._reader = TokenReader(sources)
        self._writer = CitedTextWriter(text)
        self._markers = 0

    def rewrite(self, lines: Sequence[TextLine], left_out: Collection[int]) -> CitedText:
        """Return the rewritten text. The lines `left_out` become empty, so that the other lines keep their numbers."""
        for at, line in enumerate(lines):
            end = line.start + len(line.text)
            if at not in left_out:
                if line.kind in CODE_KINDS:
                    self._writer.copy(line.start, end)
                else:
                    self._rewrite_line(line)
            self._writer.copy(end, min(end + 1, len(self._text)))
        return self._writer.finish(self._sources.list_all())

    def _rewrite_line(self, line: TextLine) -> None:
        masked = mask_code_spans(line.text)
        copied, at = line.start, 0  # `copied` is an offset in the text, `at` in the line
        while token := TOKEN.search(masked, at):
            parsed = self._reader.read(token)
            at = parsed.end
            if parsed.numbers is None:
                continue
            start, end = line.start + token.start(), line.start + parsed.end
            self._writer.copy(copied, start)
            if parsed.kept:
                self._writer.copy(line.start + parsed.kept[0], line.start + parsed.kept[1], link=(start, end))
            self._write_markers(parsed.numbers, start, end)
            copied = end
        self._writer.copy(copied, line.start + len(line.text))

    def _write_markers(self, numbers: Sequence[int], start: int, end: int) -> None:
        self._markers += len(numbers)
        if self._markers > MAX_MARKERS:
            raise TooManyCitationsError
        self._writer.insert("".join(f"[{number}]" for number in numbers), start, end)
