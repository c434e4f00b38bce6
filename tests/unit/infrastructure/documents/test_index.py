"""infrastructure/documents/index.py"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.passages import split_passages
from modules.llm_platform.infrastructure.documents import index as index_module
from modules.llm_platform.infrastructure.documents.index import PassageIndex
from modules.llm_platform.infrastructure.documents.reading import Document


def document(path: str, text: str, title: str = "Title") -> Document:
    return Document(path, title, text, tuple(split_passages(text)))


@pytest.fixture
def index() -> Iterator[PassageIndex]:
    index = PassageIndex()
    yield index
    index.close()


def found(index: PassageIndex, query: str, language: str = "en") -> list[str]:
    return [hit.document.path for hit in index.search(query, language, 10)]


def test_the_passage_that_says_most_comes_first(index: PassageIndex) -> None:
    """BM25: rare words count more, and scores fall."""
    index.add(document("a", "The event loop runs tasks. The event loop is the core of asyncio."))
    index.add(document("b", "Threads run in parallel, tasks do not."))
    index.add(document("c", "Nothing to see."))
    hits = index.search("How does the event loop run tasks?", "en", 10)
    assert [hit.document.path for hit in hits] == ["a", "b"]
    assert hits[0].score > hits[1].score > 0


def test_a_word_in_title_or_heading_counts_more(index: PassageIndex) -> None:
    """What a document is about stands above it."""
    for number in range(5):
        index.add(document(f"other{number}", "Some other words entirely."))
    index.add(document("body", "Caching is mentioned here in passing."))
    index.add(document("heading", "# Caching\n\nWords that do not repeat it here."))
    index.add(document("title", "Words that do not repeat it here.", title="Caching"))
    assert set(found(index, "caching")[:2]) == {"title", "heading"}


@pytest.mark.parametrize(
    ("text", "query", "language"),
    [
        ("异步编程是一种方法", "什么是异步编程？", "zh"),
        ("これは日本語の文章です", "日本語とは", "ja"),
        ("비동기 프로그래밍", "비동기란 무엇인가요", "ko"),
        ("Асинхронное ПРОГРАММИРОВАНИЕ", "программирование", "ru"),
        ("Die Straße ist gesperrt", "straße", "de"),
        ("use `asyncio.run_in_executor` here", "run_in_executor", "en"),
        ("written in C++ and C#", "c++", "en"),
        ("café au lait", "cafe", "fr"),
        ("ＦＵＬＬ width", "full", "en"),
        ("भारत की राजधानी", "राजधानी", "hi"),
        ("وثائق البرنامج", "البرنامج", "ar"),
    ],
)
def test_any_script_is_found(index: PassageIndex, text: str, query: str, language: str) -> None:
    """Scripts without blanks, identifiers, other cases and widths."""
    index.add(document("noise", "Something else, with c and x and y."))
    index.add(document("a", text))
    assert found(index, query, language)[0] == "a"


def test_adding_again_replaces(index: PassageIndex) -> None:
    """A path stands for one document, the last one; removing leaves no word behind."""
    index.add(document("a", "first wording 编程"))
    index.add(document("a", "second wording"))
    assert (found(index, "first"), found(index, "编程", "zh"), found(index, "second")) == ([], [], ["a"])
    assert index.remove("a") is not None
    assert index.remove("a") is None
    assert found(index, "second") == []
    assert len(index) == 0


def test_words_that_stand_everywhere_are_left_out_of_long_searches(
    index: PassageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They rank nothing and take most of the time; alone they are searched all the same."""
    monkeypatch.setattr(index_module, "COMMON_FROM", 8)
    with index.batch():
        for number in range(8):
            index.add(document(f"d{number}", "common words" + (" rare" if number == 3 else "")))
    assert found(index, "common rare") == ["d3"]
    assert len(found(index, "common")) == 8


def test_a_python_without_fts5_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator learns what is missing, not that a table is."""

    class Database:
        def execute(self, statement: str) -> None:
            raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(index_module.sqlite3, "connect", lambda *_, **__: Database())
    with pytest.raises(WebSearchConfigError, match="FTS5"):
        PassageIndex()
