"""The tables of a source, and which of their rows a claim names."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.table_text import PlacedTable, find_tables
from modules.llm_platform.domain.extractive.table_words import is_asked, split_cell
from modules.llm_platform.domain.extractive.tables import Table
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

HIDDEN: Final = "\x00"  # replaces each character of a name, so that what is after it keeps its place
MAX_NAME_WORDS: Final = 12
MIN_NAME_WORDS: Final = 2  # of a longer name that a claim cuts off: `mini digger` is the `Mini digger (1.5 t)`
MIN_NAMES_SHARE: Final = 0.5  # of the rows have a name of their own
_BAR: Final = re.compile(r"(?<!\\)\|")
_GENITIVE: Final = re.compile(r"['’]s?$")


class PlacedWord(NamedTuple):
    """A folded word of a claim, without the ending of a genitive, and its span."""

    word: str
    start: int
    end: int


class NamedRow(NamedTuple):
    """The place of a row in its table, the column of the cell that names it, and the span of the name in the claim."""

    place: int
    column: int
    start: int
    end: int


_Cell = tuple[int, int]
"""A cell by its place and its column."""


class _Names:
    """The names of rows by their words. A claim may cut a longer name off after its first two words, if one row begins so."""

    def __init__(self) -> None:
        self.whole: dict[tuple[str, ...], _Cell | None] = {}
        self.begun: dict[tuple[str, ...], _Cell | None] = {}

    def add(self, words: tuple[str, ...], cell: _Cell) -> None:
        _add(self.whole, words, cell)
        for end in range(MIN_NAME_WORDS, len(words)):
            _add(self.begun, words[:end], cell)

    def find(self, words: tuple[str, ...]) -> _Cell | None:
        return self.whole.get(words) or self.begun.get(words)


def _add(names: dict[tuple[str, ...], _Cell | None], words: tuple[str, ...], cell: _Cell) -> None:
    """Add a name. One of two rows names none."""
    known = names.get(words, cell)
    names[words] = cell if known and known[0] == cell[0] else None


def list_placed_words(text: str) -> list[PlacedWord]:
    found = WORD_WITH_APOSTROPHE.finditer(text)
    return [PlacedWord(strip_genitive(fold(word[0]).replace("’", "'")), *word.span()) for word in found]


def strip_genitive(word: str) -> str:
    return _GENITIVE.sub("", word)


@dataclass(frozen=True)
class SourceTable:
    """A table of a source. `is_whole` is True if it has all rows that its document has."""

    placed: PlacedTable
    is_whole: bool

    @property
    def table(self) -> Table:
        return self.placed.table

    @property
    def spans(self) -> Sequence[Span]:
        """The spans of the rows in the source."""
        return self.placed.spans

    def find_cell(self, text: str, place: int, column: int) -> Span:
        """Return the span of a cell in the text of the source; of its row if the row has not so many."""
        start, end = self.spans[place]
        bars = [found.start() for found in _BAR.finditer(text, start, end)]
        if column + 1 >= len(bars):
            return start, end
        cell = text[bars[column] + 1 : bars[column + 1]]
        first = bars[column] + 1 + len(cell) - len(cell.lstrip())
        return first, first + len(cell.strip())

    def find_named_rows(self, words: Sequence[PlacedWord]) -> list[NamedRow]:
        """Return the rows whose name is in the claim, in the order of the claim. Of overlapping names the longest counts.

        Cells of a column in which some rows are alike name a row only in a claim without another name.
        """
        first, others = self._names
        return self._find_names(words, first) or self._find_names(words, others)

    def _find_names(self, words: Sequence[PlacedWord], known: _Names) -> list[NamedRow]:
        found, at = list[NamedRow](), 0
        while at < len(words):
            here = tuple(word.word for word in words[at : at + MAX_NAME_WORDS])
            length, cell = next(
                ((end, cell) for end in range(len(here), 0, -1) if (cell := known.find(here[:end]))), (1, None)
            )
            if cell is not None and self._is_meant(here[:length], cell, words, at):
                found.append(NamedRow(*cell, words[at].start, words[at + length - 1].end))
            at += length
        return found

    def _is_meant(self, name: Sequence[str], cell: _Cell, words: Sequence[PlacedWord], at: int) -> bool:
        """A number names a row only after the name of its column: `invoice 2041`."""
        is_number = all(word.isdigit() for word in name)
        return not is_number or (at > 0 and is_asked(words[at - 1].word, self.table.names[cell[1]]))

    @cached_property
    def _names(self) -> tuple[_Names, _Names]:
        """The names of rows: the names in the first column and in columns without equal cells, and the names in other columns."""
        first, others = _Names(), _Names()
        for column in range(len(self.table.columns)):
            if self._has_names(column):
                cells = self.table.list_cells(column)
                counts = Counter(cells)
                names = first if not first.whole or len(counts) == len(cells) else others
                for place, cell in enumerate(cells):
                    words = tuple(word.word for word in list_placed_words(cell))
                    if counts[cell] == 1 and 0 < len(words) <= MAX_NAME_WORDS:
                        names.add(words, (place, column))
        return first, others

    def _has_names(self, column: int) -> bool:
        """Return whether most cells of a column are different, and they are no dates and, but in the first column, no
        quantities.
        """
        cells = [cell for cell in self.table.list_cells(column) if cell.strip()]
        if len(set(cells)) < MIN_NAMES_SHARE * len(self.table.rows):
            return False
        if column == 0:
            return column not in self.table.dates or not all(any(map(str.isdigit, cell)) for cell in cells)
        if column in self.table.dates or column in self.table.quantities:
            return False
        return all(any(len(word) > 1 and not word.isdigit() for word in split_cell(cell)) for cell in cells)


def read_source_tables(text: str, title: str, *, is_whole: bool) -> list[SourceTable]:
    """Return the tables of a source. `is_whole` is True if the text is known to have all of its document."""
    return [SourceTable(placed, is_whole and placed.has_all_rows) for placed in find_tables(text, title)]


def hide(text: str, spans: Sequence[Span]) -> str:
    """Return the text with these spans hidden."""
    for start, end in spans:
        text = text[:start] + HIDDEN * (end - start) + text[end:]
    return text
