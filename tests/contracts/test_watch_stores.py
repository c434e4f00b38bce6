"""The store of watched questions in SQLite fulfils the contract of the port."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.fakes.watch_store import MANY, WatchStoreContract, new_watch
from tests.support.clock import Clock

from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.watch_store import IWatchStore
from modules.llm_platform.infrastructure.stores.watches.sqlite import SqliteWatchStore


class TestSqliteWatchStore(WatchStoreContract):
    @pytest.fixture
    def store(self, clock: Clock, tmp_path: Path) -> IWatchStore:
        return SqliteWatchStore(tmp_path / "here" / "watches.sqlite3", clock)

    @pytest.fixture
    def second(self, clock: Clock, tmp_path: Path, store: IWatchStore) -> IWatchStore:
        return SqliteWatchStore(tmp_path / "here" / "watches.sqlite3", clock)


async def test_a_server_without_watches_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "watches.sqlite3"
    store = SqliteWatchStore(file)
    assert await store.claim("t", 60.0) is None
    assert not file.exists()
    await store.add(new_watch("a"), MANY)
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "watches.sqlite3"
    await SqliteWatchStore(file).add(new_watch("a"), MANY)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="a newer version wrote it"):
        await SqliteWatchStore(file).get("", "a")
