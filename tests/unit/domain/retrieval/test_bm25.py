"""Passages and questions as sparse vectors of words."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.retrieval.bm25 import (
    MAX_QUESTION_WORDS,
    SparseVector,
    make_matching_vector,
    make_passage_vector,
    make_question_vector,
)


def weights(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices, vector.values, strict=True))


def shared(question: str, passage: str) -> int:
    return len(set(make_question_vector(question).indices) & set(make_passage_vector(passage).indices))


def test_a_repeated_word_weighs_more_but_not_twice_as_much() -> None:
    """BM25 saturates: the second occurrence says less than the first."""
    once, twice = weights(make_passage_vector("cat dog")), weights(make_passage_vector("cat cat dog"))
    (index,) = make_question_vector("cat").indices
    assert once[index] < twice[index] < 2 * once[index]


def test_a_word_of_a_long_passage_weighs_less() -> None:
    """A word among many others says less about the topic of a passage."""
    (index,) = make_question_vector("cat").indices
    assert weights(make_passage_vector("cat " + "dog " * 400))[index] < weights(make_passage_vector("cat dog"))[index]


def test_words_are_found_without_their_accents() -> None:
    """Many people do not type them. Cyrillic letters with a breve are letters of their own."""
    assert shared("cafe Quebec Grosse", "Le café de Québec, die Größe") == 3
    assert shared("мои", "мой") == 0


def test_each_part_of_a_joined_word_counts_once() -> None:
    """Also beyond ASCII: to go back to the beginning of the word at each capital took quadratic time."""
    passage = weights(make_passage_vector("fooBarößFooNut"))
    (bar,), (nut,) = make_question_vector("bar").indices, make_question_vector("nut").indices
    assert passage[bar] == passage[nut]


def test_a_question_has_its_content_words() -> None:
    """Each once and of weight 1; function words only where there is nothing else."""
    assert make_question_vector("What is the cat cat?") == make_question_vector("CAT")
    assert make_question_vector("cat").values == [1.0]
    assert make_question_vector("The Who").indices
    assert not make_question_vector("?!… 。")


@for_each(
    ("question", "passage", "common"),
    [
        ("asyncio.run", "call asyncio.run() once", 3),
        ("asyncio run", "call asyncio.run() once", 2),
        ("run_in_executor", "loop.run_in_executor(None, f)", 3),
        ("c++ templates", "templates of C++", 2),
        ("Москва река", "река МОСКВА длинная", 2),
        ("向量数据库", "生产环境中的向量数据库", 4),
        ("ＡＢＣ", "abc", 1),
        ("straße", "STRASSE", 1),
        ("caching", "a cache caches what was cached", 1),
        ("Java", "javascript", 0),
        ("set up a class", "override setUpClass(cls)", 2),
        ("an http server", "class HTTPServer", 2),
        ("setUpClass", "set up the class", 0),
        ("URLs", "a UR for ls", 0),
    ],
)
def test_what_is_the_same_word(question: str, passage: str, common: int) -> None:
    """Case, width and joints make no difference; scripts without blanks are compared by pairs of letters."""
    assert shared(question, passage) == common


def test_forms_of_a_word_are_counted_together() -> None:
    """`cache` and `caches` count as one word that occurs twice, in a question and in a passage."""
    assert weights(make_passage_vector("cache caches")) == weights(make_passage_vector("cache cache"))
    assert make_question_vector("caching caches") == make_question_vector("cache")


def test_the_fast_path_for_ascii_gives_the_same_words() -> None:
    """A letter beyond ASCII does not change the weight of a passage."""
    text = "Call asyncio.run(main()) in C++ or c#, not foo_bar-baz.x 3.14 times a_"
    plain, other = weights(make_passage_vector(text)), weights(make_passage_vector(text + " é"))
    assert set(plain) < set(other)
    assert len(other) == len(plain) + 1


def test_a_long_question_is_bounded() -> None:
    """However long, it is asked by a bounded number of words."""
    assert len(make_question_vector(" ".join(f"word{number}" for number in range(5000))).indices) == MAX_QUESTION_WORDS


@given(st.text())
def test_any_text(text: str) -> None:
    """Numbers fit into 32 bits, each once; weights are finite and positive."""
    for vector in (make_passage_vector(text), make_question_vector(text)):
        assert len(vector.indices) == len(set(vector.indices)) == len(vector.values)
        assert all(0 <= index < 2**32 for index in vector.indices)
        assert all(0 < value < math.inf for value in vector.values)


@given(st.text(), st.text())
def test_the_words_of_a_question_weigh_as_much_as_in_the_whole_vector(text: str, asked: str) -> None:
    """`make_matching_vector` is the part of the passage's vector that a question can match, read run by run, in any script."""
    text = f"{text} {asked} setUpClass"
    wanted = frozenset(make_question_vector(f"{asked} class").indices)
    vector = make_passage_vector(text)
    whole = {index: value for index, value in zip(vector.indices, vector.values, strict=True) if index in wanted}
    part = make_matching_vector(text.split(), wanted)
    assert dict(zip(part.indices, part.values, strict=True)) == whole
