"""Put the pieces of a text, which are never cut any more, together into passages that are neither long nor tiny.

A passage has `max_words` at most where there is more to come. What is left of a section then may make it longer by STRETCH,
or else begins another passage, which is no tiny one. Linear in the number of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

# Times `max_words`: what a section's end, or a short text, may have and still be one passage. On the questions of
# tests/quality/retrieval nDCG@10 was .452 with it, .444 with 1.2 and with 1.6.
STRETCH: Final = 1.4
TINY_SHARE: Final = 1 / 3  # of `max_words`: what is cut off a section by its length has more than that
MIN_WORDS: Final = 30  # below this a passage goes on under the next heading: a heading alone answers nothing
CHARS_PER_WORD: Final = 12  # upper bound: tables and data have no words to count
TRAIL: Final = " > "  # between the headings that lead to a passage

Stretch = tuple[int, int, str]  # where a passage begins and ends, and the headings above it


@dataclass(slots=True)
class Piece:
    """A paragraph, a sentence, a line of code. `level` and `title` are those of a heading, `label` is the trail to here."""

    start: int
    end: int
    words: int
    level: int = 0
    title: str = ""
    label: str = ""


def longest(max_words: int) -> int:
    """Words of the longest passage."""
    return int(max_words * STRETCH)


class Packer:
    """Takes pieces in their order. A section is what stands between two headings that each have MIN_WORDS above them."""

    def __init__(self, max_words: int, overlap: int, shortest: int = MIN_WORDS) -> None:
        """`shortest` is MIN_WORDS, or more to keep sections together."""
        self._max_words = max_words
        self._longest = longest(max_words)
        self._tiny = int(max_words * TINY_SHARE)
        self._shortest = shortest
        self._overlap = min(overlap, max_words // 2)
        self._held: list[Piece] = []  # of the passage that is being gathered, and what may go on to the next one
        self._words = 0
        self._before: list[Piece] = []  # of the passage before, which a tiny one joins
        self._is_rest = False  # what is held goes on with the section of the passage before
        self._trail: list[Piece] = []
        self._label = ""
        self._passages: list[Stretch] = []

    def heading(self, piece: Piece) -> None:
        if self._words >= self._shortest and not all(held.level for held in self._held):
            self._close(self._tiny if self._is_rest else 0)
        self._trail = [above for above in self._trail if above.level < piece.level] + [piece]
        self._label = TRAIL.join(above.title for above in self._trail if above.title)
        self.add(piece)

    def add(self, piece: Piece) -> None:
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

    def _carried(self, following: Piece, room: int) -> list[Piece]:
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

    def _hold(self, pieces: list[Piece]) -> None:
        self._held, self._words = pieces, _weigh(pieces)


def _weigh(pieces: Sequence[Piece]) -> int:
    return sum(piece.words for piece in pieces) + sum(_gap(one, following) for one, following in pairwise(pieces))


def _gap(one: Piece, following: Piece) -> int:
    """What the blanks between them weigh, in words: they are sent along with a passage."""
    return (following.start - one.end) // CHARS_PER_WORD


def _stretch(pieces: Sequence[Piece]) -> Stretch:
    """Under the headings above its first words that are none."""
    first = next((piece for piece in pieces if not piece.level), pieces[-1])
    return pieces[0].start, pieces[-1].end, first.label
