"""The tables of a source, and which of their rows a claim names."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
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


class _Name(NamedTuple):
    words: tuple[str, ...]
    place: int
    column: int


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

    def _find_names(self, words: Sequence[PlacedWord], known: Mapping[str, Sequence[_Name]]) -> list[NamedRow]:
        found, at = list[NamedRow](), 0
        while at < len(words):
            names = [
                (length, name) for name in known.get(words[at].word, ()) if (length := self._measure(name, words, at))
            ]
            longest = max((length for length, _ in names), default=0)
            meant = [name for length, name in names if length == longest]
            if len({name.place for name in meant}) == 1:
                found.append(NamedRow(meant[0].place, meant[0].column, words[at].start, words[at + longest - 1].end))
            at += max(1, longest)
        return found

    def _measure(self, name: _Name, words: Sequence[PlacedWord], at: int) -> int:
        """Return how many words of a name are here: all, or at least its first two; else 0."""
        here = [word.word for word in words[at : at + len(name.words)]]
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(here, name.words, strict=False)))
        if same < min(MIN_NAME_WORDS, len(name.words)):
            return 0
        # A number names a row only after the name of its column: `invoice 2041`.
        is_number = all(word.isdigit() for word in name.words)
        return same if not is_number or (at > 0 and is_asked(words[at - 1].word, self.table.names[name.column])) else 0

    @cached_property
    def _names(self) -> tuple[dict[str, list[_Name]], dict[str, list[_Name]]]:
        """The names of rows by their first word: first those of the first column and of columns without equal cells."""
        first: dict[str, list[_Name]] = {}
        others: dict[str, list[_Name]] = {}
        for column in range(len(self.table.columns)):
            if self._has_names(column):
                cells = self.table.list_cells(column)
                counts = Counter(cells)
                names = first if not first or len(set(cells)) == len(cells) else others
                for place, cell in enumerate(cells):
                    if counts[cell] > 1:
                        continue
                    words = tuple(word.word for word in list_placed_words(cell))
                    if words and len(words) <= MAX_NAME_WORDS:
                        names.setdefault(words[0], []).append(_Name(words, place, column))
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
