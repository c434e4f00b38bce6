"""A text in which all citations are markers, its sources, and a map from its sentences to the text as sent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from modules.llm_platform.domain.text.page_starts import PageStarts
from modules.llm_platform.domain.text.sentences import Span

MAX_NUMBER: Final = 999  # a larger number, as in `[2021]`, is a year


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source that the caller sends along with a text, or that the text names.

    - `index` is the number, from 1, by which the text cites the source.
    - `url` is its address, and `text` the content that the caller sent; either may be empty.
    - `title` is a name by which the text may also cite it.
    - `pages` says where the pages of a PDF begin in `text`, and `is_whole` is True if it is all of a document.
    - `is_numbered` is False if the caller sent the source, and the text does not cite it by `index`. It then takes the number of
      the list entry that has its title.
    - `is_listed` is False if the text cites the number and no source has it.
    """

    index: int
    url: str = ""
    title: str = ""
    text: str = ""
    pages: PageStarts = ()
    is_numbered: bool = True
    is_whole: bool = False
    is_listed: bool = True


class Piece(NamedTuple):
    """A part of the rewritten text. Offsets are in code points.

    - `start` is its offset in the rewritten text.
    - `original` and `original_end` delimit the part of the text as sent that it replaces.
    - `is_copied` is True if both parts are equal.
    - `link` is the span of the whole link if the part is the words of a link.
    """

    start: int
    original: int
    original_end: int
    is_copied: bool
    link: Span | None = None


@dataclass(slots=True)
class CitedText:
    """A text in which all citations are markers `[n]`, without its lists of sources. `sources` are the sources of the markers."""

    markdown: str
    sources: tuple[CitedSource, ...]
    pieces: Sequence[Piece] = field(repr=False)

    def map_span(self, start: int, end: int) -> Span:
        """Return where a sentence of `markdown` is in the text as sent, including whole links at its ends."""
        first, last = self._find_piece(start, is_end=False), self._find_piece(end, is_end=True)
        begin, stop = self.map_words(start, end)
        if first and first.link and begin == first.original:
            begin = first.link[0]
        if last and last.link and stop == last.original_end:
            stop = last.link[1]
        return begin, stop

    def map_words(self, start: int, end: int) -> Span:
        """Return where some words of `markdown` are in the text as sent."""
        return self._map_to_original(start, is_end=False), self._map_to_original(end, is_end=True)

    def _map_to_original(self, at: int, *, is_end: bool) -> int:
        piece = self._find_piece(at, is_end=is_end)
        if piece is None:
            return 0
        if piece.is_copied:
            return min(piece.original + at - piece.start, piece.original_end)
        return piece.original_end if is_end else piece.original

    def _find_piece(self, at: int, *, is_end: bool) -> Piece | None:
        if not self.pieces:
            return None
        found = bisect_right(self.pieces, at - is_end, key=lambda piece: piece.start) - 1
        return self.pieces[max(0, found)]


class CitedTextWriter:
    """Builds a `CitedText` from parts of the text as sent and from markers. All offsets point into the text as sent."""

    def __init__(self, original: str) -> None:
        self._original = original
        self._parts: list[str] = []
        self._pieces: list[Piece] = []
        self._length = 0

    def copy(self, start: int, end: int, link: Span | None = None) -> None:
        """Copy a part, which may be empty. If it is the words of a link, `link` is the span of the whole link."""
        if end > start:
            self._append(self._original[start:end], start, end, is_copied=True, link=link)

    def insert(self, text: str, start: int, end: int) -> None:
        """Write `text`, which may be empty, instead of a part."""
        if text:
            self._append(text, start, end, is_copied=False)

    def finish(self, sources: tuple[CitedSource, ...]) -> CitedText:
        return CitedText("".join(self._parts), sources, self._pieces)

    def _append(self, text: str, start: int, end: int, *, is_copied: bool, link: Span | None = None) -> None:
        self._pieces.append(Piece(self._length, start, end, is_copied=is_copied, link=link))
        self._parts.append(text)
        self._length += len(text)
