"""Find the rows with the most frequent cell of a column: `Who has the most late shifts?` asks for the name in most rows."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_rows import read_ranking_question
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.superlatives import find_superlative
from modules.llm_platform.domain.extractive.table_words import load_word_list, matches_any_word, split_cell
from modules.llm_platform.domain.extractive.tables import (
    MAX_COUNTED,
    RowsFound,
    Table,
    filter_rows,
    keep_nearest_tables,
)
from modules.llm_platform.domain.text.negation import count_negators

MIN_ROWS_OF_MOST_FREQUENT: Final = 2  # a cell in a single row is not frequent


def asks_for_most_frequent(question: Question) -> bool:
    """Return whether a question asks for the most of something that has no measure."""
    asked = read_ranking_question(question)
    asks = any(one.kind == "highest" and one.measure is None for one in asked.superlatives)
    # `most shifts` and `most often` count rows. `paid the most` asks for a sum.
    after_most = set(asked.words[find_superlative(asked.words) + 1 :][:1])
    counts_rows = not after_most.isdisjoint({*asked.content, *load_word_list("often")})
    return asks and counts_rows and not count_negators(asked.words)


def find_most_frequent_rows(
    question: Question, tables: Sequence[Table], _candidates: Sequence[Candidate]
) -> RowsFound | None:
    """Return the rows of a whole table with the most frequent cell; None if the column is uncertain, or if two cells tie."""
    asked = read_ranking_question(question)
    left_out = load_word_list("often") | load_word_list("of_rotas")
    content = [word for word in asked.content if word not in left_out]
    nearest = keep_nearest_tables(tables, content)
    found = [rows for table in nearest if (rows := _find_rows(table, content)) is not None]
    return found[0] if len(found) == 1 else None


def _find_rows(table: Table, content: Sequence[str]) -> RowsFound | None:
    column = _choose_column(table, content)
    if column is None or table.count_matches(content) < len(content):
        return None
    others = [word for word in content if not matches_any_word(word, table.column_words[column])]
    cells = {index: table.rows[index][column] for index in filter_rows(table, others)}
    counts = Counter(split_cell(cell) for cell in cells.values() if cell.strip()).most_common(2)
    is_certain = len(counts) > 1 and counts[0][1] > counts[1][1]
    if not is_certain or not MIN_ROWS_OF_MOST_FREQUENT <= counts[0][1] <= MAX_COUNTED:
        return None
    kept = tuple(index for index, cell in cells.items() if split_cell(cell) == counts[0][0])
    return RowsFound(table, kept, len(cells), name=cells[kept[0]])


def _choose_column(table: Table, content: Sequence[str]) -> int | None:
    """Return the only column of text that the question names.

    Return None if the question may be about numbers: the question names a column of numbers, or the table has such a column and
    the question does not name the first column, whose rows would be counted.
    """
    named = [column for column in table.list_columns_by_own_words(content) if column]
    counts_rows = any(matches_any_word(word, content) for word in table.column_words[0])
    has_numbers = any(map(table.quantities.__contains__, range(1, len(table.columns))))
    if len(named) != 1 or named[0] in {*table.quantities, *table.dates} or (has_numbers and not counts_rows):
        return None
    return named[0]
