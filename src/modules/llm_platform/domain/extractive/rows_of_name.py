"""Find the rows with a name that several columns of a table have, such as the columns of a rota: `How often does Jonas work?`

If the question names one of these columns (`How many early shifts does Jonas have?`), only the rows with the name in that column
answer. Otherwise all rows with the name answer.
"""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.dated_rows import asks_for_dated_rows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.table_words import (
    fold_words,
    list_content_words,
    load_word_list,
    matches_any_word,
    split_cell,
)
from modules.llm_platform.domain.extractive.tables import (
    MAX_COUNTED,
    RowsFound,
    Table,
    filter_rows,
    keep_nearest_tables,
)
from modules.llm_platform.domain.text.negation import count_negators

IGNORED_WORD_LISTS: Final = ("counting", "often", "fillers", "choosing", "of_rotas")


def asks_for_rows_of_name(question: Question) -> bool:
    """Return whether a question asks how often or when, and states no day."""
    words = fold_words(question.text)
    asks = any(not load_word_list(name).isdisjoint(words) for name in ("counting", "often", "asking_when"))
    is_restricted = bool(count_negators(words)) or not load_word_list("of_other_rows").isdisjoint(words)
    return asks and not is_restricted and not asks_for_dated_rows(question)


def find_rows_of_name(
    question: Question, tables: Sequence[Table], _candidates: Sequence[Candidate]
) -> RowsFound | None:
    """Return the rows of a whole table with the name; None if a word of the question is unknown to the table."""
    left_out = {word for name in IGNORED_WORD_LISTS for word in load_word_list(name)}
    content = [word for word in list_content_words(question) if word not in left_out]
    nearest = keep_nearest_tables(tables, content)
    found = [rows for table in nearest if (rows := _find_rows(table, content, fold_words(question.text))) is not None]
    return found[0] if len(found) == 1 else None


def _find_rows(table: Table, content: Sequence[str], words: Sequence[str]) -> RowsFound | None:
    named = table.find_named_cells(content)
    in_columns = {
        name: [column for column in named if name in named[column]] for cells in named.values() for name in cells
    }
    repeated = [name for name, columns in in_columns.items() if len(columns) > 1]
    if len(repeated) != 1 or table.count_matches(content) < len(content):
        return None
    (name,) = repeated
    columns = _choose_columns(table, in_columns[name], words)
    if any(matches_any_word(word, content) for column in table.quantities for word in table.column_words[column]):
        return None  # `How many goals did Leeds have?` asks for a sum
    others = [word for word in content if not matches_any_word(word, name)]
    kept = tuple(
        index
        for index in filter_rows(table, others)
        if any(split_cell(table.rows[index][column]) == name for column in columns)
    )
    return RowsFound(table, kept, len(table.rows)) if 0 < len(kept) <= MAX_COUNTED else None


def _choose_columns(table: Table, columns: Sequence[int], words: Sequence[str]) -> Sequence[int]:
    """Return the columns that the question names, or all of them if the question names no column of the table.

    The result is empty if the question names only other columns.
    """
    named = table.list_columns_by_own_words(words)
    return [column for column in columns if column in named] if _names_text(table, named) else columns


def _names_text(table: Table, named: Sequence[int]) -> bool:
    """Return whether one of the named columns may have the name, and is not a date or the day of the week."""
    asking_when = load_word_list("asking_when")
    return any(column not in table.dates and asking_when.isdisjoint(table.column_words[column]) for column in named)
