"""The embedded store without extras fulfils the contract of every store, and allows one writer with many readers."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, cast

import pytest
from tests.fakes.vector_store_contract import (
    COLLECTION,
    COLLECTION_NAME,
    SPECIAL_TEXT,
    OpenAgain,
    VectorStoreContract,
    fill_store,
    list_documents,
    put_document,
)

from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError, VectorStoreUnavailableError
from modules.llm_platform.infrastructure.index import sqlite_vector_store
from modules.llm_platform.infrastructure.index.sqlite_vector_store import (
    FILE,
    SqliteCollection,
    SqliteMemoryVectorStore,
    SqliteVectorStore,
)
from modules.llm_platform.presentation.kafka.contract.requests import KAFKA_FILTER_VALUES, MAX_FILTERS


@pytest.fixture
async def open_again(tmp_path: Path) -> AsyncIterator[OpenAgain]:
    async with AsyncExitStack() as stack:

        async def again() -> SqliteVectorStore:
            store = SqliteVectorStore(tmp_path / "index")
            stack.push_async_callback(store.aclose)
            return store

        yield again


class TestSqlite(VectorStoreContract):
    @pytest.fixture
    async def store(self, open_again: OpenAgain) -> SqliteVectorStore:
        store = await open_again()
        assert isinstance(store, SqliteVectorStore)
        return store


class TestSqliteInMemory(VectorStoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[SqliteMemoryVectorStore]:
        store = SqliteMemoryVectorStore()
        yield store
        await store.aclose()

    @pytest.fixture
    def open_again(self, store: SqliteMemoryVectorStore) -> OpenAgain:
        async def again() -> SqliteMemoryVectorStore:
            return store  # no other store has the same data

        return again


async def test_a_store_in_memory_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteMemoryVectorStore()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    assert await list_documents(store)
    assert list(tmp_path.rglob("*")) == []
    await store.aclose()


async def test_one_writes_and_others_read_finished_changes(
    open_again: OpenAgain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer is told to wait. A reader sees only complete changes, and unfinished changes are gone at the end."""
    monkeypatch.setattr(sqlite_vector_store, "BUSY_S", 0.0)
    writer, other = await open_again(), await open_again()
    await fill_store(writer)
    await writer.finish(COLLECTION_NAME)
    await put_document(writer, "birds", "birds sing")
    assert len(await list_documents(writer)) == 4
    assert len(await list_documents(other)) == 3
    with pytest.raises(VectorStoreConfigError, match="another process is writing"):
        await other.prepare(COLLECTION)
    await writer.aclose()
    await other.prepare(COLLECTION)
    assert len(await list_documents(other)) == 3


async def test_a_removed_collection_is_not_there(tmp_path: Path, open_again: OpenAgain) -> None:
    """The data folder may be cleared while the program runs."""
    store = await open_again()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    for file in (tmp_path / "index" / COLLECTION_NAME).iterdir():
        file.unlink()
    assert await store.describe(COLLECTION_NAME) is None
    await fill_store(store)
    assert len(await list_documents(store)) == 3


async def test_a_damaged_file_is_an_error(tmp_path: Path, open_again: OpenAgain) -> None:
    """A damaged file is never an empty index. The message contains no path."""
    (tmp_path / "index" / COLLECTION_NAME).mkdir(parents=True)
    (tmp_path / "index" / COLLECTION_NAME / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(VectorStoreError, match="index again") as raised:
        await (await open_again()).search(COLLECTION_NAME, "x", None, {}, 1)
    assert str(tmp_path) not in raised.value.message


async def test_a_removed_document_leaves_no_data(tmp_path: Path, open_again: OpenAgain) -> None:
    """Neither words nor filters of a removed passage remain."""
    store = await open_again()
    await store.prepare(COLLECTION)
    for _ in range(2):
        await put_document(
            store, "a", SPECIAL_TEXT, "other words", fields={"x": ("1", "1", "2")}, label=SPECIAL_TEXT[:50]
        )
    await store.remove(COLLECTION_NAME, ["a"])
    await store.finish(COLLECTION_NAME)
    with closing(sqlite3.connect(tmp_path / "index" / COLLECTION_NAME / FILE)) as database:
        for table in ("documents", "passages", "words", "fields"):
            assert database.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)


async def test_a_locked_file_is_not_damaged(
    tmp_path: Path, open_again: OpenAgain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the lock and does not suggest to index again."""
    monkeypatch.setattr(sqlite_vector_store, "BUSY_S", 0.0)
    store = await open_again()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "index" / COLLECTION_NAME / FILE, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(VectorStoreUnavailableError, match="locked"):
            await (await open_again()).search(COLLECTION_NAME, "x", None, {}, 1)


async def test_a_read_only_file_is_not_damaged(open_again: OpenAgain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file can be searched. A write reports the permissions of the folder."""
    store = await open_again()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    await store.aclose()
    connect = sqlite3.connect

    def connect_to_read(path: Path, *, uri: bool, **options: Any) -> sqlite3.Connection:
        return connect(f"{path.as_uri()}?mode=ro", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_to_read)
    store = await open_again()
    assert await store.search(COLLECTION_NAME, "cats", None, {}, 1)
    with pytest.raises(VectorStoreUnavailableError, match=r"may not be written.*LLM_PLATFORM_DATA_DIR"):
        await put_document(store, "birds", "birds sing")


class ReadOnlyFolder(sqlite3.Connection):
    """Simulates a connection to a file in a read-only folder, which root cannot have."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if "journal_mode" in statement:
            error = sqlite3.OperationalError("attempt to write a readonly database")
            error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DIRECTORY
            raise error
        return super().execute(statement, *values)


async def test_a_read_only_folder_is_searched(open_again: OpenAgain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished changes are found, including later ones. A write reports the permissions of the folder."""
    writer = await open_again()
    await fill_store(writer)
    await writer.finish(COLLECTION_NAME)
    await writer.aclose()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *file, **options: connect(*file, **options, factory=ReadOnlyFolder))
    store = await open_again()
    assert await store.search(COLLECTION_NAME, "cats", None, {}, 1)
    with pytest.raises(VectorStoreUnavailableError, match=r"may not be written.*LLM_PLATFORM_DATA_DIR"):
        await put_document(store, "birds", "birds sing")
    assert await store.search(COLLECTION_NAME, "birds", None, {}, 1) == []
    monkeypatch.undo()
    writer = await open_again()
    await put_document(writer, "birds", "birds sing")
    await writer.finish(COLLECTION_NAME)
    monkeypatch.setattr(sqlite3, "connect", lambda *file, **options: connect(*file, **options, factory=ReadOnlyFolder))
    with pytest.raises(VectorStoreUnavailableError):  # the write-ahead log has changes
        await (await open_again()).search(COLLECTION_NAME, "birds", None, {}, 1)
    await writer.aclose()
    assert (await store.search(COLLECTION_NAME, "birds", None, {}, 1))[0].passage.doc_id == "birds"


async def test_a_full_disk_is_not_damage(open_again: OpenAgain) -> None:
    """Earlier changes can be read, and the next write succeeds when there is space."""
    store = await open_again()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    collection = cast("SqliteCollection", store._get_collection(COLLECTION_NAME))

    def limit(pages: int) -> None:
        assert collection._connection is not None
        collection._connection.execute(f"PRAGMA max_page_count = {pages}")

    await store._run(limit, 1)
    with pytest.raises(VectorStoreUnavailableError, match="disk is full"):
        await put_document(store, "cats", *(f"passage {number} " + "word " * 500 for number in range(50)))
    await store.finish(COLLECTION_NAME)
    assert [passage.text for passage in await store.passages(COLLECTION_NAME, "cats")] == [
        "cats drink milk",
        "cats sleep on the mat",
    ]
    await store._run(limit, 10_000)
    await put_document(store, "cats", "one passage")
    assert [passage.text for passage in await store.passages(COLLECTION_NAME, "cats")] == ["one passage"]


async def test_documents_of_a_failed_write_are_unchanged(open_again: OpenAgain) -> None:
    """The documents of the failed write are unchanged, even if the run later commits its earlier writes."""
    store = await open_again()
    await fill_store(store)
    await put_document(store, "birds", "birds sing")
    collection = cast("SqliteCollection", store._get_collection(COLLECTION_NAME))

    def refuse(what: str) -> None:
        assert collection._connection is not None
        collection._connection.execute(
            f"CREATE TEMP TRIGGER refused BEFORE INSERT ON {what} BEGIN SELECT RAISE(FAIL, 'no'); END"
        )

    await store._run(refuse, "words")
    with pytest.raises(VectorStoreError):
        await put_document(store, "cats", "lions hunt at dawn")
    await store.finish(COLLECTION_NAME)
    other = await open_again()
    assert [passage.text for passage in await other.passages(COLLECTION_NAME, "cats")] == [
        "cats drink milk",
        "cats sleep on the mat",
    ]
    assert (await other.search(COLLECTION_NAME, "milk", None, {}, 1))[0].passage.doc_id == "cats"
    assert [passage.text for passage in await other.passages(COLLECTION_NAME, "birds")] == ["birds sing"]


async def test_filters_may_have_as_many_values_as_the_contract_allows(open_again: OpenAgain) -> None:
    """The number of placeholders that this build of SQLite accepts does not matter."""
    store = await open_again()
    await fill_store(store)
    collection = cast("SqliteCollection", store._get_collection(COLLECTION_NAME))

    def limit() -> None:
        assert collection._connection is not None
        collection._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 2000)

    await store._run(limit)
    many = tuple(map(str, range(KAFKA_FILTER_VALUES - 1)))
    filters = {"kind": (*many, "animal")}
    assert await store.search(COLLECTION_NAME, "cats", None, filters, 5)
    none = filters | {f"field {number}": many for number in range(MAX_FILTERS - 1)}
    assert await store.search(COLLECTION_NAME, "cats", None, none, 5) == []
