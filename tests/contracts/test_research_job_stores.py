"""The stores of background runs in memory and in SQLite fulfil the contract of the port."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.fakes.research_job_store import (
    MANY,
    PROGRESS,
    QUESTION,
    TTL_DAYS,
    MemoryResearchJobStore,
    ResearchJobStoreContract,
    claimed,
    event,
    new_job,
)
from tests.support.clock import Clock

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import ClaimedJob
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore, LeaseLostError
from modules.llm_platform.infrastructure.stores.database.research_schema import SCHEMA
from modules.llm_platform.infrastructure.stores.research_jobs.sqlite import SqliteResearchJobStore


class TestMemoryResearchJobStore(ResearchJobStoreContract):
    @pytest.fixture
    async def store(self, clock: Clock) -> AsyncIterator[IResearchJobStore]:
        store = MemoryResearchJobStore(TTL_DAYS, clock)
        yield store
        await store.aclose()


class TestSqliteResearchJobStore(ResearchJobStoreContract):
    @pytest.fixture
    async def store(self, clock: Clock, tmp_path: Path) -> AsyncIterator[IResearchJobStore]:
        store = SqliteResearchJobStore(tmp_path / "here" / "researches.sqlite3", TTL_DAYS, clock)
        yield store
        await store.aclose()


async def test_two_processes_share_a_file(tmp_path: Path) -> None:
    """One store claims what another store on the same file has added. The first research creates the file."""
    file = tmp_path / "researches.sqlite3"
    one, other = SqliteResearchJobStore(file, TTL_DAYS), SqliteResearchJobStore(file, TTL_DAYS)
    assert await one.claim("x", 60.0) is None
    assert not file.exists()
    await one.add(new_job("a"), MANY)
    assert file.stat().st_mode & 0o777 == 0o600
    job = await other.claim("x", 60.0)
    assert job is not None
    assert await one.claim("y", 60.0) is None
    await one.aclose()
    await one.aclose()
    with pytest.raises(StoreError, match="closed"):
        await one.add(new_job("b"), MANY)
    await other.aclose()


async def test_a_file_of_the_first_version_is_read(tmp_path: Path) -> None:
    """Its research runs can be listed and executed, and several processes may open it at once."""
    file = tmp_path / "researches.sqlite3"
    statements = [
        statement.format(number="INTEGER PRIMARY KEY AUTOINCREMENT").replace("llm_platform.", "")
        for statement in SCHEMA
    ]
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in (*statements, "PRAGMA user_version = 1"):
            connection.execute(statement)
        request = ResearchRequest(query=QUESTION).model_dump_json()
        columns = "INSERT INTO research_job (owner, id, label, request, created_at) VALUES"
        for name in "ab":
            connection.execute(f"{columns} ('', ?, '', ?, 0)", (name, request))
    stores = [SqliteResearchJobStore(file, TTL_DAYS) for _ in range(2)]
    jobs = await asyncio.gather(*(store.claim("x", 60.0) for store in stores))
    found = sorted((job.id, job.request.query, job.traceparent) for job in jobs if job)
    assert found == [("a", QUESTION, ""), ("b", QUESTION, "")]
    for store in stores:
        await store.aclose()


async def test_a_server_of_a_version_before_threads_shares_the_file(tmp_path: Path) -> None:
    """An old server stores runs during an upgrade, with its statement as recorded here.

    Each run is its own thread and is deleted alone. Nothing remains of a run that was removed while its events were
    written.
    """
    file = tmp_path / "researches.sqlite3"
    store = SqliteResearchJobStore(file, TTL_DAYS)
    await store.add(new_job("new"), MANY)
    request = ResearchRequest(query=QUESTION).model_dump_json()
    columns = "INSERT INTO research_job (owner, id, label, request, created_at, webhook, traceparent) VALUES"
    with closing(sqlite3.connect(file)) as connection, connection:
        for name in "ab":
            connection.execute(f"{columns} ('', ?, '', ?, 0, NULL, '')", (name, request))
    assert [(thread.id, thread.runs) for thread in await store.threads("", 9)] == [("b", 1), ("a", 1), ("new", 1)]
    assert [thread.id for thread in await store.threads("", 9, None, "heat pumps")] == ["b", "a", "new"]
    assert await store.delete_thread("", "b") == ("b",)
    assert [job.id for job in await store.page("", 9)] == ["a", "new"]
    await store.aclose()


async def test_an_open_file_of_a_newer_version_is_not_written(tmp_path: Path) -> None:
    """An old server refuses writes from the first call after a newer one has changed the file."""
    file = tmp_path / "researches.sqlite3"
    store = SqliteResearchJobStore(file, TTL_DAYS)
    await store.add(new_job("a"), MANY)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for _ in range(2):
        with pytest.raises(StoreError, match="newer version"):
            await store.add(new_job("b"), MANY)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id FROM research_job").fetchall() == [("a",)]
    await store.aclose()


async def test_a_run_is_removed_while_its_events_are_written(tmp_path: Path) -> None:
    """Another process removes the run at any moment, and no event is left."""
    file = tmp_path / "researches.sqlite3"
    here, there = SqliteResearchJobStore(file, TTL_DAYS), SqliteResearchJobStore(file, TTL_DAYS)
    for name in "abcd":
        await here.add(new_job(name), MANY)
    jobs = [await claimed(here, name) for name in "abcd"]

    async def work(job: ClaimedJob) -> None:
        for number in itertools.count(1):  # until its run is removed
            await here.append(job, [event(number)], PROGRESS)

    working = [asyncio.create_task(work(job)) for job in jobs]
    await here.append(jobs[0], [event(1)], PROGRESS)
    assert await asyncio.gather(*(there.delete("", job.id) for job in jobs)) == [True] * 4
    ends = await asyncio.gather(*working, return_exceptions=True)
    assert {type(end) for end in ends} == {LeaseLostError}
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM research_job_event").fetchone() == (0,)
    await here.aclose()
    await there.aclose()


async def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    """The error names the file, for a newer version and for a file that is no database."""
    newer, broken = tmp_path / "newer.sqlite3", tmp_path / "broken.sqlite3"
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    broken.write_bytes(b"this is no database" * 100)
    for file, reason in ((newer, "newer version"), (broken, "not a database")):
        store = SqliteResearchJobStore(file, TTL_DAYS)
        with pytest.raises(StoreError, match=reason):
            await store.add(new_job("a"), MANY)
        await store.aclose()
