"""Questions that rows of one whole table answer: the most, a limit, a description, a count, a day."""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_rows import asks_about_rows, find_rows
from modules.llm_platform.domain.extractive.dated_rows import asks_for_dated_rows, find_dated_rows
from modules.llm_platform.domain.extractive.described_rows import asks_for_described_rows, find_described_rows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.row_limits import asks_for_limited_rows, find_limited_rows
from modules.llm_platform.domain.extractive.tables import RowsFound, Table

KINDS: Final = (asks_for_limited_rows, asks_about_rows, asks_for_described_rows, asks_for_dated_rows)


def asks_for_any_rows(question: Question) -> bool:
    """Return whether rows of a table may answer a question."""
    return any(asks(question) for asks in KINDS)


def find_asked_rows(
    question: Question, tables: Sequence[Table], candidates: Sequence[Candidate] = ()
) -> RowsFound | None:
    """Return the rows of a table that answer. If a question has a limit, rows beyond it do not answer.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    if asks_for_limited_rows(question):
        return find_limited_rows(question, tables, candidates)
    return (
        find_rows(question, tables, candidates)
        or find_described_rows(question, tables)
        or find_dated_rows(question, tables, candidates)
    )
