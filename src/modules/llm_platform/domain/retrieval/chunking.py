"""Split a text into chunks for retrieval: at headings and paragraphs, and at sentences where paragraphs are long.

Takes linear time for any text, such as a line of a megabyte, an unclosed code fence, or no space at all.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from modules.llm_platform.domain.markdown.outline import OutlineBlock, heading_title, read_outline
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.scripts import WITHOUT_BLANKS
from modules.llm_platform.domain.text.sentences import Span, iterate_sentences

MAX_WORDS: Final = 300  # the length that retrieval was measured with
# The end of a section, or a short text, may have STRETCH times `max_words` and still be one chunk. On the questions of
# tests/quality/retrieval, nDCG@10 was .452 with 1.4, and .444 with 1.2 and with 1.6.
STRETCH: Final = 1.4
TINY_SHARE: Final = 1 / 3  # share of `max_words`: the shortest chunk that the length of a section cuts off
MIN_WORDS: Final = 30  # a shorter chunk continues under the next heading
CHARS_PER_WORD: Final = 12  # upper bound, for tables and data without words
UNSPACED_CHARS_PER_WORD: Final = 2  # estimate for scripts without spaces
HEADING_SEPARATOR: Final = " > "
MAX_HEADING_CHARS: Final = 120  # longest heading in the label of a chunk

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_UNSPACED = lazy_pattern(f"[{WITHOUT_BLANKS}]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part `text[start:end]` of a text, without spaces around it. `heading` joins the headings above it by ` > `."""

    start: int
    end: int
    heading: str


@dataclass(slots=True)
class ChunkPiece:
    """A paragraph, a sentence, a line of code or a heading. Only a heading has a `level` and a `title`.

    `label` joins the headings above by ` > `.
    """

    start: int
    end: int
    words: int
    level: int = 0
    title: str = ""
    label: str = ""


def count_longest_chunk_words(max_words: int) -> int:
    """Return the number of words of the longest chunk."""
    return int(max_words * STRETCH)


class ChunkPacker:
    """Joins pieces, in order, into chunks that are neither long nor tiny.

    A heading begins a new chunk if the current chunk has at least `shortest` words.
    """

    def __init__(self, max_words: int, overlap: int, shortest: int = MIN_WORDS) -> None:
        self._max_words = max_words
        self._longest = count_longest_chunk_words(max_words)
        self._tiny = int(max_words * TINY_SHARE)
        self._shortest = shortest
        self._overlap = min(overlap, max_words // 2)
        self._pending: list[ChunkPiece] = []  # pieces of the current chunk, and maybe of the next one
        self._pending_words = 0
        self._previous: list[ChunkPiece] = []  # the pieces of the previous chunk, which a tiny one joins
        self._continues_section = False  # the pending pieces continue the section of the previous chunk
        self._headings_above: list[ChunkPiece] = []
        self._label = ""
        self._chunks: list[Chunk] = []

    def add_heading(self, piece: ChunkPiece) -> None:
        if self._pending_words >= self._shortest and not all(piece.level for piece in self._pending):
            self._close(self._tiny if self._continues_section else 0)
        self._headings_above = [above for above in self._headings_above if above.level < piece.level] + [piece]
        self._label = HEADING_SEPARATOR.join(above.title for above in self._headings_above if above.title)
        self.add(piece)

    def add(self, piece: ChunkPiece) -> None:
        piece.label = self._label
        self._pending_words += piece.words + (_count_gap_words(self._pending[-1], piece) if self._pending else 0)
        self._pending.append(piece)
        while self._pending_words > self._longest:
            self._cut()

    def finish(self) -> list[Chunk]:
        self._close(self._tiny if self._continues_section else self._shortest)
        return self._chunks

    def _cut(self) -> None:
        """Emit a full chunk of the pending pieces. The next chunk repeats its end."""
        words, taken = self._pending[0].words, 1
        for piece, following in pairwise(self._pending):
            more = words + _count_gap_words(piece, following) + following.words
            if more > (self._max_words if words > self._tiny else self._longest):
                break
            words, taken = more, taken + 1
        self._emit(taken, self._max_words - self._pending[taken].words)
        self._continues_section = True

    def _emit(self, taken: int, room: int) -> None:
        """Emit the first `taken` pending pieces. The overlap, up to `room` words, then comes before the other pieces."""
        self._previous, rest = self._pending[:taken], self._pending[taken:]
        self._chunks.append(_join_pieces(self._previous))
        self._set_pending([*self._take_overlap(rest[0], room), *rest])

    def _take_overlap(self, following: ChunkPiece, room: int) -> list[ChunkPiece]:
        """Return the last pieces of the previous chunk that fit into the room and the overlap, without headings."""
        if following.level or not self._overlap:
            return []
        room = min(self._overlap, room) - _count_gap_words(self._previous[-1], following)
        first = len(self._previous)
        while first and not self._previous[first - 1].level and self._previous[first - 1].words <= room:
            first -= 1
            room -= self._previous[first].words + (
                _count_gap_words(self._previous[first - 1], self._previous[first]) if first else 0
            )
        return self._previous[first:]

    def _close(self, least: int) -> None:
        """Emit the pending pieces. If they have fewer than `least` words, they join the previous chunk.

        If both together are too long, they are divided into two halves.
        """
        if self._previous and self._pending and self._pending_words < least:
            together = self._previous + [piece for piece in self._pending if piece.start >= self._previous[-1].end]
            self._chunks.pop()
            self._set_pending(together)
            if self._pending_words > self._longest:
                half = min(
                    range(1, len(self._pending)),
                    key=lambda position: abs(2 * _count_words(self._pending[:position]) - self._pending_words),
                )
                self._emit(half, self._longest - _count_words(self._pending[half:]))
        if self._pending:
            self._chunks.append(_join_pieces(self._pending))
            self._previous = self._pending
        self._set_pending([])
        self._continues_section = False

    def _set_pending(self, pieces: list[ChunkPiece]) -> None:
        self._pending, self._pending_words = pieces, _count_words(pieces)


def _count_words(pieces: Sequence[ChunkPiece]) -> int:
    return sum(piece.words for piece in pieces) + sum(
        _count_gap_words(one, following) for one, following in pairwise(pieces)
    )


def _count_gap_words(one: ChunkPiece, following: ChunkPiece) -> int:
    """Return the length of the spaces between two pieces in words, because a chunk contains them."""
    return (following.start - one.end) // CHARS_PER_WORD


def _join_pieces(pieces: Sequence[ChunkPiece]) -> Chunk:
    """Return the chunk of these pieces. Its heading is the label of the first piece that is not a heading."""
    first = next((piece for piece in pieces if not piece.level), pieces[-1])
    return Chunk(pieces[0].start, pieces[-1].end, first.label)


def split_chunks(text: str, *, language: str = "en", max_words: int = MAX_WORDS, overlap: int = 0) -> list[Chunk]:
    """Return the chunks in order. Together they contain the whole text except spaces.

    A chunk has at most about `max_words`, or STRETCH times as many if the rest would be tiny. A whole text of that length is
    one chunk. In a longer text, a heading begins a chunk. If a section is too long and is cut, both chunks contain up to
    `overlap` words at the cut, as whole sentences or paragraphs.
    """
    packer = _make_packer(text, max_words, overlap)
    for block in read_outline(text):
        if block.kind == "heading" and (heading := _read_heading(text, block)).words <= max_words // 2:
            packer.add_heading(heading)
        else:
            for piece in _split_block(text, block, language, max_words):
                packer.add(piece)
    return packer.finish()


def _make_packer(text: str, max_words: int, overlap: int) -> ChunkPacker:
    most = count_longest_chunk_words(max_words)
    if len(text) < (most + 1) * CHARS_PER_WORD and measure_words(text) <= most:
        more_than_all = len(text) + 1
        return ChunkPacker(more_than_all, overlap=0, shortest=more_than_all)
    return ChunkPacker(max_words, overlap, min(MIN_WORDS, max_words // 2))


def _read_heading(text: str, block: OutlineBlock) -> ChunkPiece:
    start, end = _trim(text, block.start, block.end)
    line = text[start:end]
    title = " ".join(heading_title(line)[:MAX_HEADING_CHARS].split())
    return ChunkPiece(start, end, measure_words(line), block.level, title)


def _split_block(text: str, block: OutlineBlock, language: str, max_words: int) -> Iterator[ChunkPiece]:
    """Yield the block if it fits, else its sentences (prose) or lines (code). A sentence that is too long is cut further."""
    start, end = _trim(text, block.start, block.end)
    if start == end:
        return
    if (words := measure_words(text[start:end])) <= max_words:
        yield ChunkPiece(start, end, words)
        return
    is_prose = block.kind == "prose"
    for span in _split_into_sentences(text, start, end, language) if is_prose else _split_into_lines(text, start, end):
        yield from _cut_long(text, *span, max_words)


def _split_into_sentences(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    return ((start + first, start + last) for first, last in iterate_sentences(text[start:end], language))


def _split_into_lines(text: str, start: int, end: int) -> Iterator[Span]:
    for match in _LINE.finditer(text, start, end):
        first, last = _trim(text, match.start(), match.end(), keep_indent=True)
        if first < last:
            yield first, last


def _cut_long(text: str, start: int, end: int, max_words: int) -> Iterator[ChunkPiece]:
    """Yield this part if it fits, else parts of its lines with at most `max_words`."""
    if (words := measure_words(text[start:end])) <= max_words:
        yield ChunkPiece(start, end, words)
        return
    for line in _split_into_lines(text, start, end):
        for span in _cut_line(text, *line, max_words):
            yield ChunkPiece(*span, measure_words(text[slice(*span)]))


def _cut_line(text: str, start: int, end: int, max_words: int) -> Iterator[Span]:
    """Yield parts of at most `max_words`, cut at spaces if there are any."""
    size = max_words * CHARS_PER_WORD
    for begin, stop in _split_windows(text, start, end, size):
        words = measure_words(text[begin:stop])
        if words <= max_words:
            yield begin, stop
        else:
            share = max(1, (stop - begin) * max_words // words)
            yield from _halve(text, begin, stop, share, max_words)


def _halve(text: str, start: int, end: int, size: int, max_words: int) -> Iterator[Span]:
    """Yield parts of about `size` characters. A part with too many words is halved until it fits."""
    for begin, stop in _split_windows(text, start, end, size):
        if stop - begin > 1 and measure_words(text[begin:stop]) > max_words:
            yield from _halve(text, begin, stop, (stop - begin + 1) // 2, max_words)
        else:
            yield begin, stop


def _split_windows(text: str, start: int, end: int, size: int) -> Iterator[Span]:
    """Yield trimmed parts of at most `size` characters. A part ends at a space of its second half if it has one."""
    while start < end:
        stop = min(end, start + size)
        if stop < end:
            blank = max(text.rfind(" ", start + size // 2, stop), text.rfind("\n", start + size // 2, stop))
            stop = blank + 1 if blank >= 0 else stop
        first, last = _trim(text, start, stop)
        if first < last:
            yield first, last
        start = stop


def _trim(text: str, start: int, end: int, *, keep_indent: bool = False) -> Span:
    piece = text[start:end]
    last = start + len(piece.rstrip())
    first = start + len(piece) - len(piece.lstrip("\n" if keep_indent else None))
    return (first, last) if first < last else (start, start)


def measure_words(piece: str) -> int:
    """Return the number of words. Scripts without spaces and long strings are measured in characters."""
    words = len(piece.split())
    if not piece.isascii():
        words += len(_UNSPACED.findall(piece)) // UNSPACED_CHARS_PER_WORD
    return max(words, len(piece) // CHARS_PER_WORD, 1)
