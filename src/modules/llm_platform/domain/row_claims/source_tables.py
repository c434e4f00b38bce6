"""Find the tables of a source, and the rows that a claim names."""

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.measures import is_measuring_word
from modules.llm_platform.domain.extractive.table_text import PlacedTable, find_tables
from modules.llm_platform.domain.extractive.table_words import (
    load_word_list,
    matches_any_word,
    split_cell,
    strip_genitive,
)
from modules.llm_platform.domain.extractive.tables import Table
from modules.llm_platform.domain.markdown.cells import list_cell_spans
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

MASK: Final = "\x00"  # replaces each character of a name, so that all offsets stay valid
MAX_NAME_WORDS: Final = 12
MIN_NAME_WORDS: Final = 2  # of a longer name that a claim cuts off: `mini digger` is the `Mini digger (1.5 t)`
PLURAL_ENDING: Final = "s"
MIN_LETTERS: Final = 3  # of a single word that names a row
MIN_NAMES_SHARE: Final = 0.5  # of the rows have a name of their own


class PlacedWord(NamedTuple):
    """A folded word of a claim without the genitive ending, and its span."""

    word: str
    start: int
    end: int


class RowMention(NamedTuple):
    """The name of a row in a claim: the row, the column of the cell with the name, and the span of the name in the claim.

    `is_part` is True if the claim has only one word of a longer name.
    """

    row_index: int
    column: int
    start: int
    end: int
    is_part: bool = False


_Cell = tuple[int, int]
"""The indices of the row and the column of a cell."""


class _NameIndex:
    """Maps the words of names to the cells with these names. None marks words that two rows share.

    - `whole` has the whole names.
    - `begun` has the beginnings of longer names, from two words on.
    - `single` has single words of the names in the column `single_column`.
    """

    def __init__(self, single_column: int) -> None:
        self._single_column = single_column
        self.whole: dict[tuple[str, ...], _Cell | None] = {}
        self.begun: dict[tuple[str, ...], _Cell | None] = {}
        self.single: dict[tuple[str, ...], _Cell | None] = {}

    def add(self, words: tuple[str, ...], cell: _Cell) -> None:
        _add(self.whole, words, cell)
        for end in range(MIN_NAME_WORDS, len(words)):
            _add(self.begun, words[:end], cell)
        for word in set(words) if cell[1] == self._single_column else ():
            _add(self.single, (word,), cell)

    def find(self, words: tuple[str, ...], stop_words: Collection[str]) -> _Cell | None:
        """Return the cell with these words. The last word may be a plural: `photo albums`."""
        if words[-1] in stop_words:
            return self.whole.get(words)
        if (cell := self._get(words)) is not None or len(words) < MIN_NAME_WORDS:
            return cell  # "Adams" is not "Adam"
        return self._get((*words[:-1], words[-1].removesuffix(PLURAL_ENDING)))

    def _get(self, words: tuple[str, ...]) -> _Cell | None:
        return self.whole.get(words) or self.begun.get(words)


def _remove_joined(found: Sequence[RowMention]) -> list[RowMention]:
    """Return the mentions without adjacent ones that are parts of two names: `Snake Palm` is not `Snake Plant`."""
    pairs = itertools.pairwise(found)
    joined = {
        one for pair in pairs if pair[1].start - pair[0].end == 1 and all(row.is_part for row in pair) for one in pair
    }
    return [row for row in found if row not in joined]


def _add(names: dict[tuple[str, ...], _Cell | None], words: tuple[str, ...], cell: _Cell) -> None:
    """Add a name. A name shared by two rows identifies neither."""
    known = names.get(words, cell)
    names[words] = cell if known and known[0] == cell[0] else None


def list_placed_words(text: str) -> list[PlacedWord]:
    found = WORD_WITH_APOSTROPHE.finditer(text)
    return [PlacedWord(strip_genitive(fold(word[0]).replace("’", "'")), *word.span()) for word in found]


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

    def find_cell(self, text: str, index: int, column: int) -> Span:
        """Return the span of a cell in the source; if the row is shorter, the span of the row."""
        start, end = self.spans[index]
        cells = list_cell_spans(text[start:end])
        if column >= len(cells):
            return start, end
        first, last = cells[column]
        cell = text[start + first : start + last]
        first = start + first + len(cell) - len(cell.lstrip())
        return first, first + len(cell.strip())

    def find_mentions(self, words: Sequence[PlacedWord], language: str) -> list[RowMention]:
        """Return the names of rows in the claim, in order. If names overlap, the longest one counts.

        A column with equal cells only names rows if the claim has no name from the other columns.
        """
        first, others = self._names
        return self._find_names(words, first, language) or self._find_names(words, others, language)

    def _find_names(self, words: Sequence[PlacedWord], known: _NameIndex, language: str) -> list[RowMention]:
        found, at, stop_words = list[RowMention](), 0, load_stop_words(language)
        while at < len(words):
            here = tuple(word.word for word in words[at : at + MAX_NAME_WORDS])
            length, cell = next(
                ((end, cell) for end in range(len(here), 0, -1) if (cell := known.find(here[:end], stop_words))),
                (1, None),
            )
            is_part = cell is None and self._is_distinctive(here[0], language) and here[:2] not in known.begun
            cell = known.single.get(here[:1]) if is_part else cell
            if cell is not None and self._is_meant(here[:length], cell, words, at):
                found.append(RowMention(*cell, words[at].start, words[at + length - 1].end, is_part))
            at += length
        return _remove_joined(found)

    def _is_distinctive(self, word: str, language: str) -> bool:
        """Return whether a word of a longer name names its row alone: no other cell and no column has it."""
        is_common = len(word) < MIN_LETTERS or not word.isalpha() or is_measuring_word(word)
        is_common = is_common or word in load_stop_words(language)
        return not is_common and self.table.count_cells(word) == 1 and not self.table.is_in_columns(word)

    def _is_meant(self, name: Sequence[str], cell: _Cell, words: Sequence[PlacedWord], at: int) -> bool:
        """Return whether a name is meant. A number names a row only after the name of its column: `invoice 2041`."""
        is_number = all(word.isdigit() for word in name)
        return not is_number or (at > 0 and matches_any_word(words[at - 1].word, self.table.column_words[cell[1]]))

    @cached_property
    def _names(self) -> tuple[_NameIndex, _NameIndex]:
        """The names in the first column with names and in columns without equal cells, and the names in other columns."""
        columns = filter(self._has_names, range(len(self.table.columns)))
        single_column = next(filter(self._has_words, columns), 0)
        first, others = _NameIndex(single_column), _NameIndex(single_column)
        says_yes_or_no = load_word_list("yes") | load_word_list("lacking")
        for column in range(len(self.table.columns)):
            if self._has_names(column):
                cells = self.table.list_cells(column)
                counts = Counter(cells)
                names = first if not first.whole or len(counts) == len(cells) else others
                for index, cell in enumerate(cells):
                    words = tuple(word.word for word in list_placed_words(cell))
                    is_name = 0 < len(words) <= MAX_NAME_WORDS and not says_yes_or_no.issuperset(words)
                    if counts[cell] == 1 and is_name:
                        names.add(words, (index, column))
        return first, others

    def _has_words(self, column: int) -> bool:
        """Return whether at least MIN_NAMES_SHARE of the cells have a word of letters, and not only a number or code."""
        cells = [list_placed_words(cell) for cell in self.table.list_cells(column)]
        named = sum(any(word.word.isalpha() and len(word.word) >= MIN_LETTERS for word in words) for words in cells)
        return named >= MIN_NAMES_SHARE * len(self.table.rows)

    def _has_names(self, column: int) -> bool:
        """Return whether the cells of a column can name rows: at least MIN_NAMES_SHARE of them differ, and they are not dates.

        Quantities can only name rows in the first column.
        """
        cells = [cell for cell in self.table.list_cells(column) if cell.strip()]
        if len(set(cells)) < MIN_NAMES_SHARE * len(self.table.rows):
            return False
        if column == 0:
            return column not in self.table.dates or not all(any(map(str.isdigit, cell)) for cell in cells)
        if column in self.table.dates or column in self.table.quantities:
            return False
        return all(any(len(word) > 1 and not word.isdigit() for word in split_cell(cell)) for cell in cells)


def read_source_tables(text: str, title: str, *, is_whole: bool, source: int = 0) -> list[SourceTable]:
    """Return the tables of a source. `is_whole` is True if the text is known to have all of its document."""
    return [SourceTable(placed, is_whole and placed.has_all_rows) for placed in find_tables(text, title, source)]


def mask(text: str, spans: Sequence[Span]) -> str:
    """Return the text with these spans masked."""
    for start, end in spans:
        text = text[:start] + MASK * (end - start) + text[end:]
    return text
