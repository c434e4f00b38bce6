"""The tables of a document with all of their rows, for questions that compare or count them."""

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
MAX_MIXED_CHARS: Final = 40_000  # of the tables of a document that also has prose

# The names of the columns with the rule below them, and the rows.
TABLE = re.compile(r"^(\|[^\n]*\|[ \t]*\n\|[ \t]*:?-[-:|][-:| \t]*\|[ \t]*)\n((?:\|[^\n]*(?:\n|\Z))+)", re.MULTILINE)


def wants_whole_table(question: str, texts: Iterable[str]) -> bool:
    """Return whether a question compares or counts rows, and one of these texts of a document has a table."""
    language = detect_language(question) or DEFAULT_LANGUAGE
    return any(TABLE_MARK in text for text in texts) and asks_about_rows(read_question(question, language))


def join_whole_tables(passages: Sequence[Passage], found: str) -> str | None:
    """Return the tables of a document with all of their rows, the titles, and of its prose the paragraphs that `found` has.

    - `passages` are all of the document, and `found` is the text of those that a search found.
    - It is None without a table, and for tables that are longer than the writer of quotes reads.
    """
    merged = merge_document_text(passages, MAX_READ_CHARS).text
    if len(merged) == MAX_READ_CHARS:  # the last rows may be missing
        return None
    all_parts = join_tables(merged).split(PARTS)
    parts = [part for part in all_parts if len(part) <= MAX_TITLE_CHARS or TABLE.match(part) or part in found]
    text = PARTS.join(parts)
    most = MAX_TEXT_CHARS if len(parts) == len(all_parts) else MAX_MIXED_CHARS
    is_read = len(parts) <= MAX_PARAGRAPHS and text.count("\n") < MAX_ROWS_OF_WHOLE and len(text) <= most
    return text if is_read and TABLE.search(text) else None


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
