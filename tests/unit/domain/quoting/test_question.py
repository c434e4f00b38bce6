"""What a question asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.extractive.question import (
    INFLECTED,
    NAME_WEIGHT,
    WEAK_WEIGHT,
    TermMatcher,
    read_question,
    same_stem,
)


def terms(text: str, language: str = "en") -> list[str]:
    return [term.word for term in read_question(text, language).terms]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("What is Python asyncio?", "en", ["python", "asyncio"]),
        ("How do I use asyncio.gather?", "en", ["use", "asyncio.gather"]),
        ("Wie lange ist ein Reisepass gültig?", "de", ["lange", "reisepass", "gültig"]),
        ("Quelle est la capitale de l'Australie ?", "fr", ["capitale", "australie"]),
        ("什么是光合作用？", "zh", ["光合", "合作", "作用"]),
        ("", "en", []),
        ("???", "en", []),
    ],
)
def test_terms_are_the_words_that_say_something(text: str, language: str, expected: list[str]) -> None:
    """Function words go, identifiers stay whole, unspaced scripts come as pairs of characters."""
    assert terms(text, language) == expected


def test_names_weigh_more_and_filler_less() -> None:
    """A name decides what a question is about; `way` and `difference` decide nothing."""
    weights = {term.word: term.weight for term in read_question("What is the best way to start Redis 7?", "en").terms}
    assert weights == {"best": WEAK_WEIGHT, "way": WEAK_WEIGHT, "start": 1.0, "redis": NAME_WEIGHT, "7": NAME_WEIGHT}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("How tall is the tower and who designed it?", [{"tall", "tower"}, {"designed"}]),
        ("What is uvicorn and how do I run it?", [{"uvicorn"}, {"run"}]),
        ("Where are logs kept? Which format do they have?", [{"logs", "kept"}, {"format"}]),
        ("What is the difference between threads and processes?", [{"difference", "threads"}, {"processes"}]),
        ("What is a thread and what does it mean?", [{"thread", "mean"}]),
        ("What is a thread?", [{"thread"}]),
    ],
)
def test_a_question_falls_into_its_parts(text: str, parts: list[set[str]]) -> None:
    """Each part that asks for something of its own stands alone; one of filler alone joins its neighbour."""
    question = read_question(text, "en")
    assert [{question.terms[number].word for number in part} for part in question.parts] == parts


def test_many_parts_are_three_at_most() -> None:
    """A list of ten things is not ten questions."""
    question = read_question("Explain apples, pears, plums, grapes, figs, dates and limes", "en")
    assert len(question.parts) == 3
    assert frozenset().union(*question.parts) == frozenset(range(7))


@pytest.mark.parametrize(
    ("text", "language", "kind"),
    [
        ("When was it built?", "en", "when"),
        ("Wann wurde es gebaut?", "de", "when"),
        ("How many people live there?", "en", "count"),
        ("Сколько людей там живёт?", "ru", "count"),
        ("Pourquoi le ciel est-il bleu ?", "fr", "why"),
        ("为什么天空是蓝色的？", "zh", "why"),
        ("What is a monad?", "en", "what"),
        ("Что такое монада?", "ru", "what"),
        ("Show me the logs", "en", "other"),
    ],
)
def test_the_kind_of_answer_is_seen(text: str, language: str, kind: str) -> None:
    """A date, a number, a reason or a definition."""
    assert read_question(text, language).kind == kind


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cancel", "cancelled"),
        ("loop", "loops"),
        ("run", "running"),
        ("expire", "expires"),
        ("столица", "столицы"),
        ("größe", "größen"),
    ],
)
def test_forms_of_a_word_are_one_word(one: str, other: str) -> None:
    """Endings do not hide a word."""
    assert same_stem(one, other)
    assert same_stem(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("event", "eventually"),
        ("directory", "directly"),
        ("test", "text"),
        ("run", "rung"),
        ("port", "importance"),
        ("光合", "光学"),
    ],
)
def test_other_words_are_other_words(one: str, other: str) -> None:
    """A shared beginning is not enough."""
    assert not same_stem(one, other)


def test_a_word_of_a_source_meets_terms_by_itself_its_parts_and_its_forms() -> None:
    """Exact is 1, another form a little less, and parts of an identifier count."""
    matcher = TermMatcher(read_question("cancel tasks in asyncio", "en").terms)
    assert dict(matcher.matches("asyncio")) == {2: 1.0}
    assert dict(matcher.matches("asyncio.task")) == {2: 1.0, 1: INFLECTED}
    assert dict(matcher.matches("cancelled")) == {0: INFLECTED}
    assert matcher.matches("other") == ()
    assert matcher.matches("other") == ()


@given(st.text(max_size=500), st.sampled_from(["en", "de", "zh", "xx"]))
def test_any_text_is_a_question(text: str, language: str) -> None:
    """No input raises, and the parts name all terms that exist and no others."""
    question = read_question(text, language)
    assert frozenset().union(*question.parts) == frozenset(range(len(question.terms)))
