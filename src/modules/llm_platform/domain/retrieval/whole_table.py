"""A document of tables as one text, for questions that compare or count its rows."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Passage
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.sentences import MAX_PARAGRAPHS, MAX_ROWS_OF_WHOLE, MAX_TEXT_CHARS
from modules.llm_platform.domain.extractive.tables import asks_about_rows
from modules.llm_platform.domain.retrieval.merge_passages import merge_document_text
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE, detect_language

TABLE_MARK: Final = "---"  # between the names of the columns and the rows
PARTS: Final = "\n\n"  # between the parts of a table
MAX_READ_CHARS: Final = 2 * MAX_TEXT_CHARS  # of a document of tables, whose parts repeat the names of the columns
MAX_TITLE_CHARS: Final = 120  # of a text above a table

# The names of the columns with the rule below them, and the rows.
TABLE = re.compile(r"^(\|[^\n]*\|[ \t]*\n\|[ \t]*:?-[-:|][-:| \t]*\|[ \t]*)\n((?:\|[^\n]*(?:\n|\Z))+)", re.MULTILINE)


def wants_whole_table(question: str, texts: Iterable[str]) -> bool:
    """Return whether a question compares or counts rows, and these texts of one document are all of tables."""
    language = detect_language(question) or DEFAULT_LANGUAGE
    return all(TABLE_MARK in text for text in texts) and asks_about_rows(read_question(question, language))


def join_whole_table(passages: Sequence[Passage]) -> str | None:
    """Return the text of a document of tables and titles from all of its passages.

    It is None for any other document, and for tables that are longer than the writer of quotes reads.
    """
    merged = merge_document_text(passages, MAX_READ_CHARS).text
    if len(merged) == MAX_READ_CHARS:  # its last rows may be missing
        return None
    text = join_tables(merged)
    parts = text.split(PARTS)
    is_read = len(parts) <= MAX_PARAGRAPHS and text.count("\n") < MAX_ROWS_OF_WHOLE and len(text) <= MAX_TEXT_CHARS
    has_prose = any(len(part) > MAX_TITLE_CHARS and not part.startswith("|") for part in parts)
    return text if is_read and not has_prose else None


def join_tables(text: str) -> str:
    """Return the text with the parts of a table, which was divided into passages, below one line of names."""
    joined: list[str] = []
    for head, parts in groupby(text.split(PARTS), key=_find_head):
        rows = (part.removeprefix(f"{head}\n") for part in parts)
        joined += ["\n".join([head, *rows])] if head else rows
    return PARTS.join(joined)


def _find_head(part: str) -> str | None:
    found = TABLE.fullmatch(part)
    return found[1] if found else None
