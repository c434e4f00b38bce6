"""A question with a typing error is corrected by the words of its sources."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.spelling import (
    Correction,
    correct_spelling,
    is_one_edit_apart,
    list_correctable_words,
)

MANUAL = (
    "Martha Lindqvist wrote this manual. The warranty lasts three years. The filter is washed; filters are washed every month, "
    "and the bases and basis are cleaned. On Thursday nobody answers the telephone."
)


def correct(question: str) -> Correction | None:
    sources = [Source(index=1, title="Manual", url="https://s.test/", text=MANUAL)]
    read = read_question(question, "en")
    return correct_spelling(read, list_correctable_words(read), sources)


@for_each(
    ("question", "corrected"),
    [
        ("How long is the waranty?", "How long is the warranty?"),
        ("How long does the warrrnaty last?", None),
        ("How often are the fliters washed?", "How often are the filters washed?"),
        ("Is the filtr washed, and how long is the warranti?", "Is the filter washed, and how long is the warranty?"),
        ("Who is the warrantee?", None),
        ("How long is the warranty?", None),
        ("How often is the filter washed?", None),
        ("Who pays the rents?", None),
    ],
)
def test_a_word_that_no_source_has_gets_the_spelling_of_the_sources(question: str, corrected: str | None) -> None:
    found = correct(question)
    assert (found.text if found else None) == corrected


def test_a_name_or_another_letter_makes_a_correction_uncertain() -> None:
    """The typed word may be right, and name somebody or something else."""
    assert correct("Where does Marta live?") == Correction("Where does Martha live?", is_certain=False)
    assert correct("Who calls on Thurday?") == Correction("Who calls on Thursday?", is_certain=True)
    assert correct("How long is the waranty?") == Correction("How long is the warranty?", is_certain=True)
    assert correct("How often are the fliters washed?") == Correction(
        "How often are the filters washed?", is_certain=True
    )
    assert correct("How long is the warranti?") == Correction("How long is the warranty?", is_certain=False)
    assert correct("How long is the warrantyy?") == Correction("How long is the warranty?", is_certain=False)


@for_each(
    ("first", "second", "expected"),
    [
        ("warranty", "warranty", False),
        ("waranty", "warranty", True),
        ("warranty", "waranty", True),
        ("frost", "forst", True),
        ("frost", "frist", True),
        ("filter", "fitler", True),
        ("filter", "flter", True),
        ("filter", "filters", True),
        ("filter", "folder", False),
        ("filter", "ifltre", False),
        ("", "a", True),
        ("", "ab", False),
    ],
)
def test_one_letter_added_missing_replaced_or_exchanged(first: str, second: str, *, expected: bool) -> None:
    assert is_one_edit_apart(first, second) is expected
    assert is_one_edit_apart(second, first) is expected
