"""The embedded store without a package keeps the promises of every store, and one of its own: one writes, many read."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from modules.llm_platform.domain.exceptions import VectorStoreConfigError, VectorStoreError
from modules.llm_platform.infrastructure.adapters import sqlite_vector_store
from modules.llm_platform.infrastructure.adapters.sqlite_vector_store import FILE, SqliteVectorStore
from modules.llm_platform.testing import VectorStoreContract
from modules.llm_platform.testing.made_up_documents import FACTS, NAME, filled, listed, put
from modules.llm_platform.testing.vector_store_contract import HARD_TEXT, OpenAgain


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


async def test_one_writes_and_others_read_what_was_finished(
    open_again: OpenAgain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer is told to wait, a reader sees nothing half done, and what was not finished is gone at the end."""
    monkeypatch.setattr(sqlite_vector_store, "BUSY_S", 0.0)
    writer, other = await open_again(), await open_again()
    await filled(writer)
    await writer.finish(NAME)
    await put(writer, "birds", "birds sing")
    assert len(await listed(writer)) == 4
    assert len(await listed(other)) == 3
    with pytest.raises(VectorStoreConfigError, match="another process is writing"):
        await other.prepare(FACTS)
    await writer.aclose()
    await other.prepare(FACTS)
    assert len(await listed(other)) == 3


async def test_a_removed_collection_is_not_there(tmp_path: Path, open_again: OpenAgain) -> None:
    """Somebody may clear the data folder while we run."""
    store = await open_again()
    await filled(store)
    await store.finish(NAME)
    for file in (tmp_path / "index" / NAME).iterdir():
        file.unlink()
    assert await store.describe(NAME) is None
    await filled(store)
    assert len(await listed(store)) == 3


async def test_a_damaged_file_is_an_error(tmp_path: Path, open_again: OpenAgain) -> None:
    """Never an empty index; and what it says is no path."""
    (tmp_path / "index" / NAME).mkdir(parents=True)
    (tmp_path / "index" / NAME / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(VectorStoreError, match="index anew") as raised:
        await (await open_again()).search(NAME, "x", None, {}, 1)
    assert str(tmp_path) not in raised.value.message


async def test_what_is_taken_out_leaves_nothing_behind(tmp_path: Path, open_again: OpenAgain) -> None:
    """Whatever stood in it: neither words nor filters of a passage that is gone."""
    store = await open_again()
    await store.prepare(FACTS)
    for _ in range(2):
        await put(store, "a", HARD_TEXT, "other words", fields={"x": ("1", "1", "2")}, label=HARD_TEXT[:50])
    await store.remove(NAME, ["a"])
    await store.finish(NAME)
    with closing(sqlite3.connect(tmp_path / "index" / NAME / FILE)) as database:
        for table in ("documents", "passages", "words", "fields"):
            assert database.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)
