"""Answer a question with rows of one whole table: by a limit, a comparison, a sum, a superlative, a description or a day."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_rows import asks_to_rank_or_count, find_ranked_rows
from modules.llm_platform.domain.extractive.dated_rows import asks_for_dated_rows, find_dated_rows
from modules.llm_platform.domain.extractive.described_rows import asks_for_described_rows, find_described_rows
from modules.llm_platform.domain.extractive.frequent_rows import asks_for_most_frequent, find_most_frequent_rows
from modules.llm_platform.domain.extractive.named_table import narrow_to_named_tables
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.row_limits import asks_for_limited_rows, find_limited_rows
from modules.llm_platform.domain.extractive.rows_beyond import asks_for_rows_beyond, find_rows_beyond
from modules.llm_platform.domain.extractive.rows_of_name import asks_for_rows_of_name, find_rows_of_name
from modules.llm_platform.domain.extractive.summed_rows import asks_for_sum, find_summed_rows
from modules.llm_platform.domain.extractive.tables import RowsFound, Table


class RowQuestionKind(NamedTuple):
    """A kind of question that rows answer.

    - `asks` returns whether a question is of this kind.
    - `find` returns the rows that answer; None if it is uncertain which rows are meant. It gets tables with all their rows, and
      the sentences of all sources.
    - `needs_all_rows` is True if any table may answer, even one that shares no word with the question.
    - `is_final` is True if no other kind is tried when this kind finds no rows.
    """

    asks: Callable[[Question], bool]
    find: Callable[[Question, Sequence[Table], Sequence[Candidate]], RowsFound | None]
    needs_all_rows: bool
    is_final: bool = False


def _find_described(question: Question, tables: Sequence[Table], _candidates: Sequence[Candidate]) -> RowsFound | None:
    return find_described_rows(question, tables)


ROW_QUESTION_KINDS: Final = (
    # Rows beyond the limit of a question do not answer it.
    RowQuestionKind(asks_for_limited_rows, find_limited_rows, needs_all_rows=True, is_final=True),
    RowQuestionKind(asks_for_rows_beyond, find_rows_beyond, needs_all_rows=True),
    RowQuestionKind(asks_for_sum, find_summed_rows, needs_all_rows=True),
    RowQuestionKind(asks_for_rows_of_name, find_rows_of_name, needs_all_rows=False),
    RowQuestionKind(asks_to_rank_or_count, find_ranked_rows, needs_all_rows=True),
    RowQuestionKind(asks_for_most_frequent, find_most_frequent_rows, needs_all_rows=True),
    RowQuestionKind(asks_for_described_rows, _find_described, needs_all_rows=False),
    RowQuestionKind(asks_for_dated_rows, find_dated_rows, needs_all_rows=True),
)


def asks_for_any_rows(question: Question) -> bool:
    """Return whether a question is of a kind that rows of a table answer."""
    return any(kind.asks(question) for kind in ROW_QUESTION_KINDS)


def find_rows_in_tables(
    question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]
) -> RowsFound | None:
    """Return the rows of a table that answer a question, from the first kind of question that finds rows.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    question, tables = narrow_to_named_tables(question, tables)
    for kind in ROW_QUESTION_KINDS:
        if kind.asks(question):
            found = kind.find(question, tables, candidates)
            if found is not None or kind.is_final:
                return found
    return None
