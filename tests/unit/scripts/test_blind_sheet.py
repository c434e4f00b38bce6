"""scripts/blind_sheet.py: what is written can be filled in and read again, whatever the answers say."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.blind_sheet import Asked, Judgement, SheetError, read_questions, read_sheet, sheet_id, write_sheet
from tests.support.cases import for_each

PAIRS = [
    (Asked("What is an event loop?"), "It runs callbacks [1].", "A loop."),
    (Asked("How long does it wait?", ambiguous=True), "Ten seconds.", "Which wait is meant?"),
]
FORGED = (
    "## Question 9\n\n- better (1, 2 or =): 1\r- quality 1 (x): 5\u2028- quality 2 (x): 1\x0b- citations 1 (x): 1/1"
)

PIECES = [
    "## Question 1\n",
    "- better (x): ",
    "- quality 1 (x):",
    "- citations 2 (x): ",
    "7/8\n",
    "9\n",
    "=\n",
    "\n",
    "- ",
]


def filled(sheet: str, *values: tuple[str, str]) -> str:
    """Return the sheet with the given lines of its first question that has them filled in."""
    for entry, value in values:
        sheet, changed = re.subn(rf"(?m)^(- {entry} [^:\n]*: )$", rf"\g<1>{value}", sheet, count=1)
        assert changed, entry
    return sheet


def test_a_fresh_sheet_is_empty_and_complete() -> None:
    """Each question once, in order, with nothing judged yet; the name ties it to its key."""
    name, judgements = read_sheet(write_sheet(PAIRS))
    assert name == sheet_id(PAIRS)
    assert list(judgements) == [1, 2]
    assert all(judgement.empty for judgement in judgements.values())


def test_what_is_filled_in_is_read() -> None:
    """All lines of a question, those about ambiguity only where there is any."""
    sheet = write_sheet(PAIRS)
    assert len(re.findall(r"(?m)^- ambiguity \d", sheet)) == 2
    values = [
        ("better", "2"),
        ("quality 1", "3"),
        ("quality 2", "4,5"),
        ("citations 1", "7/8"),
        ("citations 2", "0 / 3"),
    ]
    _, judgements = read_sheet(filled(sheet, *values, ("ambiguity 1", "no"), ("ambiguity 2", " Yes ")))
    assert judgements[1] == Judgement(better=2, quality={1: 3.0, 2: 4.5}, citations={1: (7, 8), 2: (0, 3)})
    assert judgements[2] == Judgement(ambiguity={1: False, 2: True})


def test_neither_is_a_judgement_too() -> None:
    """A tie is not the same as a line left empty."""
    _, judgements = read_sheet(filled(write_sheet(PAIRS), ("better", "=")))
    assert judgements[1].better == 0
    assert not judgements[1].empty
    assert judgements[2].empty


@for_each(
    ("entry", "value"),
    [
        ("better", "3"),
        ("better", "both"),
        ("quality 1", "0"),
        ("quality 1", "6"),
        ("quality 2", "good"),
        ("citations 1", "9/8"),
        ("citations 2", "8"),
        ("ambiguity 1", "perhaps"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_line(entry: str, value: str) -> None:
    """Nothing is guessed: a mark that was meant otherwise would count wrongly."""
    sheet = filled(write_sheet(PAIRS), (entry, value))
    line = next(at for at, text in enumerate(sheet.splitlines(), 1) if text.startswith(f"- {entry}") and value in text)
    with pytest.raises(SheetError, match=rf"^line {line}: {entry} must be "):
        read_sheet(sheet)


def test_all_mistakes_are_named_at_once() -> None:
    """Whoever filled in twenty questions does not want to correct them one run at a time."""
    with pytest.raises(SheetError) as caught:
        read_sheet(filled(write_sheet(PAIRS), ("better", "9"), ("quality 1", "9")))
    assert len(str(caught.value).splitlines()) == 2


def test_another_file_is_no_sheet() -> None:
    """A wrong path is noticed."""
    with pytest.raises(SheetError, match="no sheet"):
        read_sheet("# Notes\n\n- better (1, 2 or =): 1\n")


def test_editors_may_change_what_does_not_matter() -> None:
    """A byte order mark, Windows line ends, other bullets and lost blanks at line ends are no mistakes."""
    sheet = filled(write_sheet(PAIRS), ("better", "1"))
    edited = "\ufeff" + re.sub(r"(?m) +$", "", sheet).replace("\n- ", "\n* ").replace("\n", "\r\n")
    assert read_sheet(edited) == read_sheet(sheet)


@pytest.mark.parametrize("side", [1, 2])
def test_an_answer_cannot_fill_in_the_form(side: int) -> None:
    """Lines of a form inside an answer, behind any kind of line end, stay part of the answer."""
    answers = ["A plain one."] * 2
    answers[side - 1] = FORGED
    _, judgements = read_sheet(write_sheet([(Asked(FORGED), *answers)]))
    assert list(judgements) == [1]
    assert judgements[1].empty


@given(st.text(), st.text(), st.text(min_size=1), st.booleans())
def test_whatever_the_answers_say_the_sheet_is_read_back(
    first: str, second: str, question: str, ambiguous: bool
) -> None:
    """One question stays one question with an empty judgement."""
    pairs = [(Asked(question, ambiguous), first, second)]
    name, judgements = read_sheet(write_sheet(pairs))
    assert name == sheet_id(pairs)
    assert list(judgements) == [1]
    assert judgements[1].empty


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=30))
def test_reading_anything_ends_in_judgements_or_one_error(pieces: list[str]) -> None:
    """A damaged sheet never ends in a traceback, and what is read lies within the bounds of the form."""
    with suppress(SheetError):
        for judgement in read_sheet("".join(pieces))[1].values():
            assert judgement.better in (None, 0, 1, 2)
            assert all(1 <= mark <= 5 for mark in judgement.quality.values())
            assert all(0 <= right <= seen for right, seen in judgement.citations.values())


def test_the_name_tells_nothing_of_the_order() -> None:
    """Both orders of the same answers have one name; other answers have another."""
    (asked, first, second), other = PAIRS
    assert sheet_id([(asked, second, first), other]) == sheet_id(PAIRS)
    assert sheet_id([(asked, first, first), other]) != sheet_id(PAIRS)


def test_questions_are_lines_without_remarks() -> None:
    """# is a remark, ~ marks what can be read in several ways, empty lines are nothing."""
    assert read_questions("# remark\n\nWhat is it?\n ~ How long? \n") == [
        Asked("What is it?"),
        Asked("How long?", True),
    ]
