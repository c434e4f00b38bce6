"""The names of topics and entries."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import PurePosixPath
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.report_dtos import SearchQueries
from modules.llm_platform.domain.research.store_key import is_entry_key, is_topic_name, make_topic, store_key

MAX_FILE_NAME_BYTES = 255


@for_each(
    ("query", "slug"),
    [
        ("What is Python asyncio?", "what-is-python-asyncio"),
        ("  Что такое   Mixture of Tokens? ", "что-такое-mixture-of-tokens"),
        ("हिन्दी में खोज", "हिन्दी-में-खोज"),
        ("日本語の検索", "日本語の検索"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full-width"),
        ("Straße, C++ & *.py", "strasse-c-py"),
        ("../../etc/passwd", "etc-passwd"),
        ("🦀🦀🦀", "topic"),
        ("❤️", "topic"),
        ("a\u202eb\x00c", "a-b-c"),
        ("word " * 40, "word-word-word-word-word-word-word-word-word-wor"),
    ],
)
def test_a_topic_can_be_read(query: str, slug: str) -> None:
    """The name shows the question's words in any script, and ends in a hash."""
    name, _, digest = make_topic(query).name.rpartition("-")
    assert name == slug
    assert len(digest) == 10
    assert make_topic(query).query == query


def test_questions_that_differ_are_topics_that_differ() -> None:
    """Where the slug is the same, the hash is not; case and blanks make no difference."""
    assert make_topic("c++?").name != make_topic("c#?").name
    assert make_topic("Straße  NOW").name == make_topic(" STRASSE now ").name
    assert make_topic("ﬁne").name == make_topic("FINE").name


@given(st.text(min_size=1, max_size=600))
def test_any_question_gives_the_name_of_one_folder(query: str) -> None:
    """The name is a valid topic name, cannot leave the folder, and is short enough for any file system."""
    name = make_topic(query).name
    assert is_topic_name(name)
    assert not set(name) & set('/\\:*?"<>|\0. ')
    assert len(name.encode()) < MAX_FILE_NAME_BYTES - len(".json")
    assert make_topic(query).name == name


@given(st.text(max_size=80))
def test_what_may_be_a_name_leads_nowhere(name: str) -> None:
    """No name of a topic holds a separator, a dot, a blank or what cannot be seen."""
    if is_topic_name(name):
        assert name
        assert not set(name) & set("/\\:. \0\n\u202e")


@for_each("name", ["", ".", "..", "../x", "a/b", "a\\b", "a:b", "a\0", "a b", "\u202ea", "💥", "é" * 200])
def test_invalid_names(name: str) -> None:
    """Path traversal, reserved characters, invisible characters and long names are invalid."""
    assert not is_topic_name(name)
    assert not is_entry_key(name)


def test_keys_are_small() -> None:
    """Some file systems take two names that differ in case for one."""
    assert is_entry_key(key())
    assert not is_entry_key(key().upper() + "A")
    assert not is_entry_key("a" * 65)


def key(**changes: object) -> str:
    values: dict[str, object] = {"version": "1", "model": "m", "language": "en", "text": "x", "count": 1, **changes}
    return store_key(**values)  # type: ignore[arg-type]


@for_each(
    "change",
    [
        {"version": "2"},
        {"model": "n"},
        {"language": "ru"},
        {"text": "y"},
        {"count": 2},
        {"count": "1"},
        {"count": True},
        {"text": None},
        {"more": 1},
        {"text": ["x"]},
        {"text": {"x": 1}},
    ],
)
def test_whatever_changes_changes_the_key(change: dict[str, object]) -> None:
    """Prompt version, model, language and each input count, and so does the kind of a value."""
    assert key(**change) != key()


def test_what_is_the_same_has_the_same_key() -> None:
    """The order of names does not count; what says the same is the same, whether tuple or list, model or its fields."""
    queries = SearchQueries(question="q", queries=("a", "b"))
    assert store_key(version="1", model="m", language="en", count=1, text="x") == key()
    assert key(text=("a", "b")) == key(text=["a", "b"])
    assert key(text=queries) == key(text=queries.model_dump())
    assert key(text={"b", "a"}) == key(text=frozenset("ab")) == key(text=["a", "b"])
    assert key(text=MappingProxyType({"a": 1})) == key(text={"a": 1})
    assert key(text=date(2026, 1, 2)) == key(text="2026-01-02")
    assert key(text=PurePosixPath("a/b")) == key(text="a/b")


def test_a_key_is_the_same_in_every_process() -> None:
    """No address in memory and no order of a set goes in."""
    program = (
        "from modules.llm_platform.domain.research.store_key import store_key;"
        "print(store_key(version='1', model='m', language='en', text={'alpha', 'beta', 'gamma', 'delta'}))"
    )
    ran = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in "ab"]
    here = store_key(version="1", model="m", language="en", text={"delta", "alpha", "gamma", "beta"})
    assert {process.stdout.strip() for process in ran} == {here}


def test_what_has_no_text_of_its_own_is_refused() -> None:
    """An object whose text holds an address would never be found again."""
    with pytest.raises(TypeError, match="object cannot be part of a key"):
        key(text=object())
