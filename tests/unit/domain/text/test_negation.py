"""Negations and opposites are recognised in many languages."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.read.words import find_identifiers
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.negation import (
    contradicts_unspaced,
    has_opposite,
    list_denied_words,
    list_undenied_words,
)


@for_each(
    ("text", "language", "heads"),
    [
        ("wal does not work here", "en", ["work"]),
        ("it has no keep", "en", ["keep"]),
        ("der bund übernimmt die kosten nicht", "de", ["kosten"]),
        ("hunde sind nicht erlaubt", "de", ["erlaubt"]),
        ("none agreed", "en", ["agreed"]),
        ("it protects against rain", "en", []),
        ("without giving a reason", "en", ["giving"]),
        ("der termin ist am 22 mai", "de", []),
        ("озеро не замерзает", "ru", ["замерзает"]),
    ],
)
def test_denied_words(text: str, language: str, heads: list[str]) -> None:
    """The negated word follows the negation, or precedes it at the end of a clause."""
    words = text.split()
    content = [word not in load_stop_words(language) for word in words]
    assert list_denied_words(words, content) == heads


def test_clauses_are_denied_one_by_one() -> None:
    """Each clause has its own negation."""
    words = list_undenied_words("It works, but it does not sleep.")
    assert "works" in words
    assert "sleep" not in words


@for_each(
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
    assert has_opposite(mine.split(), theirs.split()) is differs


def test_chinese_and_japanese_negation() -> None:
    """Scripts without blanks have denials too."""
    assert contradicts_unspaced("周围可以使用手机", "周围不得使用手机")
    assert not contradicts_unspaced("周围不得使用手机", "周围不能使用手机")
    assert contradicts_unspaced("この機能は搭載している", "この機能は搭載していない")


def test_identifiers() -> None:
    """Names of functions and options are found in any notation."""
    assert find_identifiers("Pass --no-wait to run() or set max_size, readLine or WAL2.") == [
        "run()",
        "max_size",
        "readLine",
        "WAL2",
        "no-wait",
    ]
    assert find_identifiers("A well-known saw - or an axe -- cuts.") == []
