"""Cut a text into passages that can be found and quoted: at headings and paragraphs, at sentences where those are long.

Linear in the length of the text, whatever it holds: a line of a megabyte, an unclosed code fence, no blank anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from modules.llm_platform.domain.text.tokens import Span, sentence_spans

# Put the pieces of a text, which are never cut any more, together into passages that are neither long nor tiny.
# A passage has `max_words` at most where there is more to come. What is left of a section then may make it longer by
# STRETCH, or else begins another passage, which is no tiny one. Linear in the number of pieces.


# Times `max_words`: what a section's end, or a short text, may have and still be one passage. On the questions of
# tests/quality/retrieval nDCG@10 was .452 with it, .444 with 1.2 and with 1.6.
STRETCH: Final = 1.4
TINY_SHARE: Final = 1 / 3  # of `max_words`: what is cut off a section by its length has more than that
MIN_WORDS: Final = 30  # below this a passage goes on under the next heading: a heading alone answers nothing
CHARS_PER_WORD: Final = 12  # upper bound: tables and data have no words to count
TRAIL: Final = " > "  # between the headings that lead to a passage

Stretch = tuple[int, int, str]  # where a passage begins and ends, and the headings above it


@dataclass(slots=True)
class ChunkPiece:
    """A paragraph, a sentence, a line of code. `level` and `title` are those of a heading, `label` is the trail to here."""

    start: int
    end: int
    words: int
    level: int = 0
    title: str = ""
    label: str = ""


def longest_chunk(max_words: int) -> int:
    """Words of the longest passage."""
    return int(max_words * STRETCH)


class ChunkPacker:
    """Takes pieces in their order. A section is what stands between two headings that each have MIN_WORDS above them."""

    def __init__(self, max_words: int, overlap: int, shortest: int = MIN_WORDS) -> None:
        """`shortest` is MIN_WORDS, or more to keep sections together."""
        self._max_words = max_words
        self._longest = longest_chunk(max_words)
        self._tiny = int(max_words * TINY_SHARE)
        self._shortest = shortest
        self._overlap = min(overlap, max_words // 2)
        self._held: list[ChunkPiece] = []  # of the passage that is being gathered, and what may go on to the next one
        self._words = 0
        self._before: list[ChunkPiece] = []  # of the passage before, which a tiny one joins
        self._is_rest = False  # what is held goes on with the section of the passage before
        self._trail: list[ChunkPiece] = []
        self._label = ""
        self._passages: list[Stretch] = []

    def heading(self, piece: ChunkPiece) -> None:
        if self._words >= self._shortest and not all(held.level for held in self._held):
            self._close(self._tiny if self._is_rest else 0)
        self._trail = [above for above in self._trail if above.level < piece.level] + [piece]
        self._label = TRAIL.join(above.title for above in self._trail if above.title)
        self.add(piece)

    def add(self, piece: ChunkPiece) -> None:
        piece.label = self._label
        self._words += piece.words + (_gap(self._held[-1], piece) if self._held else 0)
        self._held.append(piece)
        while self._words > self._longest:
            self._cut()

    def finish(self) -> list[Stretch]:
        self._close(self._tiny if self._is_rest else self._shortest)
        return self._passages

    def _cut(self) -> None:
        """A full passage off what is held; its end goes on in the next one."""
        words, taken = self._held[0].words, 1
        for piece, following in pairwise(self._held):
            more = words + _gap(piece, following) + following.words
            if more > (self._max_words if words > self._tiny else self._longest):
                break
            words, taken = more, taken + 1
        self._part(taken, self._max_words - self._held[taken].words)
        self._is_rest = True

    def _part(self, taken: int, room: int) -> None:
        """So many of the pieces held are a passage, and the others go on after its last sentences, as far as there is room."""
        self._before, rest = self._held[:taken], self._held[taken:]
        self._passages.append(_stretch(self._before))
        self._hold([*self._carried(rest[0], room), *rest])

    def _carried(self, following: ChunkPiece, room: int) -> list[ChunkPiece]:
        """The last pieces of the passage before that fit into the room and the overlap, none of them a heading."""
        if following.level:
            return []
        room = min(self._overlap, room) - _gap(self._before[-1], following)
        first = len(self._before)
        while first and not self._before[first - 1].level and self._before[first - 1].words <= room:
            first -= 1
            room -= self._before[first].words + (_gap(self._before[first - 1], self._before[first]) if first else 0)
        return self._before[first:]

    def _close(self, least: int) -> None:
        """What is held is a passage, or if that has fewer words than `least`, joins the one before or shares evenly with it."""
        if self._before and self._held and self._words < least:
            together = self._before + [piece for piece in self._held if piece.start >= self._before[-1].end]
            self._passages.pop()
            self._hold(together)
            if self._words > self._longest:
                self._halve()
        if self._held:
            self._passages.append(_stretch(self._held))
            self._before = self._held
        self._hold([])
        self._is_rest = False

    def _halve(self) -> None:
        half = min(range(1, len(self._held)), key=lambda place: abs(2 * _weigh(self._held[:place]) - self._words))
        self._part(half, self._longest - _weigh(self._held[half:]))

    def _hold(self, pieces: list[ChunkPiece]) -> None:
        self._held, self._words = pieces, _weigh(pieces)


def _weigh(pieces: Sequence[ChunkPiece]) -> int:
    return sum(piece.words for piece in pieces) + sum(_gap(one, following) for one, following in pairwise(pieces))


def _gap(one: ChunkPiece, following: ChunkPiece) -> int:
    """What the blanks between them weigh, in words: they are sent along with a passage."""
    return (following.start - one.end) // CHARS_PER_WORD


def _stretch(pieces: Sequence[ChunkPiece]) -> Stretch:
    """Under the headings above its first words that are none."""
    first = next((piece for piece in pieces if not piece.level), pieces[-1])
    return pieces[0].start, pieces[-1].end, first.label


MAX_WORDS = 300  # what retrieval was measured with
UNSPACED_CHARS_PER_WORD = 2  # of scripts without blanks
HEADING_CHARS = 120  # of a heading, in the label of a passage
HEADING_LINE_CHARS = 400  # a longer line is no heading, whatever it begins with
SENTENCE_WINDOW = 20_000  # characters handed to the sentence splitter at once

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Lines that are neither blank nor fence, heading or underline are taken together: most of them are such.
_LINES = re.compile(r"(?P<prose>(?:[ \t]*[^\s`~#=-][^\n]*(?:\n|\Z))+)|[^\n]*\n|[^\n]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\n?")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

Kind = Literal["prose", "code", "heading"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a text, `text[start:end]` without blanks around it, and the headings above it joined by ` > `."""

    start: int
    end: int
    heading: str


def split_chunks(text: str, *, language: str = "en", max_words: int = MAX_WORDS, overlap: int = 0) -> list[Chunk]:
    """Passages in order that together hold everything in the text but blanks.

    Each has about `max_words` at most, and up to STRETCH times as many rather than a rest that is little or none: a text of
    so many is one passage whatever stands in it. In a longer one a heading begins a passage and stands in it. Where a section
    is cut by its length, up to `overlap` words (whole sentences or paragraphs) stand in both passages.
    """
    packer = _packer(text, max_words, overlap)
    for start, end, kind, level in _blocks(text):
        if kind == "heading" and (heading := _heading(text, start, end, level)).words <= max_words // 2:
            packer.heading(heading)
        else:
            for piece in _pieces(text, (start, end), kind, language, max_words):
                packer.add(piece)
    return [Chunk(*each) for each in packer.finish()]


def _packer(text: str, max_words: int, overlap: int) -> ChunkPacker:
    most = longest_chunk(max_words)
    if len(text) < (most + 1) * CHARS_PER_WORD and _count(text) <= most:
        whole = len(text) + 1  # more words than it has
        return ChunkPacker(whole, overlap=0, shortest=whole)
    return ChunkPacker(max_words, overlap, min(MIN_WORDS, max_words // 2))


def _blocks(text: str) -> Iterator[tuple[int, int, Kind, int]]:
    """(start, end, kind, heading level) of paragraphs, fenced code and headings, in order."""
    begin: int | None = None  # of the paragraph that is being gathered
    lines = 0
    end = 0
    while match := _LINES.match(text, end):
        start, end = match.span()
        if match.lastgroup:
            begin = start if begin is None else begin
            lines += text.count("\n", start, end)
            continue
        line = match.group()
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
                end = _end_of_code(text, end, opened[1])
                yield start, end, "code", 0
            elif heading:
                yield start, end, "heading", len(heading[1])
        else:
            begin = start if begin is None else begin
            lines += 1
    if begin is not None:
        yield begin, len(text), "prose", 0


def _end_of_code(text: str, start: int, fence: str) -> int:
    """Where the line ends that closes the fence; the end of the text where none does."""
    for match in _LINE.finditer(text, start):
        line = match.group()
        if line.lstrip(" ").startswith(fence) and not line.strip(" \n").strip(fence[0]):
            return match.end()
    return len(text)


def _heading(text: str, start: int, end: int, level: int) -> ChunkPiece:
    start, end = _trimmed(text, start, end)
    line = text[start:end]
    title = line.lstrip("#").partition("\n")[0].strip()
    unclosed = title.rstrip("#")
    title = unclosed if unclosed.endswith((" ", "\t")) else title  # `## Title ##`, but `# About C#`
    return ChunkPiece(start, end, _count(line), level, " ".join(title[:HEADING_CHARS].split()))


def _pieces(text: str, block: Span, kind: Kind, language: str, max_words: int) -> Iterator[ChunkPiece]:
    """The block whole when it fits, else its sentences (prose) or lines (code), else lines, else runs of characters."""
    start, end = _trimmed(text, *block)
    if start == end:
        return
    if (words := _count(text[start:end])) <= max_words:
        yield ChunkPiece(start, end, words)
        return
    for sentence in _sentences(text, start, end, language) if kind == "prose" else _lines(text, start, end):
        if (words := _count(text[slice(*sentence)])) <= max_words:
            yield ChunkPiece(*sentence, words)
        else:
            yield from _small_pieces(text, sentence, max_words)


def _small_pieces(text: str, span: Span, max_words: int) -> Iterator[ChunkPiece]:
    for line in _lines(text, *span):
        for start, end in _windows(text, *line, max_words):
            yield ChunkPiece(start, end, _count(text[start:end]))


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
