"""Numbers, dates, denials and opposites are recognised in many ways of writing and many languages."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.citations.claims import identifiers_in
from modules.llm_platform.domain.citations.denials import (
    contradicts_han,
    denied_words,
    negated_copy,
    opposed,
    undenied_words,
)
from modules.llm_platform.domain.citations.numbers import NUMBER_WORDS, numbers_in, other_date
from modules.llm_platform.domain.citations.words import is_form, is_part, squash
from modules.llm_platform.domain.text.language import stop_words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,000", "1000"), ("1.000", "1000"), ("1 000", "1000"), ("3,5", "3.5"), ("2.3 million", "2300000"),
        ("48 Mio", "48000000"), ("700 тысяч", "700000"), ("5,3 Milliarden", "5300000000"), ("72万", "720000"),
        ("八万", "80000"), ("十二小时", "12"), ("七百二十座", "720"), ("1,234.5", "1234.5"), ("口径500米", "500"),
    ],
)  # fmt: skip
def test_numbers_have_values(one: str, other: str) -> None:
    """Different ways to write a number share a value."""
    (first, _), (second, _) = numbers_in(one)[0], numbers_in(other)[0]
    assert first & second


@pytest.mark.parametrize(("one", "other"), [("1904", "1940"), ("3.5", "35"), ("12:30", "12:40"), ("1/2", "1/3")])
def test_other_numbers_have_other_values(one: str, other: str) -> None:
    """A changed digit or point is another number."""
    assert not numbers_in(one)[0][0] & numbers_in(other)[0][0]


def test_what_is_no_number() -> None:
    """Digits inside a name are part of it, a run of a thousand digits has no value, words of many languages have one."""
    assert numbers_in("wal2 x86") == []
    assert numbers_in("9" * 1000)[0][0] == {"9" * 1000}
    assert {NUMBER_WORDS[word] for word in ("three", "drei", "trois", "три")} == {"3"}


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        ("in may", "im märz", True), ("in may", "im mai", False), ("on monday", "in may", False),
        ("monday", "freitag", True), ("x", "may", False),
    ],
)
def test_dates_differ_in_kind(mine: str, theirs: str, differs: bool) -> None:
    """A month is compared with months, a weekday with weekdays, across languages."""
    assert other_date(mine.split(), theirs.split()) is differs


@pytest.mark.parametrize(
    ("text", "language", "heads"),
    [
        ("wal does not work here", "en", ["work"]),
        ("it has no keep", "en", ["keep"]),
        ("der bund übernimmt die kosten nicht", "de", ["kosten"]),
        ("hunde sind nicht erlaubt", "de", ["erlaubt"]),
        ("none of them agreed", "en", ["agreed"]),
        ("it is no longer recommended", "en", ["recommended"]),
        ("it protects against rain", "en", []),
        ("without giving a reason", "en", ["giving"]),
        ("озеро не замерзает", "ru", ["замерзает"]),
    ],
)
def test_what_is_denied(text: str, language: str, heads: list[str]) -> None:
    """The word that a negation is about, behind it or, at the end of a clause, before it."""
    words = text.split()
    content = [word not in stop_words(language) for word in words]
    assert denied_words(words, content) == heads


def test_clauses_are_denied_one_by_one() -> None:
    """Each clause has its own "not"."""
    words = undenied_words("It works, but it does not sleep.")
    assert "works" in words
    assert "sleep" not in words


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        ("the value is not of any interest", "only the value is of any interest", True),
        ("the value does not change at once", "the value does change at once", True),
        ("you can open it from here", "you cannot open it from here", True),
        ("it is not so that it never works", "it is so that it works", False),
        ("the value is of interest", "the value is of interest and not zero", False),
        ("not so", "so", False),
    ],
)
def test_a_copy_with_one_not_more_or_less(mine: str, theirs: str, differs: bool) -> None:
    """Says the contrary; two of them cancel out, and what is denied elsewhere in the text does not count."""
    assert negated_copy(mine.split(), theirs.split()) is differs


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        ("profit rose slightly", "profit fell slightly", True),
        ("profit fell slightly", "revenue grew while profit fell slightly", False),
        ("the shop opens and closes daily", "the shop closes daily", False),
        ("музей открыт сегодня", "музей закрыт сегодня", True),
        ("rose", "fell", False),
    ],
)
def test_opposites_about_the_same(mine: str, theirs: str, differs: bool) -> None:
    """A word and its opposite contradict where the words around them are the same."""
    assert opposed(mine.split(), theirs.split()) is differs


def test_chinese_and_japanese() -> None:
    """Scripts without blanks have denials too."""
    assert contradicts_han("周围可以使用手机", "周围不得使用手机")
    assert not contradicts_han("周围不得使用手机", "周围不能使用手机")
    assert contradicts_han("この機能は搭載している", "この機能は搭載していない")


def test_identifiers() -> None:
    """Names of parts of a program and of options, however they stand in a text."""
    assert identifiers_in("Pass --no-wait to run() or set max_size, readLine or WAL2.") == [
        "run()", "max_size", "readLine", "WAL2", "no-wait",
    ]  # fmt: skip
    assert identifiers_in("A well-known saw - or an axe -- cuts.") == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("protect", "protection", True), ("run", "runs", True), ("open", "opened", True), ("открылся", "открыт", True),
        ("the", "theft", False), ("internal", "international", False), ("use", "user", False), ("a1", "a12", False),
    ],
)  # fmt: skip
def test_forms_of_a_word(one: str, other: str, same: bool) -> None:
    """Forms share most of their beginning; figures and short beginnings do not count."""
    assert is_form(one, other) is same
    assert is_form(other, one) is same


def test_parts_of_compounds() -> None:
    """German writes compounds as one word, and participles with ge-."""
    assert is_part("ticket", "deutschlandticket")
    assert is_part("kündigung", "gekündigt")
    assert not is_part("ein", "allein")


def test_squashing_leaves_words() -> None:
    """Punctuation and markup vanish, one blank stays around each word."""
    assert squash("**A**,  `b_c`!") == " a b c "
