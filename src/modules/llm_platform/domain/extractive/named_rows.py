"""Find the table rows that a question names by the words of a cell: `What does Bella cost?` names the row of Bella."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.rows_beyond import is_compared_with
from modules.llm_platform.domain.extractive.table_words import (
    CACHED_CELLS,
    add_word_parts,
    fold_words,
    is_cell_named,
    list_content_words,
    load_word_list,
    matches_any_word,
    split_cell,
)
from modules.llm_platform.domain.extractive.tables import MAX_COUNTED, MAX_EQUAL, group_rows
from modules.llm_platform.domain.text.negation import count_negators

MIN_WIDE_COLUMNS: Final = 8  # columns


def find_named_rows(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the rows that the question names, if it asks for one of their columns and nothing else: `the rent of Porto`.

    A row is named by all words of a cell, and a column by all words of its name. Titles, headings and the names of other
    columns may be in the question too. Rows of two tables, or more than MAX_EQUAL rows, are not an answer, nor is a row that
    others are compared with.
    """
    if count_negators(fold_words(question.text)):
        return []
    content = tuple(word for word in list_content_words(question) if word not in load_word_list("counting"))
    rows = [one for one in candidates if one.sentence.row and _matches_whole_question(one, content)]
    if any(is_compared_with(question, one.sentence.row) for one in rows):
        return []
    return rows if len({row.columns_key for row in rows}) == 1 and len(rows) <= MAX_EQUAL else []


def _matches_whole_question(row: Candidate, content: tuple[str, ...]) -> bool:
    """Return whether the words name a cell of the row and another column, and no word names anything else.

    The column of the cell is enough if it is not the first one: `Who is in the sales team?` asks for the rows.
    """
    cells = row.sentence.row
    asked = _find_named_columns(row.sentence.columns, content, in_full=True)
    naming = _find_named_cells(row, content) if asked else ()
    names_all_rows = naming == asked and 0 not in naming
    if not naming or not (names_all_rows or any(cells[column] for column in asked if column not in naming)):
        return False
    texts = (row.source.title, row.sentence.heading, *row.sentence.columns, *(cells[column] for column in naming))
    known = [word for text in texts for word in split_cell(text)]
    return all(matches_any_word(word, known) for word in content)


def remove_other_rows(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without the rows that the question does not mean.

    If the question names a cell that only one row of a table has, the rows of this table without such a cell are left out:
    `Who drives AB 12 C?` does not ask about the car AB 12 D, though most of its words are in that row too.
    """
    content = tuple(list_content_words(question))
    others: set[int] = set()
    for rows in group_rows(candidates):
        counts = Counter(cell for row in rows for cell in set(row.sentence.row))
        named = [
            any(counts[row.sentence.row[column]] == 1 for column in _find_named_cells(row, content)) for row in rows
        ]
        others |= {id(row) for row, is_named in zip(rows, named, strict=True) if any(named) and not is_named}
    return [one for one in candidates if id(one) not in others]


def pick_asked_cells(question: Question, row: Candidate) -> list[tuple[str, str]]:
    """Return the cells of a row for a model to read, each with the name of its column.

    A small model overlooks one cell among fifteen others. A row of at least MIN_WIDE_COLUMNS columns is therefore reduced to
    its first cell and the cells that the question names, by their column or their text. If it names none, all cells are returned.
    """
    cells = list(zip(row.sentence.columns, row.sentence.row, strict=True))
    if len(cells) < MIN_WIDE_COLUMNS:
        return cells
    content = tuple(list_content_words(question))
    named = {*_find_named_columns(row.sentence.columns, content), *_find_named_cells(row, content)} - {0}
    return [cells[column] for column in (0, *sorted(named))] if named else cells


def names_several_rows(question: Question, rows: Iterable[Sequence[str]]) -> bool:
    """Return whether the question names a cell of several of these rows, but not of all of them."""
    content = tuple(add_word_parts(list_content_words(question)))
    named = [any(_is_named(cell, content) for cell in row) for row in rows]
    return 1 < sum(named) < len(named)


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows of one table that a question names by the same words.

    `naming` are the columns of the cells that name them, and `words` the words of these cells that the question has.
    """

    rows: tuple[Candidate, ...]
    naming: frozenset[int]
    words: frozenset[str]


def group_named_rows(question: Question, candidates: Sequence[Candidate]) -> list[NamedRows]:
    """Return the rows that the question names, in groups. Groups named by more words come first, then smaller groups.

    A row is named by a whole cell, or by the first and another word of a cell if these words name no second row. A group is
    left out if another group of its table is named by the same words and more. A question with a "not" names no rows.
    """
    if count_negators(fold_words(question.text)):
        return []
    asked = _QuestionWords(question)
    tables = group_rows([one for one in candidates if one.own_credits])
    groups = [group for rows in tables for group in _group_by_name(rows, asked)]
    return sorted(groups, key=lambda group: (-len(group.words), len(group.rows)))


def add_rows_with_same_name(chosen: Sequence[Candidate], groups: Sequence[NamedRows]) -> list[Candidate]:
    """Add the rows that the question names by the same words as a chosen row: `Which boats are kept in Hall B?` lists all.

    A question that compares rows names each by words of its own: `Is Anna longer than Carla?` needs both.
    """
    found = list(chosen)
    for group in groups:
        rows = [*group.rows, *_list_compared(group, groups)]
        indices = [found.index(row) for row in group.rows if row in found]
        if indices:
            others = [one for one in found if one not in rows]
            found = [*others[: indices[0]], *rows, *others[indices[0] :]]
    return found


def _list_compared(group: NamedRows, groups: Sequence[NamedRows]) -> list[Candidate]:
    """Return the rows of the same table that other words of the question name, if these and the group name one row each."""
    single = [one for one in groups if len(one.rows) == 1] if len(group.rows) == 1 else []
    key = group.rows[0].columns_key
    return [one.rows[0] for one in single if not one.words & group.words and one.rows[0].columns_key == key]


class _QuestionWords:
    """The words of a question that may name a row, with a cache of the words of cells that are among them."""

    def __init__(self, question: Question) -> None:
        self._words = add_word_parts(fold_words(question.text))
        self._content = add_word_parts(list_content_words(question))
        self._known: dict[str, tuple[bool, bool]] = {}

    def find_name(self, cell: str) -> frozenset[str]:
        """Return the words by which the question names a cell: all of it, or its first word and another one.

        One of them must be neither a function word of the question nor a number.
        """
        words = split_cell(cell)
        asked = [word for word in words if self._look_up(word)[0]]
        letters = [word for word in asked if not word.isdigit()]
        is_name = len(asked) == len(words) or (len(set(letters)) > 1 and words[0] in asked)
        return frozenset(asked) if is_name and any(self._look_up(word)[1] for word in letters) else frozenset()

    def has_all(self, cell: str) -> bool:
        return all(self._look_up(word)[0] for word in split_cell(cell))

    def _look_up(self, word: str) -> tuple[bool, bool]:
        """Return whether the question has the word, and whether it has the word as a content word."""
        if word not in self._known:
            self._known[word] = matches_any_word(word, self._words), matches_any_word(word, self._content)
        return self._known[word]


def _group_by_name(rows: Sequence[Candidate], asked: _QuestionWords) -> list[NamedRows]:
    """Group the rows of a table by the words that name them."""
    by_name: dict[tuple[frozenset[int], frozenset[str]], list[Candidate]] = {}
    for row in rows:
        names = {column: words for column, cell in enumerate(row.sentence.row) if (words := asked.find_name(cell))}
        if names:
            by_name.setdefault((frozenset(names), frozenset().union(*names.values())), []).append(row)
    groups = [NamedRows(tuple(alike), *name) for name, alike in by_name.items()]
    return [
        group
        for group in groups
        if len(group.rows) <= (MAX_COUNTED if _is_named_in_full(group, asked) else 1)
        and not any(group.words < other.words for other in groups)
    ]


def _is_named_in_full(group: NamedRows, asked: _QuestionWords) -> bool:
    return any(asked.has_all(group.rows[0].sentence.row[column]) for column in group.naming)


@lru_cache(maxsize=CACHED_CELLS)
def _find_named_columns(
    columns: tuple[str, ...], content: tuple[str, ...], *, in_full: bool = False
) -> tuple[int, ...]:
    """Return the columns with a word of their name among these words, or, `in_full`, with all words of it."""
    enough = all if in_full else any
    names = map(split_cell, columns)
    return tuple(
        column for column, name in enumerate(names) if name and enough(matches_any_word(word, content) for word in name)
    )


def _find_named_cells(row: Candidate, content: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(column for column, cell in enumerate(row.sentence.row) if _is_named(cell, content))


@lru_cache(maxsize=CACHED_CELLS)
def _is_named(cell: str, content: tuple[str, ...]) -> bool:
    return is_cell_named(split_cell(cell), content)
