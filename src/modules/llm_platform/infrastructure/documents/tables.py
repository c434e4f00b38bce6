"""Tables of documents: each passage has a part of a table, with the names of the columns above its rows."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import StringIO
from typing import Final

from modules.llm_platform.domain.extractive.sentences import MAX_COLUMNS
from modules.llm_platform.domain.extractive.table_text import TABLE
from modules.llm_platform.domain.markdown.outline import read_outline
from modules.llm_platform.domain.retrieval.chunking import MAX_WORDS, measure_words
from modules.llm_platform.domain.retrieval.whole_table import PARTS

DELIMITERS: Final = ",;\t|"  # they divide the values in a row, whatever the suffix says
MAX_HEAD_WORDS: Final = MAX_WORDS * 2 // 3  # of names and rule, for each passage to have them
HEAD_SHARE: Final = 4  # the rows below longer names may be this many times as long as the names

_SEPARATOR = re.compile(r"sep=([,;\t|])\n", re.IGNORECASE)  # the first line of files for Excel


def read_values(text: str) -> str:
    """Return separated values as a Markdown table, so that rows are searched and quoted with the names of their columns.

    A text that is not a table stays as it is.
    """
    written = text.lstrip("\n")
    named = _SEPARATOR.match(written)
    written = written[named.end() :] if named else written
    names = written.partition("\n")[0]
    delimiter = named[1] if named else max(DELIMITERS, key=names.count)
    if delimiter not in names:
        return text
    try:
        rows = [row for row in _read_rows(written, delimiter) if any(row)]
    except csv.Error:  # a value of more than 128 KiB
        return text
    if not rows:
        return text
    head, *others = rows
    longer = [_strip_end(row) if len(row) > len(head) else row for row in others]
    columns = max([len(head), *(len(row) for row in longer if len(row) <= MAX_COLUMNS)])
    head += [""] * (columns - len(head))
    names, *lines = (f"| {' | '.join(map(_render_cell, row))} |" for row in (head, *longer))
    return PARTS.join(_render_tables(f"{names}\n|{'---|' * columns}", lines))


def _read_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the values of each row.

    A quotation mark that is never closed would turn all later rows into one value, so it is read as an ordinary character.
    """
    lines = list(StringIO(text, newline=""))
    reader = csv.reader([*lines, ""], delimiter=delimiter)  # The empty line belongs to a row only after an open mark.
    rows: list[list[str]] = []
    end = 0
    with suppress(csv.Error):  # A value of more than 128 KiB, which is what an open mark makes of a longer file.
        for row in reader:
            if reader.line_num > len(lines):
                if row:
                    break
                return rows
            rows.append(row)
            end = reader.line_num
    as_written = csv.reader(lines[end : end + 1], delimiter=delimiter, quoting=csv.QUOTE_NONE)
    return [*rows, *as_written, *csv.reader(lines[end + 1 :], delimiter=delimiter)]


def _strip_end(row: Sequence[str]) -> list[str]:
    """Return the row without the empty values at its end."""
    length = max((number for number, value in enumerate(row, 1) if value), default=0)
    return list(row[:length])


def divide_tables(text: str) -> str:
    """Return Markdown whose long tables are divided into passages that repeat the column names. Code stays."""
    if not TABLE.search(text):
        return text
    parts: list[str] = []
    end = 0
    for part in read_outline(text):
        if part.kind != "code":
            parts += [text[end : part.start], TABLE.sub(_divide_table, text[part.start : part.end])]
            end = part.end
    return "".join([*parts, text[end:]])


def _divide_table(found: re.Match[str]) -> str:
    rows = found[2].removesuffix("\n")
    return PARTS.join(_render_tables(found[1], rows.split("\n"))) + found[2][len(rows) :]


def _render_tables(head: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the rows in tables that are one passage each, below the names of the columns and their rule.

    A longer table would be cut between two rows, and the second part would have no names. That cannot be helped if the names
    alone nearly fill a passage; they are then repeated so seldom that the text stays in proportion to the rows.
    """
    part = [head]
    first = words = _measure_line(head)
    most = MAX_WORDS if first <= MAX_HEAD_WORDS else HEAD_SHARE * first
    for line in lines:
        more = _measure_line(line)
        if words > first and words + more > most:
            yield "\n".join(part)
            part, words = [head], first
        part.append(line)
        words += more
    yield "\n".join(part)


def _measure_line(line: str) -> int:
    """Return the number of words of a line, plus one for rounding, so that the sum is never below the words of a table."""
    return measure_words(line) + 1


def _render_cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")
