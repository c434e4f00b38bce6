"""Forms of a word become one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.text.stemming import is_form, stem


@for_each(
    "forms",
    [
        ("cache", "caches", "cached", "caching"),
        ("query", "queries"),
        ("install", "installs", "installed", "installing"),
        ("plan", "planned", "planning"),
        ("process", "processes", "processed", "processing"),
        ("quick", "quickly"),
        ("file", "files"),
    ],
)
def test_forms_that_are_one_word(forms: tuple[str, ...]) -> None:
    """The endings of English."""
    assert len(set(map(stem, forms))) == 1


@for_each(
    ("one", "other"),
    [("class", "clas"), ("status", "statu"), ("bring", "br"), ("speed", "spe"), ("dns", "dn"), ("analysis", "analysi")],
)
def test_words_that_only_look_like_forms(one: str, other: str) -> None:
    """Short ones, and endings that are none."""
    assert stem(one) != other


@for_each("word", ["c++", "asyncio.run", "3.14", "utf8s", "größes", "файлы", "向量", ""])
def test_words_with_joints_or_digits_are_not_stemmed(word: str) -> None:
    """Names with joints or digits, and words of letters beyond ASCII."""
    assert stem(word) == word


@given(st.text(max_size=50))
def test_any_text(text: str) -> None:
    """Something of a word is always left, and nothing is added but the `y` of `queries`."""
    assert len(stem(text)) <= len(text)
    assert bool(stem(text)) == bool(text)


@for_each(
    ("one", "other", "same"),
    [
        ("protect", "protection", True),
        ("run", "runs", True),
        ("open", "opened", True),
        ("открылся", "открыт", True),
        ("the", "theft", False),
        ("internal", "international", False),
        ("use", "user", False),
        ("a1", "a12", False),
    ],
)
def test_forms_of_a_word(one: str, other: str, same: bool) -> None:
    """Forms share most of their beginning; figures and short beginnings do not count."""
    assert is_form(one, other) is same
    assert is_form(other, one) is same
