"""Passages ranked by BM25, in SQLite's full-text index, in memory.

The index keeps word positions only: the text stands in the documents.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.infrastructure.documents.reading import Document
from modules.llm_platform.infrastructure.documents.terms import query_terms, spelled_out

TITLE_WEIGHT: Final = 2.0
HEADING_WEIGHT: Final = 1.5
BODY_WEIGHT: Final = 1.0
COMMON_SHARE: Final = 0.25  # of all passages: a word that stands in more says little and takes most of the time
COMMON_FROM: Final = 2000  # passages; below, every word is worth its time
PASSAGE_BITS: Final = 20  # of a row's number; the document's number stands above them


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that holds words of the query, by its place in the document; more is better."""

    document: Document
    passage: int
    score: float


class PassageIndex:
    """Documents by path, and the search for their passages. To be used by one thread at a time."""

    def __init__(self) -> None:
        self._documents: dict[int, Document] = {}
        self._numbers: dict[str, int] = {}
        self._next = 1
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            self._database.execute(
                "CREATE VIRTUAL TABLE passages USING fts5"
                "(title, heading, body, content='', tokenize='unicode61 remove_diacritics 2')"
            )
        except sqlite3.OperationalError as error:
            raise WebSearchConfigError("this Python's SQLite has no FTS5, which documents are searched with") from error
        rank = f"bm25({TITLE_WEIGHT}, {HEADING_WEIGHT}, {BODY_WEIGHT})"
        self._database.execute("INSERT INTO passages(passages, rank) VALUES ('rank', ?)", (rank,))
        self._database.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(passages, row)")
        self._passages = 0
        self._frequencies: dict[str, int] = {}  # passages that hold a term, as far as it was asked for

    def __len__(self) -> int:
        return len(self._documents)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Changes inside cost a fraction of what they do one by one."""
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.execute("COMMIT")

    def add(self, document: Document) -> None:
        """Search this document too, instead of the one that had its path."""
        self.remove(document.path)
        number, self._next = self._next, self._next + 1
        self._documents[number] = document
        self._numbers[document.path] = number
        self._passages += len(document.passages)
        self._frequencies.clear()
        self._database.executemany(
            "INSERT INTO passages(rowid, title, heading, body) VALUES (?, ?, ?, ?)", _rows(number, document)
        )

    def get(self, path: str) -> Document | None:
        """The document that was added under this path."""
        number = self._numbers.get(path)
        return None if number is None else self._documents[number]

    def remove(self, path: str) -> Document | None:
        """Forget a document and give it back; None when it is not known."""
        number = self._numbers.pop(path, None)
        if number is None:
            return None
        document = self._documents.pop(number)
        self._passages -= len(document.passages)
        self._frequencies.clear()
        self._database.executemany(
            "INSERT INTO passages(passages, rowid, title, heading, body) VALUES ('delete', ?, ?, ?, ?)",
            _rows(number, document),
        )
        return document

    def search(self, query: str, language: str, limit: int) -> list[Hit]:
        """The best passages for any word of the query that is not a function word of the language."""
        terms = self._worthwhile(query_terms(query, language))
        if not terms:
            return []
        found: Iterable[tuple[int, float]] = self._database.execute(
            "SELECT rowid, -rank FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT ?",
            (" OR ".join(terms), limit),
        )
        mask = (1 << PASSAGE_BITS) - 1
        return [Hit(self._documents[row >> PASSAGE_BITS], row & mask, score) for row, score in found]

    def _worthwhile(self, terms: list[str]) -> list[str]:
        """The terms without those that stand nearly everywhere, unless there are no others."""
        if self._passages < COMMON_FROM:
            return terms
        rare = [term for term in terms if self._frequency(term) <= COMMON_SHARE * self._passages]
        return rare or terms

    def _frequency(self, term: str) -> int:
        if term not in self._frequencies:
            row = self._database.execute("SELECT doc FROM vocabulary WHERE term = ?", (term.strip('"'),)).fetchone()
            self._frequencies[term] = row[0] if row else 0
        return self._frequencies[term]


def _rows(number: int, document: Document) -> Iterator[tuple[int, str, str, str]]:
    """What the index holds of a document; the same every time, since removing needs what was added."""
    title = spelled_out(document.title)
    for place, passage in enumerate(document.passages[: 1 << PASSAGE_BITS]):
        body = document.text[passage.start : passage.end]
        yield (number << PASSAGE_BITS) + place, title, spelled_out(passage.heading), spelled_out(body)
