"""Embedded vector store in SQLite, which comes with Python. It is used if Qdrant's engine is not installed.

Keywords are ranked by BM25 over an inverted index. Dense vectors are compared one by one, which is fast enough for some ten
thousand files.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import mul
from pathlib import Path
from typing import Any, Final

from modules.llm_platform.domain.dtos import retrieval_dtos as dtos
from modules.llm_platform.domain.exceptions import VectorStoreError
from modules.llm_platform.domain.retrieval.bm25 import make_passage_vector
from modules.llm_platform.domain.retrieval.score_fusion import scale_by_distribution
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.infrastructure.files.private_files import make_private_folder, open_privately
from modules.llm_platform.infrastructure.index import payloads
from modules.llm_platform.infrastructure.index.embedded_vector_store import Documents, EmbeddedVectorStore
from modules.llm_platform.infrastructure.index.hybrid import (
    CANDIDATES,
    HybridQuery,
    build_hybrid_query,
    select_active_filters,
)

FILE: Final = "passages.sqlite3"  # The name of the file in the collection's folder.
PAGE_DOCUMENTS: Final = 1000  # Documents in one page of the list.
SMOOTHING: Final = 0.5  # The term that BM25 adds in the inverse document frequency.
CACHE_KIB: Final = 64_000
BUSY_S: Final = 5.0  # The longest wait for a lock that another process holds.
# Errors that say nothing about the content of the file, by SQLite's primary result codes.
TEMPORARY_ERRORS: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_BUSY: "another process has locked it",
    sqlite3.SQLITE_LOCKED: "another process has locked it",
    sqlite3.SQLITE_CANTOPEN: "its files cannot be opened",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_PERM: "its files may not be written",
    sqlite3.SQLITE_READONLY: "its files may not be written",
}
PRIMARY_CODE: Final = 0xFF  # Extended result codes add higher bits.
_SCHEMA: Final = """
CREATE TABLE facts (payload TEXT NOT NULL);
CREATE TABLE documents (doc_id TEXT PRIMARY KEY, payload TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE passages (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, doc_id TEXT NOT NULL, place INTEGER NOT NULL, payload TEXT NOT NULL,
    vector BLOB
);
CREATE INDEX passages_of_document ON passages (doc_id, place);
CREATE TABLE words (word INTEGER, passage INTEGER, weight REAL NOT NULL, PRIMARY KEY (word, passage)) WITHOUT ROWID;
CREATE TABLE fields (field TEXT, passage INTEGER, PRIMARY KEY (field, passage)) WITHOUT ROWID;
"""


class SqliteVectorStore(EmbeddedVectorStore):
    """Vector store with one file for each collection.

    One process at a time writes, in a transaction that `finish` commits. Others read the last commit.
    """

    name = "sqlite"

    def _open_collection(self, name: str, folder: Path) -> SqliteCollection:
        return SqliteCollection(name, folder)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn errors inside the block into vector store errors, whose messages never quote stored text as SQLite's may."""
    try:
        yield
    except OSError as error:
        raise payloads.make_file_error(error) from error
    except (sqlite3.Error, KeyError, ValueError) as error:
        reason = TEMPORARY_ERRORS.get(_read_code(error))
        if reason is not None:
            raise payloads.make_unavailable_index(reason) from error
        raise VectorStoreError(payloads.DAMAGED) from error


def _read_code(error: Exception) -> int:
    """Return the primary result code of an error of SQLite, or 0 for any other error."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & PRIMARY_CODE


class SqliteCollection:
    """One collection. All methods block, must be called by one thread, and raise only vector store errors."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._path = folder / FILE
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, ...] | None = None  # Device and inode of the file that is open, see `_identify_file`.
        self._is_read_only = False  # The folder may not be written.
        self._facts: dtos.Collection | None = None

    # --- reading ----------------------------------------------------------------------------------------------------------

    def facts(self) -> dtos.Collection | None:
        with _translate_errors():
            return self._get_facts()

    def search(
        self, text: str, vector: dtos.Vector | None, filters: dtos.Filters, limit: int
    ) -> list[dtos.FoundPassage]:
        with _translate_errors():
            facts, database = self._require()
            query = build_hybrid_query(facts, text, vector)
            where, values = _condition(filters)
            lists = [self._search_by_words(database, query, where, values)] if query.words else []
            if query.vector is not None:
                lists.append(self._search_by_vector(database, query.vector, where, values))
            fused: Counter[int] = Counter()
            for found in lists:
                scaled = scale_by_distribution([score for _, score in found])
                fused.update({number: score for (number, _), score in zip(found, scaled, strict=True)})
            best = sorted(fused.items(), key=lambda ranked: (-ranked[1], ranked[0]))[:limit]
            found_passages = []
            for number, score in best:
                row = _fetch_row(database, "SELECT id, payload FROM passages WHERE number = ?", number)
                if row is None:
                    raise KeyError(number)
                passage = payloads.parse_passage(row[0], json.loads(row[1]))
                found_passages.append(dtos.FoundPassage(passage=passage, score=query.score(score)))
            return found_passages

    def lookup(self, doc_ids: Sequence[str]) -> dict[str, dtos.IndexedDocument]:
        with _translate_errors():
            _, database = self._require()
            statement = "SELECT payload FROM documents WHERE doc_id = ?"
            rows = ((doc_id, _fetch_row(database, statement, replace_surrogates(doc_id))) for doc_id in doc_ids)
            return {doc_id: payloads.parse_document(json.loads(row[0])) for doc_id, row in rows if row}

    def documents(self, after: Any) -> tuple[list[dtos.IndexedDocument], Any]:
        """Return the documents after the id `after` (None for the first page), and the id to continue after.

        The second value is None at the end.
        """
        with _translate_errors():
            _, database = self._require()
            rows = database.execute(
                "SELECT payload FROM documents WHERE doc_id > ? OR ? IS NULL ORDER BY doc_id LIMIT ?",
                (after, after, PAGE_DOCUMENTS),
            )
            found = [payloads.parse_document(json.loads(payload)) for (payload,) in rows]
            return found, found[-1].doc_id if len(found) == PAGE_DOCUMENTS else None

    def passages(self, doc_id: str) -> list[dtos.Passage]:
        with _translate_errors():
            _, database = self._require()
            rows = database.execute(
                "SELECT id, payload FROM passages WHERE doc_id = ? ORDER BY place", (replace_surrogates(doc_id),)
            )
            return [payloads.parse_passage(point_id, json.loads(payload)) for point_id, payload in rows]

    def _search_by_words(
        self, database: sqlite3.Connection, query: HybridQuery, where: str, values: Sequence[str]
    ) -> list[tuple[int, float]]:
        """Return the numbers and BM25 scores of the best passages. `where` and `values` come from `_condition`."""
        (passages,) = _fetch_row(database, "SELECT COUNT(*) FROM passages") or (0,)
        rarity = []
        for word in query.words.indices:
            (frequency,) = _fetch_row(database, "SELECT COUNT(*) FROM words WHERE word = ?", word) or (0,)
            if frequency:
                rarity.append((word, math.log(1 + (passages - frequency + SMOOTHING) / (frequency + SMOOTHING))))
        if not rarity:
            return []
        return database.execute(
            f"WITH query(word, rarity) AS (VALUES {','.join(['(?, ?)'] * len(rarity))}) "  # noqa: S608  The inserted text is placeholders.
            "SELECT words.passage, SUM(words.weight * query.rarity) AS score FROM query JOIN words USING (word) "
            f"WHERE {where.format('words.passage')} GROUP BY words.passage ORDER BY score DESC, words.passage LIMIT ?",
            (*(value for weighted_word in rarity for value in weighted_word), *values, CANDIDATES),
        ).fetchall()

    def _search_by_vector(
        self, database: sqlite3.Connection, vector: Sequence[float], where: str, values: Sequence[str]
    ) -> list[tuple[int, float]]:
        rows = database.execute(
            f"SELECT number, vector FROM passages WHERE vector IS NOT NULL AND {where.format('number')}",  # noqa: S608
            values,
        )
        scores = [(number, math.fsum(map(mul, vector, array("f", blob)))) for number, blob in rows]
        return sorted(scores, key=lambda scored: (-scored[1], scored[0]))[:CANDIDATES]

    # --- writing ----------------------------------------------------------------------------------------------------------

    def prepare(self, facts: dtos.Collection) -> None:
        with _translate_errors():
            self._check(facts)
            if self._connection is None:
                self._open_new()
            database = self._begin_work()
            # Another writer may have created the collection in the meantime.
            self._facts = self._read_facts(database)
            self._check(facts)
            if self._facts is None:
                database.execute("INSERT INTO facts VALUES (?)", (json.dumps(payloads.make_facts_payload(facts)),))
                self._facts = facts

    def replace(self, documents: Documents) -> None:
        with _translate_errors():
            facts, _ = self._require()
            new = {replace_surrogates(document.doc_id): (document, passages) for document, passages in documents}
            points = payloads.prepare_points(facts, *(passages for _, passages in new.values()))
            with _all_or_nothing(self._begin_work()) as database:
                for doc_id in new:
                    _delete(database, doc_id)
                database.executemany(
                    "INSERT INTO documents VALUES (?, ?)",
                    [
                        (doc_id, json.dumps(payloads.make_document_payload(document)))
                        for doc_id, (document, _) in new.items()
                    ],
                )
                _insert(database, points)

    def add_vectors(self, documents: Documents) -> None:
        with _translate_errors():
            facts, _ = self._require()
            with _all_or_nothing(self._begin_work()) as database:
                for document, passages in documents:
                    database.execute(
                        "UPDATE documents SET payload = ? WHERE doc_id = ?",
                        (json.dumps(payloads.make_document_payload(document)), replace_surrogates(document.doc_id)),
                    )
                    database.executemany(
                        "UPDATE passages SET vector = ? WHERE id = ? AND doc_id = ?",
                        [
                            (_encode_vector(point.vector), point.id, replace_surrogates(document.doc_id))
                            for point in payloads.prepare_points(facts, passages)
                        ],
                    )

    def remove(self, doc_ids: Sequence[str]) -> None:
        with _translate_errors():
            self._require()
            with _all_or_nothing(self._begin_work()) as database:
                for doc_id in doc_ids:
                    _delete(database, replace_surrogates(doc_id))

    def finish(self) -> None:
        with _translate_errors():
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def close(self) -> None:
        with _translate_errors():
            self._close()

    # --- opening ----------------------------------------------------------------------------------------------------------

    def _require(self) -> tuple[dtos.Collection, sqlite3.Connection]:
        facts = self._get_facts()
        if facts is None or self._connection is None:
            raise payloads.no_collection(self._name)
        return facts, self._connection

    def _get_facts(self) -> dtos.Collection | None:
        """Return the facts of the collection, or None if it does not exist.

        The file is looked up each time, because another process may have created, replaced or removed it.
        """
        try:
            about = os.stat(self._path)  # noqa: PTH116  Path.stat takes twice as long, and every search comes here.
        except FileNotFoundError:
            self._close()
            return None
        if self._opened != self._identify_file(about):
            self._close()
            self._connection = self._open_file()
            self._opened = self._identify_file(about)
        if self._facts is None and self._connection is not None:
            self._facts = self._read_facts(self._connection)
        return self._facts

    def _identify_file(self, about: os.stat_result) -> tuple[int, ...]:
        """Return values that differ for another file. They include the modification time if the connection is read-only: such a
        connection does not see changes of its own file.
        """
        file = about.st_dev, about.st_ino
        return (*file, about.st_mtime_ns) if self._is_read_only else file

    def _open_file(self) -> sqlite3.Connection:
        """Return a connection, which only reads if the folder may not be written.

        SQLite reads a file with a write-ahead log in such a folder only as one that nobody changes. So a log with changes,
        which a writer left there, is an error.
        """
        try:
            return self._connect(self._path)
        except sqlite3.OperationalError as error:
            log = self._path.with_name(f"{FILE}-wal")
            is_refused = _read_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
            if not is_refused or (log.exists() and log.stat().st_size):
                raise
        database = self._connect(f"{self._path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        self._is_read_only = True
        return database

    @staticmethod
    def _connect(file: Path | str, *, uri: bool = False) -> sqlite3.Connection:
        with ExitStack() as undo:
            database = sqlite3.connect(file, uri=uri, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            undo.callback(database.close)
            if not uri:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
            database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            undo.pop_all()
        return database

    def _read_facts(self, database: sqlite3.Connection) -> dtos.Collection | None:
        if not _fetch_row(database, "SELECT 1 FROM sqlite_master WHERE name = 'facts'"):
            return None
        row = _fetch_row(database, "SELECT payload FROM facts")
        if row is None:
            return None
        try:
            return payloads.parse_facts(self._name, json.loads(row[0]))
        except KeyError as error:
            raise payloads.make_unknown_collection(self._name) from error

    def _open_new(self) -> None:
        make_private_folder(self._path.parent)
        with open(self._path, "ab", opener=open_privately):
            pass
        self._get_facts()

    def _begin_work(self) -> sqlite3.Connection:
        """Return the connection with a transaction. Raises VectorStoreBusyError if another process has a transaction."""
        database = self._connection
        if database is None:
            raise payloads.no_collection(self._name)
        if not database.in_transaction:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if _read_code(error) != sqlite3.SQLITE_BUSY:
                    raise
                raise payloads.make_busy_collection(self._name) from error
            if not _fetch_row(database, "SELECT 1 FROM sqlite_master WHERE name = 'facts'"):
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    database.execute(statement)
        return database

    def _check(self, facts: dtos.Collection) -> None:
        """Raise if the collection was made with another embedder. The transaction, if there is one, is rolled back."""
        stored = self._get_facts()
        if stored and (stored.embedder, stored.dimension) != (facts.embedder, facts.dimension):
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise payloads.make_embedder_mismatch(stored, facts)

    def _close(self) -> None:
        database, self._connection, self._opened, self._facts = self._connection, None, None, None
        self._is_read_only = False
        if database is not None:
            if database.in_transaction:
                database.execute("ROLLBACK")
            database.close()


class SqliteMemoryVectorStore(SqliteVectorStore):
    """A SqliteVectorStore in the memory of this process. Nothing is written to a disk, and `aclose` discards it."""

    name = "memory"

    def __init__(self) -> None:
        super().__init__(Path())

    def _open_collection(self, name: str, folder: Path) -> SqliteCollection:
        return _MemoryCollection(name, folder)


class _MemoryCollection(SqliteCollection):
    def _get_facts(self) -> dtos.Collection | None:
        if self._facts is None and self._connection is not None:
            self._facts = self._read_facts(self._connection)
        return self._facts

    def _open_new(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA temp_store = MEMORY")


def _fetch_row(database: sqlite3.Connection, statement: str, *values: Any) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = database.execute(statement, values).fetchone()
    return row


@contextmanager
def _all_or_nothing(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Undo the changes of the block if it fails, so that a later `finish` does not commit half of them.

    After some errors, such as a full disk, SQLite has already undone the whole transaction.
    """

    def undo() -> None:
        if database.in_transaction:
            database.execute("ROLLBACK TO documents")

    database.execute("SAVEPOINT documents")
    with ExitStack() as on_error:
        on_error.callback(undo)
        yield database
        database.execute("RELEASE documents")
        on_error.pop_all()


def _delete(database: sqlite3.Connection, doc_id: str) -> None:
    if not _fetch_row(database, "SELECT 1 FROM documents WHERE doc_id = ?", doc_id):
        return
    rows = database.execute("SELECT number, id, payload FROM passages WHERE doc_id = ?", (doc_id,)).fetchall()
    for number, point_id, text in rows:
        # The words and fields are computed from the payload, because an index by passage would double the size of the file.
        payload = json.loads(text)
        words = make_passage_vector(payloads.parse_passage(point_id, payload).searched).indices
        database.executemany("DELETE FROM words WHERE word = ? AND passage = ?", [(word, number) for word in words])
        database.executemany(
            "DELETE FROM fields WHERE field = ? AND passage = ?",
            [(field, number) for field in payload[payloads.FIELDS]],
        )
    database.execute("DELETE FROM passages WHERE doc_id = ?", (doc_id,))
    database.execute("DELETE FROM documents WHERE doc_id = ?", (doc_id,))


def _insert(database: sqlite3.Connection, points: Sequence[payloads.PreparedPoint]) -> None:
    (last,) = _fetch_row(database, "SELECT MAX(number) FROM passages") or (None,)
    first = (last or 0) + 1
    database.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                number,
                point.id,
                point.payload["doc_id"],
                point.payload["place"],
                json.dumps(point.payload),
                _encode_vector(point.vector),
            )
            for number, point in enumerate(points, first)
        ],
    )
    words = [
        (word, number, weight)
        for number, point in enumerate(points, first)
        for word, weight in zip(point.words.indices, point.words.values, strict=True)
    ]
    database.executemany(
        "INSERT INTO words VALUES (?, ?, ?)", sorted(words)
    )  # Rows in the order of the key touch fewer pages.
    fields = (
        (field, number) for number, point in enumerate(points, first) for field in set(point.payload[payloads.FIELDS])
    )
    database.executemany("INSERT INTO fields VALUES (?, ?)", fields)


def _encode_vector(vector: Sequence[float] | None) -> bytes | None:
    return None if vector is None else array("f", vector).tobytes()


def _condition(filters: Mapping[str, tuple[str, ...]]) -> tuple[str, list[str]]:
    """Return an SQL condition for the filters, and the values for its placeholders.

    The condition has `{0}` where the column with the passage's number is to be inserted.
    """
    conditions, values = ["1"], []
    for key, accepted in select_active_filters(dict(filters)):
        texts = payloads.make_field_texts(key, accepted)
        # One placeholder for all texts of a field: SQLite limits the placeholders of a statement to some ten thousand.
        conditions.append("{0} IN (SELECT passage FROM fields WHERE field IN (SELECT value FROM json_each(?)))")
        values.append(json.dumps(texts))
    return " AND ".join(conditions), values
