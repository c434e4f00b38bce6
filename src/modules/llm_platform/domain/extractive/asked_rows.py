"""Questions that rows of one whole table answer: a limit, the most, a count, a description, a day."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.compared_rows import asks_to_rank_or_count, find_ranked_rows
from modules.llm_platform.domain.extractive.dated_rows import asks_for_dated_rows, find_dated_rows
from modules.llm_platform.domain.extractive.described_rows import asks_for_described_rows, find_described_rows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.row_limits import asks_for_limited_rows, find_limited_rows
from modules.llm_platform.domain.extractive.tables import RowsFound, Table


class RowQuestion(NamedTuple):
    """A kind of question that rows answer.

    - `asks` returns whether a question is of this kind.
    - `find` returns the rows of a table with all its rows; None if it is not certain which are meant. It also gets the sentences
      of all sources.
    - `needs_all_rows` is True if any table may answer, even one that shares no word with the question.
    """

    asks: Callable[[Question], bool]
    find: Callable[[Question, Sequence[Table], Sequence[Candidate]], RowsFound | None]
    needs_all_rows: bool


def _find_described(question: Question, tables: Sequence[Table], _candidates: Sequence[Candidate]) -> RowsFound | None:
    return find_described_rows(question, tables)


LIMITED: Final = RowQuestion(asks_for_limited_rows, find_limited_rows, needs_all_rows=True)
KINDS: Final = (
    LIMITED,
    RowQuestion(asks_to_rank_or_count, find_ranked_rows, needs_all_rows=True),
    RowQuestion(asks_for_described_rows, _find_described, needs_all_rows=False),
    RowQuestion(asks_for_dated_rows, find_dated_rows, needs_all_rows=True),
)


def asks_for_any_rows(question: Question) -> bool:
    """Return whether a question is of a kind that rows of a table answer."""
    return any(kind.asks(question) for kind in KINDS)


def find_asked_rows(question: Question, tables: Sequence[Table], candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows of a table that answer. If a question has a limit, rows beyond it do not answer.

    `tables` have all their rows, and `candidates` are the sentences of all sources.
    """
    for kind in KINDS:
        if kind.asks(question):
            found = kind.find(question, tables, candidates)
            if found is not None or kind is LIMITED:
                return found
    return None
