"""The tables of a document with all of their rows, for questions that compare or count them."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.dtos.retrieval_dtos import Passage
from modules.llm_platform.domain.extractive.described_rows import may_describe_rows
from modules.llm_platform.domain.extractive.named_rows import names_several_rows
from modules.llm_platform.domain.extractive.question import Question, read_question_as_written
from modules.llm_platform.domain.extractive.row_questions import ROW_QUESTION_KINDS
from modules.llm_platform.domain.extractive.sentences import (
    MAX_PARAGRAPHS,
    MAX_ROWS_OF_WHOLE,
    MAX_TEXT_CHARS,
    split_cells,
)
from modules.llm_platform.domain.extractive.table_text import TABLE, TABLE_MARK
from modules.llm_platform.domain.retrieval.merge_passages import MergedText, merge_document_text
from modules.llm_platform.domain.row_claims.questions import asks_to_compare
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE
from modules.llm_platform.domain.text.page_starts import PageStarts

PARTS: Final = "\n\n"  # between the parts of a table
MAX_READ_CHARS: Final = 2 * MAX_TEXT_CHARS  # of a document of tables, whose parts repeat the names of the columns
MAX_TITLE_CHARS: Final = 120  # of a text above a table
MAX_MIXED_CHARS: Final = 40_000  # of the tables of a document that also has prose


def wants_whole_table(question: str, texts: Iterable[str]) -> bool:
    """Return whether a question needs all rows of a table that one of these texts of a document has.

    It does if it compares or counts rows, asks which ones have something or not, or names several of them by the same words, so
    that further rows may have that name.
    """
    tables = [table for text in texts if TABLE_MARK in text for table in TABLE.finditer(text)]
    if not tables:
        return False
    if needs_all_rows(question):
        return True
    asked = _read(question)
    read = [(split_cells(table[1].splitlines()[0]), list(map(split_cells, table[2].splitlines()))) for table in tables]
    return any(may_describe_rows(asked, *table) for table in read) or names_several_rows(
        asked, (row for _, rows in read for row in rows)
    )


def needs_all_rows(question: str) -> bool:
    """Return whether a question asks for the most, the least, or the rows within a limit or of a day: `Who is under 18?`

    Such a question may have no word of the table that answers it.
    """
    asked = _read(question)
    return asks_to_compare(asked) or any(kind.asks(asked) for kind in ROW_QUESTION_KINDS if kind.needs_all_rows)


def _read(question: str) -> Question:
    return read_question_as_written(question, DEFAULT_LANGUAGE)


def join_whole_tables(passages: Sequence[Passage], found: str) -> MergedText | None:
    """Return the tables of a document with all of their rows, the titles, and of its prose the paragraphs that `found` has.

    - `passages` are all passages of the document, and `found` is the text of the passages that a search found.
    - The result is None without a table, and for tables that are longer than the writer of quotes reads.
    """
    merged = merge_document_text(passages, MAX_READ_CHARS)
    if len(merged.text) == MAX_READ_CHARS:  # the last rows may be missing
        return None
    parts = list(_list_parts(merged.text))
    kept = [part for part in parts if part.head or len(part.text) <= MAX_TITLE_CHARS or part.text in found]
    joined = _join_parts(kept, merged.pages)
    most = MAX_TEXT_CHARS if len(kept) == len(parts) else MAX_MIXED_CHARS
    is_short = joined.text.count(PARTS) < MAX_PARAGRAPHS and len(joined.text) <= most
    has_few_rows = joined.text.count("\n") < MAX_ROWS_OF_WHOLE
    return joined if is_short and has_few_rows and any(part.head for part in kept) else None


def join_tables(text: str) -> str:
    """Return the text with the parts of a table, which was divided into passages, below one line of names."""
    return _join_parts(_list_parts(text), ()).text


class _Part(NamedTuple):
    """A part of a text from `start` on. `head` has the names of the columns and the rule below them if it is a table."""

    start: int
    text: str
    head: str = ""


def _list_parts(text: str) -> Iterator[_Part]:
    start = 0
    for part in text.split(PARTS):
        table = TABLE.fullmatch(part)
        yield _Part(start, part, table[1] if table else "")
        start += len(part) + len(PARTS)


def _join_parts(parts: Iterable[_Part], pages: PageStarts) -> MergedText:
    """Join the parts. A table below one with the same names has only its rows. The pages of the text are moved with it."""
    pieces: list[str] = []
    starts: list[tuple[int, int]] = []
    waiting = deque(pages)
    length, head = 0, ""
    for part in parts:
        goes_on = bool(part.head) and part.head == head
        cut = len(part.head) + 1 if goes_on else 0
        gap = "" if not pieces else "\n" if goes_on else PARTS
        pieces += [gap, part.text[cut:]]
        length += len(gap)
        while waiting and waiting[0][0] < part.start + len(part.text):
            offset, page = waiting.popleft()
            starts.append((length + max(0, offset - part.start - cut), page))
        length, head = length + len(part.text) - cut, part.head
    return MergedText("".join(pieces), tuple(starts))
