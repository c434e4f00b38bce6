"""What a question asks for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.extractive.question import (
    EXACT_WEIGHT,
    INFLECTED_CREDIT,
    NAME_WEIGHT,
    WEAK_WEIGHT,
    TermMatcher,
    has_same_stem,
    read_question,
)


def terms(text: str, language: str = "en") -> list[str]:
    return [term.word for term in read_question(text, language).terms]


@for_each(
    ("text", "language", "expected"),
    [
        ("What is Python asyncio?", "en", ["python", "asyncio"]),
        ("How do I use asyncio.gather?", "en", ["use", "asyncio.gather"]),
        ("Wie lange ist ein Reisepass gültig?", "de", ["lange", "reisepass", "gültig"]),
        ("Quelle est la capitale de l'Australie ?", "fr", ["capitale", "australie"]),
        ("什么是光合作用？", "zh", ["光合", "合作", "作用"]),
        ("Find out when the port of Oslo opened.", "en", ["port", "oslo", "opened"]),
        ("Could you please tell me how tunnels are dug", "en", ["tunnels", "dug"]),
        ("I'd like to know whether Redis sorts.", "en", ["redis", "sorts"]),
        ("Sage mir, wann der Hafen eröffnet wurde.", "de", ["hafen", "eröffnet"]),
        ("Explain the find command.", "en", ["find", "command"]),
        ("", "en", []),
        ("???", "en", []),
    ],
)
def test_terms_are_content_words(text: str, language: str, expected: list[str]) -> None:
    """Function words are removed, also in an introductory request.

    Identifiers stay whole, and scripts without spaces become character pairs.
    """
    assert terms(text, language) == expected


@for_each(
    ("text", "symbols"),
    [
        ("How many days of leave do I have at Marlow & Finch?", []),
        ("Does 3M & Philips pay?", []),
        ("What does & do in Bash?", ["&"]),
        ("Was bedeutet & nach einem Befehl?", ["&"]),
        ("¿Qué significa & en Bash?", ["&"]),
        ("Which shells support & jobs?", ["&"]),
        ("What does `&` mean?", ["&"]),
        ("Is make && make install right with -j?", ["&&", "-j"]),
    ],
)
def test_an_answer_needs_the_symbols_of_a_question(text: str, symbols: list[str]) -> None:
    """The ampersand of a name is none: few sentences repeat it."""
    exact = [term.word for term in read_question(text, "en").terms if term.weight >= EXACT_WEIGHT]
    assert exact == symbols


def test_names_have_higher_and_filler_lower_weight() -> None:
    """Names have a high weight, because they define the topic. Words such as `way` and `difference` have a low weight."""
    weights = {term.word: term.weight for term in read_question("What is the best way to start Redis 7?", "en").terms}
    assert weights == {"best": WEAK_WEIGHT, "way": WEAK_WEIGHT, "start": 1.0, "redis": NAME_WEIGHT, "7": NAME_WEIGHT}


@for_each(
    ("text", "parts"),
    [
        ("How tall is the tower and who designed it?", [{"tall", "tower"}, {"designed"}]),
        ("What is uvicorn and how do I run it?", [{"uvicorn"}, {"run"}]),
        ("Where are logs kept? Which format do they have?", [{"logs", "kept"}, {"format"}]),
        ("What is the difference between threads and processes?", [{"difference", "threads", "processes"}]),
        ("What is a thread and what does it mean?", [{"thread", "mean"}]),
        ("What is a thread?", [{"thread"}]),
    ],
)
def test_question_is_split_into_parts(text: str, parts: list[set[str]]) -> None:
    """Each part with its own question is separate. A part of filler words is joined to its neighbour."""
    question = read_question(text, "en")
    assert [{question.terms[number].word for number in part} for part in question.parts] == parts


def test_question_has_three_parts_at_most() -> None:
    """A list of ten things is not ten questions."""
    fruits = ("apples", "pears", "plums", "grapes", "figs", "dates", "limes")
    question = read_question("? ".join(f"What are {fruit}" for fruit in fruits), "en")
    assert len(question.parts) == 3
    assert frozenset().union(*question.parts) == frozenset(range(7))


@for_each(
    ("text", "language", "how", "what"),
    [
        ("How do I start it?", "en", True, False),
        ("Wie starte ich es?", "de", True, False),
        ("What is a monad?", "en", False, True),
        ("Что такое монада?", "ru", False, True),
        ("什么是单子？", "zh", False, True),
        ("When was it built?", "en", False, False),
        ("Show me the logs", "en", False, False),
    ],
)
def test_questions_for_a_way_and_for_a_definition_are_detected(text: str, language: str, how: bool, what: bool) -> None:
    """They prefer code and definitions."""
    question = read_question(text, language)
    assert (question.asks_how, question.asks_what) == (how, what)


@for_each(
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
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    """Endings do not hide a word."""
    assert has_same_stem(one, other)
    assert has_same_stem(other, one)


@for_each(
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
def test_different_words_share_no_stem(one: str, other: str) -> None:
    """A shared beginning is not enough."""
    assert not has_same_stem(one, other)


def test_word_matches_terms_by_itself_its_parts_and_its_forms() -> None:
    """Exact is 1, another form a little less, and parts of an identifier count."""
    matcher = TermMatcher(read_question("cancel tasks in asyncio", "en").terms)
    assert dict(matcher["asyncio"]) == {2: 1.0}
    assert dict(matcher["asyncio.task"]) == {2: 1.0, 1: INFLECTED_CREDIT}
    assert dict(matcher["cancelled"]) == {0: INFLECTED_CREDIT}
    assert matcher["other"] == ()
    assert matcher["other"] == ()


@for_each(
    ("word", "term"),
    [
        ("café", "cafe"),
        ("cafe", "café"),
        ("cafés", "cafe"),
        ("grösse", "Grosse"),
        ("smørrebrød", "smorrebrod"),
        ("ёлка", "елка"),
    ],
)
def test_accents_do_not_count(word: str, term: str) -> None:
    """Many people do not type them."""
    assert TermMatcher(read_question(term, "en").terms)[word]


@given(st.text(max_size=500), st.sampled_from(["en", "de", "zh", "xx"]))
def test_any_text_can_be_parsed(text: str, language: str) -> None:
    """No input raises, and the parts name all terms that exist and no others."""
    question = read_question(text, language)
    assert frozenset().union(*question.parts) == frozenset(range(len(question.terms)))
