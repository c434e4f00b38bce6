"""The embedded store without a package keeps the promises of every store, and one of its own: one writes, many read."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

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

from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.index import sqlite_vector_store
from modules.llm_platform.infrastructure.index.sqlite_vector_store import (
    FILE,
    SqliteMemoryVectorStore,
    SqliteVectorStore,
)


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
            return store  # no other one has its data

        return again


async def test_a_store_in_memory_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteMemoryVectorStore()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    assert await list_documents(store)
    assert list(tmp_path.rglob("*")) == []
    await store.aclose()


async def test_one_writes_and_others_read_what_was_finished(
    open_again: OpenAgain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer is told to wait, a reader sees nothing half done, and what was not finished is gone at the end."""
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
    """Somebody may clear the data folder while we run."""
    store = await open_again()
    await fill_store(store)
    await store.finish(COLLECTION_NAME)
    for file in (tmp_path / "index" / COLLECTION_NAME).iterdir():
        file.unlink()
    assert await store.describe(COLLECTION_NAME) is None
    await fill_store(store)
    assert len(await list_documents(store)) == 3


async def test_a_damaged_file_is_an_error(tmp_path: Path, open_again: OpenAgain) -> None:
    """Never an empty index; and what it says is no path."""
    (tmp_path / "index" / COLLECTION_NAME).mkdir(parents=True)
    (tmp_path / "index" / COLLECTION_NAME / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(VectorStoreError, match="index again") as raised:
        await (await open_again()).search(COLLECTION_NAME, "x", None, {}, 1)
    assert str(tmp_path) not in raised.value.message


async def test_removed_document_leaves_nothing(tmp_path: Path, open_again: OpenAgain) -> None:
    """Whatever stood in it: neither words nor filters of a passage that is gone."""
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
