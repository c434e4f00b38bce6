"""Find the cell of a table that contradicts a number of a claim: the row that the claim names, and the column it is about."""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.citations.compare.alignment import SourceText
from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.citations.read.markup import DELIMITERS
from modules.llm_platform.domain.markdown.cells import list_cell_spans
from modules.llm_platform.domain.text.numbers import NumberValues, list_numbers
from modules.llm_platform.domain.text.positions import SentenceNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import WORD_WITH_APOSTROPHE, fold

BAR: Final = "|"
MIN_BARS: Final = 2  # a line with only one bar need not be a table row


def find_other_cell(
    claim: Claim, values: NumberValues, source: SourceText, ranked: Sequence[SentenceNumber]
) -> Span | None:
    """Return the span of the table cell that contradicts a number of the claim; None if there is none.

    The claim must name the first cell of exactly one row, and neither this row nor the header of the table may have the number.
    If several cells have a number, the result is the cell whose column header shares most words with the claim, or the first of
    equal ones. `ranked` are the sentences of the source that share most with the claim.
    """
    rows = [sentence for sentence in ranked if _is_row(source, sentence) and not _is_header(source, sentence)]
    named = [row for row in rows if _is_named(claim, source, row)]
    if len(named) != 1:
        return None
    row, header = named[0], _find_header(source, named[0])
    if header == row or any(values & source.read_facts(source.spans[at]).values for at in (row, header)):
        return None
    cells, headers = _list_cells(source, row)[1:], _list_cells(source, header)[1:]
    figures = [
        (cell, header_cell)
        for cell, header_cell in zip(cells, headers, strict=False)
        if list_numbers(_cut_text(source, cell))
    ]
    if not figures:
        return None
    keys = [word.key for word in claim.words]
    return max(
        figures, key=lambda pair: sum(is_form_of_any(word, keys) for word in _list_words(_cut_text(source, pair[1])))
    )[0]


def _is_named(claim: Claim, source: SourceText, row: SentenceNumber) -> bool:
    """Return whether the claim has all words of the first cell."""
    first = _list_words(_cut_text(source, _list_cells(source, row)[0]))
    keys = [word.key for word in claim.words]
    return (
        bool(first) and not all(word.isdigit() for word in first) and all(is_form_of_any(word, keys) for word in first)
    )


def _find_header(source: SourceText, row: SentenceNumber) -> SentenceNumber:
    """Return the first row of the table."""
    while row > 0 and _is_row(source, before := SentenceNumber(row - 1)):
        row = before
    return row


def _is_header(source: SourceText, row: SentenceNumber) -> bool:
    """Return whether a row of dashes follows the row."""
    return row + 1 < len(source.spans) and bool(DELIMITERS.match(_get_text(source, SentenceNumber(row + 1))))


def _is_row(source: SourceText, sentence: SentenceNumber) -> bool:
    return _get_text(source, sentence).count(BAR) >= MIN_BARS


def _list_cells(source: SourceText, row: SentenceNumber) -> list[Span]:
    """Return the spans of the cells in the source, without the spaces around them."""
    start, end = source.spans[row]
    return [_trim(source, (start + begin, start + last)) for begin, last in list_cell_spans(source.text[start:end])]


def _trim(source: SourceText, span: Span) -> Span:
    text = _cut_text(source, span)
    begin = span[0] + len(text) - len(text.lstrip())
    return begin, begin + len(text.strip())


def _get_text(source: SourceText, sentence: SentenceNumber) -> str:
    return source.text[slice(*source.spans[sentence])]


def _cut_text(source: SourceText, span: Span) -> str:
    return source.text[slice(*span)]


def _list_words(text: str) -> list[str]:
    return WORD_WITH_APOSTROPHE.findall(fold(text))
