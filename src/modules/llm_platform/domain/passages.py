"""Cut a text into passages that can be found and quoted: at headings and paragraphs, at sentences where those are long.

Linear in the length of the text, whatever it holds: a line of a megabyte, an unclosed code fence, no blank anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from modules.llm_platform.domain.text import Span, sentence_spans

MAX_WORDS = 200  # what retrieval was measured with
MIN_WORDS = 30  # below this a passage goes on under the next heading: a heading alone answers nothing
CHARS_PER_WORD = 12  # upper bound: tables and data have no words to count
UNSPACED_CHARS_PER_WORD = 2  # of scripts without blanks
HEADING_CHARS = 120  # of a heading, in the label of a passage
HEADING_LINE_CHARS = 400  # a longer line is no heading, whatever it begins with
SENTENCE_WINDOW = 20_000  # characters handed to the sentence splitter at once
TRAIL = " > "  # between the headings that lead to a passage

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\n?")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

Kind = Literal["prose", "code", "heading"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text, `text[start:end]` without blanks around it, and the headings above it joined by ` > `."""

    start: int
    end: int
    heading: str


@dataclass(slots=True)
class _Piece:
    """What is never cut any more: a paragraph, a sentence, a line of code. `level` and `title` of a heading.

    `gap` is what the blanks before it weigh, in words: they are sent along with a passage.
    """

    start: int
    end: int
    words: int
    level: int = 0
    title: str = ""
    gap: int = 0


def split_passages(text: str, *, language: str = "en", max_words: int = MAX_WORDS, overlap: int = 0) -> list[Passage]:
    """Passages in order that together hold everything in the text but blanks, each of about `max_words` at most.

    A heading begins a passage and stands in it. Where a section is cut by its length, up to `overlap` words (whole
    sentences or paragraphs) stand in both passages.
    """
    packer = _Packer(max_words, overlap)
    for start, end, kind, level in _blocks(text):
        if kind == "heading" and (heading := _heading(text, start, end, level)).words <= max_words // 2:
            packer.heading(heading)
        else:
            for piece in _pieces(text, (start, end), kind, language, max_words):
                packer.add(piece)
    return packer.finish()


class _Packer:
    """Puts pieces together until a passage is full or a heading begins another."""

    def __init__(self, max_words: int, overlap: int) -> None:
        self._max_words = max_words
        self._overlap = min(overlap, max_words // 2)
        self._held: list[_Piece] = []
        self._words = 0
        self._trail: list[_Piece] = []
        self._label = ""
        self._passages: list[Passage] = []

    def heading(self, piece: _Piece) -> None:
        if self._words >= min(MIN_WORDS, self._max_words // 2) and not all(held.level for held in self._held):
            self._close()
        self._trail = [above for above in self._trail if above.level < piece.level] + [piece]
        self._put(piece, carried=0)

    def add(self, piece: _Piece) -> None:
        self._put(piece, carried=self._overlap)

    def finish(self) -> list[Passage]:
        self._close()
        return self._passages

    def _put(self, piece: _Piece, carried: int) -> None:
        piece.gap = (piece.start - self._held[-1].end) // CHARS_PER_WORD if self._held else 0
        if self._held and self._words + piece.gap + piece.words > self._max_words:
            kept = self._tail(min(carried, self._max_words - piece.words) - piece.gap)
            self._close()
            self._held, self._words = kept, sum(held.gap + held.words for held in kept)
        if all(held.level for held in self._held):  # nothing but headings yet: the passage bears the trail to here
            self._label = TRAIL.join(above.title for above in self._trail if above.title)
        self._held.append(piece)
        self._words += piece.gap + piece.words

    def _tail(self, words: int) -> list[_Piece]:
        """The last pieces that fit into so many words, none of them a heading."""
        first = len(self._held)
        while first and not self._held[first - 1].level and self._held[first - 1].words <= words:
            first -= 1
            words -= self._held[first].words + self._held[first].gap
        return self._held[first:]

    def _close(self) -> None:
        if self._held:
            self._passages.append(Passage(self._held[0].start, self._held[-1].end, self._label))
        self._held, self._words = [], 0


def _blocks(text: str) -> Iterator[tuple[int, int, Kind, int]]:
    """(start, end, kind, heading level) of paragraphs, fenced code and headings, in order."""
    begin: int | None = None  # of the paragraph that is being gathered
    lines = 0
    fence = ""
    for match in _LINE.finditer(text):
        start, end, line = match.start(), match.end(), match.group()
        if fence:
            if line.lstrip(" ").startswith(fence) and not line.strip(" \n").strip(fence[0]):
                yield begin or 0, end, "code", 0
                begin, fence = None, ""
            continue
        first = line.lstrip(" ")[:1]  # asked before the patterns: most lines begin with a letter
        opened = _FENCE.match(line) if first in "`~" else None
        heading = _HEADING.match(line) if first == "#" and end - start <= HEADING_LINE_CHARS else None
        underline = _UNDERLINE.fullmatch(line) if begin is not None and lines == 1 and first in "=-" else None
        if underline and begin is not None and end - begin <= HEADING_LINE_CHARS:
            yield begin, end, "heading", 1 if underline[1][0] == "=" else 2
            begin, lines = None, 0
        elif opened or heading or not line.strip():
            if begin is not None:
                yield begin, start, "prose", 0
            begin, lines = None, 0
            if opened:
                begin, fence = start, opened[1]
            elif heading:
                yield start, end, "heading", len(heading[1])
        else:
            begin = start if begin is None else begin
            lines += 1
    if begin is not None:
        yield begin, len(text), "code" if fence else "prose", 0


def _heading(text: str, start: int, end: int, level: int) -> _Piece:
    start, end = _trimmed(text, start, end)
    line = text[start:end]
    title = line.lstrip("#").partition("\n")[0].strip()
    unclosed = title.rstrip("#")
    title = unclosed if unclosed.endswith((" ", "\t")) else title  # `## Title ##`, but `# About C#`
    return _Piece(start, end, _count(line), level, " ".join(title[:HEADING_CHARS].split()))


def _pieces(text: str, block: Span, kind: Kind, language: str, max_words: int) -> Iterator[_Piece]:
    """The block whole when it fits, else its sentences (prose) or lines (code), else lines, else runs of characters."""
    start, end = _trimmed(text, *block)
    if start == end:
        return
    if (words := _count(text[start:end])) <= max_words:
        yield _Piece(start, end, words)
        return
    for sentence in _sentences(text, start, end, language) if kind == "prose" else _lines(text, start, end):
        if (words := _count(text[slice(*sentence)])) <= max_words:
            yield _Piece(*sentence, words)
        else:
            yield from _small_pieces(text, sentence, max_words)


def _small_pieces(text: str, span: Span, max_words: int) -> Iterator[_Piece]:
    for line in _lines(text, *span):
        for start, end in _windows(text, *line, max_words):
            yield _Piece(start, end, _count(text[start:end]))


def _sentences(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    for begin, stop in _chunks(text, start, end, SENTENCE_WINDOW):
        part = _SURROGATE.sub("\ufffd", text[begin:stop])  # the splitter encodes to UTF-8; lengths stay the same
        yield from ((begin + first, begin + last) for first, last in sentence_spans(part, language))


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    for match in _LINE.finditer(text, start, end):
        first, last = _trimmed(text, match.start(), match.end(), keep_indent=True)
        if first < last:
            yield first, last


def _windows(text: str, start: int, end: int, max_words: int) -> Iterator[Span]:
    """Stretches of at most `max_words`, cut at blanks where there are any."""
    size = max_words * CHARS_PER_WORD
    for begin, stop in _chunks(text, start, end, size):
        words = _count(text[begin:stop])
        if words <= max_words:
            yield begin, stop
        else:
            share = max(1, (stop - begin) * max_words // words)
            yield from _halved(text, begin, stop, share, max_words)


def _halved(text: str, start: int, end: int, size: int, max_words: int) -> Iterator[Span]:
    """Chunks of about `size` characters; one that still holds too many words is cut in two until it does not."""
    for begin, stop in _chunks(text, start, end, size):
        if stop - begin > 1 and _count(text[begin:stop]) > max_words:
            yield from _halved(text, begin, stop, (stop - begin + 1) // 2, max_words)
        else:
            yield begin, stop


def _chunks(text: str, start: int, end: int, size: int) -> Iterator[Span]:
    """Trimmed stretches of at most `size` characters, each ending at a blank of its second half if it has one."""
    while start < end:
        stop = min(end, start + size)
        if stop < end:
            blank = max(text.rfind(" ", start + size // 2, stop), text.rfind("\n", start + size // 2, stop))
            stop = blank + 1 if blank >= 0 else stop
        first, last = _trimmed(text, start, stop)
        if first < last:
            yield first, last
        start = stop


def _trimmed(text: str, start: int, end: int, *, keep_indent: bool = False) -> Span:
    piece = text[start:end]
    last = start + len(piece.rstrip())
    first = start + len(piece) - len(piece.lstrip("\n" if keep_indent else None))
    return (first, last) if first < last else (start, start)


def _count(piece: str) -> int:
    """Words, as far as there are any: scripts without blanks and long strings are measured by their characters."""
    words = len(piece.split())
    if not piece.isascii():
        words += len(_UNSPACED.findall(piece)) // UNSPACED_CHARS_PER_WORD
    return max(words, len(piece) // CHARS_PER_WORD, 1)
