"""The store of watched questions in SQLite fulfils the contract of the port."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.fakes.watch_store import ALL, DAY, MANY, WatchStoreContract, change, claim, finish, new_watch
from tests.support.clock import Clock

from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.watch_store import IWatchStore, NoticeUnreadableError, WatchUnreadableError
from modules.llm_platform.infrastructure.stores.database.sqlite import BUSY_WAIT_S, open_shared_file
from modules.llm_platform.infrastructure.stores.watches import sqlite
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


async def test_a_file_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "watches.sqlite3"
    await SqliteWatchStore(file).add(new_watch("a"), MANY)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="a newer version wrote it"):
        await SqliteWatchStore(file).get("", "a")


async def test_the_list_takes_as_long_after_many_runs(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list reads the latest runs of a watch and those within the days of the budget, not all runs."""
    steps = 0

    def open_counted(file: Path) -> sqlite3.Connection:
        def count() -> None:
            nonlocal steps
            steps += 1

        connection = open_shared_file(file)
        connection.set_progress_handler(count, 1)
        return connection

    store = SqliteWatchStore(tmp_path / "watches.sqlite3", clock)
    await store.add(new_watch("a"), MANY)
    taken = list[int]()
    for runs in (2, 200):
        for _ in range(runs):
            claimed = await store.claim("t", 60.0)
            assert claimed is not None
            await finish(store, claimed, change("12"), cost_usd=0.5, following=dtos.NextRun(0.0), notices=["webhook"])
            notice = await store.claim_notice(60.0, ALL)
            assert notice is not None
            await store.settle_notice(notice, "delivered")
            clock.now += 900
        with monkeypatch.context() as counted:
            counted.setattr(sqlite.shared_file, "open_shared_file", open_counted)
            steps = 0
            [watch] = await store.page("", MANY)
        taken.append(steps)
        assert watch.cost_usd == 0.5 * watch.runs
    assert taken[1] < 2 * taken[0]


async def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    """A writer does not wait for a reader either, so frequent listing delays no run."""
    file = tmp_path / "watches.sqlite3"
    store = SqliteWatchStore(file)
    await store.add(new_watch("a"), MANY)
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(BUSY_WAIT_S / 2):
            assert len(await store.page("", MANY)) == 1


async def test_costs_in_a_file_of_the_previous_version_count(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes that open the file concurrently upgrade it once."""
    file = tmp_path / "watches.sqlite3"
    with closing(sqlite3.connect(file)) as connection, monkeypatch.context() as before:
        before.setattr(sqlite, "MIGRATIONS", sqlite.MIGRATIONS[:1])
        before.setattr(sqlite, "FORMAT", 1)
        sqlite._migrate(connection)
    store = SqliteWatchStore(file, clock)
    with closing(sqlite3.connect(file)) as connection, connection:
        columns = "owner, id, label, request, urls, is_only_urls, every_s, created_at, due_at, next_at, last_run"
        connection.execute(
            f"INSERT INTO watch ({columns}) VALUES ('', 'a', '', ?, '[]', 0, 900, 0, 0, 0, 2)",
            (new_watch("a").request.model_dump_json(),),
        )
        for number, cost_usd in ((1, 0.5), (2, 0.25)):
            run = (number, clock.now, cost_usd)
            connection.execute("INSERT INTO watch_run (watch, number, at, cost_usd, data) VALUES (1, ?, ?, ?, '')", run)
    others = [SqliteWatchStore(file, clock) for _ in range(8)]
    for [watch] in await asyncio.gather(*(other.page("", MANY) for other in others)):
        assert watch.cost_usd == 0.75
    await finish(store, await claim(store), cost_usd=0.125)
    assert [one.cost_usd for one in await store.page("", MANY)] == [0.875]


@pytest.mark.parametrize("column", ["request", "urls"])
async def test_an_unreadable_watch_is_leased_and_its_owner_can_see_and_remove_it(
    tmp_path: Path, clock: Clock, column: str
) -> None:
    """It blocks no other watch and no other notice."""
    file = tmp_path / "watches.sqlite3"
    store = SqliteWatchStore(file, clock)
    for watch_id in "ab":
        await store.add(new_watch(watch_id), MANY)
        clock.now += 1
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE watch SET {column} = '{{' WHERE id = 'a'")
    with pytest.raises(WatchUnreadableError) as caught:
        await store.claim("t", 60.0)
    other = await store.claim("t", 60.0)
    assert other is not None
    assert (caught.value.watch.id, other.id) == ("a", "b")
    paused = dtos.NextRun(DAY, 3, "refused")
    await finish(store, caught.value.watch, status="failed", following=paused, notices=["webhook"])
    await finish(store, other, change("12"), notices=["webhook"])
    notices = [await store.claim_notice(60.0, ALL) for _ in range(2)]
    assert [notice and notice.watch.id for notice in notices] == ["a", "b"]
    assert len(await store.page("", MANY)) == 2
    assert await store.remove("", "a")


@pytest.mark.parametrize("table", ["watch_run", "watch_change"])
async def test_a_damaged_row_is_an_error_with_a_remedy(tmp_path: Path, clock: Clock, table: str) -> None:
    """The damaged row is not silently left out. The watch can still be removed."""
    file = tmp_path / "watches.sqlite3"
    store = SqliteWatchStore(file, clock)
    await store.add(new_watch("a"), MANY)
    await finish(store, await claim(store), change("12"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {table} SET data = '[]'")
    read = store.runs if table == "watch_run" else store.changes
    with pytest.raises(StoreError, match=r"cannot be read.*remove the watch"):
        await read("", "a", MANY)
    assert await store.remove("", "a")


@pytest.mark.parametrize("data", ["{}", "[]", '{"kind": "moved", "fact": ""}'])
async def test_a_notice_with_an_unreadable_change_stops_no_other(tmp_path: Path, clock: Clock, data: str) -> None:
    """The notice is leased, so that its attempt can be counted."""
    file = tmp_path / "watches.sqlite3"
    store = SqliteWatchStore(file, clock)
    for watch_id in "ab":
        await store.add(new_watch(watch_id), MANY)
        claimed = await store.claim("t", 60.0)
        assert claimed is not None
        await finish(store, claimed, change("12"), notices=["webhook"])
        clock.now += 1
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE watch_change SET data = ? WHERE watch = 1", (data,))
    with pytest.raises(NoticeUnreadableError) as caught:
        await store.claim_notice(60.0, ALL)
    assert (caught.value.notice.watch.id, caught.value.notice.attempt) == ("a", 1)
    notice = await store.claim_notice(60.0, ALL)
    assert notice is not None
    assert notice.watch.id == "b"
