"""Servers of two versions on one PostgreSQL, as during a rolling upgrade."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
from tests.fakes.research_job_store import LEASE_S, MANY, PROGRESS, QUESTION, claimed, event, new_job
from tests.kafka.child_process import START_S
from tests.services.postgres_server import PostgresServer, opened

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.research_job_store import LeaseLostError
from modules.llm_platform.infrastructure.stores.database import migrations
from modules.llm_platform.infrastructure.stores.database.migrations import LATEST, MIGRATIONS, migrate
from modules.llm_platform.infrastructure.stores.database.research_schema import CASCADE_POSTGRES
from modules.llm_platform.infrastructure.stores.research_jobs.postgres import PostgresResearchJobStore

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
BEFORE_THREADS = "7d4c7a8"  # the last commit whose tables (version 4) have no threads
TABLES_BEFORE_THREADS = 4
TTL_DAYS = 30.0
RUNS = 14
BATCHES = 200  # batches of events of each run

# Runs on the code of that commit. Reads a line `submit ID`, `list`, `claim` or `append`, and answers each
# with a line of JSON.
OLD_SERVER = """
import asyncio, json, sys
from pathlib import Path
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent, NewResearchJob, ResearchProgress
from modules.llm_platform.domain.ports.research_job_store import LeaseLostError
from modules.llm_platform.infrastructure.postgres.migrations import check_schema
from modules.llm_platform.infrastructure.postgres.pool import Database
from modules.llm_platform.infrastructure.postgres.research_job_store import PostgresResearchJobStore

async def main():
    assert Path(sys.argv[2]) in Path(sys.modules[PostgresResearchJobStore.__module__].__file__).parents
    database = Database(sys.argv[1], check_schema)
    store = PostgresResearchJobStore(database, 30.0)
    for line in sys.stdin:
        order, _, name = line.strip().partition(" ")
        if order == "submit":
            job = NewResearchJob(name, ResearchRequest(query="What is " + name + "?"), "owner", "label")
            answer = (await store.add(job, 1000)).id
        elif order == "claim":
            claimed = await store.claim("worker", 60.0)
            answer = claimed.id
        elif order == "append":
            try:
                await store.append(claimed, [JobEvent(1, "searched", "{}")], ResearchProgress())
                answer = "stored"
            except LeaseLostError:
                answer = "lost"
        else:
            answer = [job.id for job in await store.page("owner", 100)]
        print(json.dumps(answer), flush=True)
    await database.aclose()

asyncio.run(main())
"""


class OldServer:
    """The store of the version before threads in a separate process with open connections."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, order: str) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n".encode())
        async with asyncio.timeout(START_S):
            return json.loads(await self._process.stdout.readline() or "null")


@asynccontextmanager
async def old_server(url: str, folder: Path) -> AsyncIterator[OldServer]:
    source = old_source(folder)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OLD_SERVER,
        url,
        str(source),
        env={**os.environ, "PYTHONPATH": str(source)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield OldServer(process)
    finally:
        process.kill()
        await process.wait()


def old_source(folder: Path) -> Path:
    """Return the code of the version before threads.

    Git must have this version: the tests of services fail where a part is missing, and never skip.
    """
    found = subprocess.run(["git", "archive", BEFORE_THREADS, "src"], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        pytest.fail(f"The version before threads ({BEFORE_THREADS}) needs the history of git: git fetch --unshallow")
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture
async def old_url(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a database with the tables of the version before threads."""
    url = postgres.new_database()
    with monkeypatch.context() as before:
        before.setattr(migrations, "LATEST", TABLES_BEFORE_THREADS)
        await migrate(url)
    return url


async def test_servers_of_two_versions_side_by_side(old_url: str, tmp_path: Path) -> None:
    """An old server continues to store runs after the migration.

    For the new version each is a separate thread, and deleting one deletes no other. A run that the old server executes
    can be deleted, too.
    """
    async with old_server(old_url, tmp_path) as old:
        assert await old.tell("submit before") == "before"
        assert await migrate(old_url) == (TABLES_BEFORE_THREADS, LATEST)
        for name in ("a", "b", "c"):
            assert await old.tell(f"submit {name}") == name
        async with opened(old_url) as database:
            store = PostgresResearchJobStore(database, TTL_DAYS)
            await store.add(new_job("new", "owner"), MANY)
            names = ["new", "c", "b", "a", "before"]
            assert [(thread.id, thread.runs) for thread in await store.threads("owner", 9)] == [
                (name, 1) for name in names
            ]
            assert [thread.id for thread in await store.threads("owner", 9, None, "what is b?")] == ["b"]
            assert await store.delete_thread("owner", "b") == ("b",)
            assert await old.tell("list") == ["new", "c", "a", "before"]
            assert await old.tell("claim") == "before"
            assert await old.tell("append") == "stored"
            assert await store.delete("owner", "before")
            assert await old.tell("append") == "lost"
            assert rows(old_url, "SELECT count(*) FROM llm_platform.research_job_event") == [(0,)]


async def test_rows_of_the_version_before_threads(old_url: str) -> None:
    """The recorded statement of that version runs without its code, before and after the migration."""
    columns = (
        "INSERT INTO llm_platform.research_job (owner, id, label, request, created_at, webhook, traceparent) VALUES"
    )
    request = ResearchRequest(query=QUESTION).model_dump_json()
    insert(old_url, f"{columns} ('owner', 'a', '', %s, 0, NULL, '')", request)
    await migrate(old_url)
    for name in "bc":
        insert(old_url, f"{columns} ('owner', '{name}', '', %s, 0, NULL, '')", request)
    async with opened(old_url) as database:
        store = PostgresResearchJobStore(database, TTL_DAYS)
        assert [thread.id for thread in await store.threads("owner", 9, None, "heat pumps")] == ["c", "b", "a"]
        assert await store.delete_thread("owner", "c") == ("c",)
        assert [job.id for job in await store.page("owner", 9)] == ["b", "a"]


@pytest.mark.parametrize("name", ["add", "claim", "append", "record", "delete"])
async def test_each_write_checks_the_version(url: str, name: str) -> None:
    """A server with open connections refuses the first write after a newer migration.

    The error says what to do, and nothing is changed.
    """
    async with opened(url) as database:
        store = PostgresResearchJobStore(database, TTL_DAYS)
        for job_id in "ab":
            await store.add(new_job(job_id, "owner"), MANY)
        job = await claimed(store)
        writes: dict[str, Callable[[], Awaitable[object]]] = {
            "add": lambda: store.add(new_job("c", "owner"), MANY),
            "claim": lambda: store.claim("worker", LEASE_S),
            "append": lambda: store.append(job, [event(1)], PROGRESS),
            "record": lambda: store.record(new_job("c", "owner"), [event(1)], None, 0.0),
            "delete": lambda: store.delete("owner", "b"),
        }
        insert(url, "INSERT INTO llm_platform.migration (version) VALUES (%s)", LATEST + 1)
        with pytest.raises(StoreError, match="upgrade it"):
            await writes[name]()
        with pytest.raises(StoreError, match="upgrade it"):
            await store.get("owner", "a")  # data of another version is not read either
    found = rows(url, "SELECT id, status, last_event FROM llm_platform.research_job ORDER BY id")
    assert found == [("a", "running", 0), ("b", "queued", 0)]


async def test_a_run_that_is_deleted_while_it_runs_leaves_nothing(url: str) -> None:
    """Workers of one server store events continuously while another server deletes their runs.

    No event is left, and each worker learns of the deletion at its next write.
    """
    async with opened(url) as here, opened(url) as there:
        store, other = PostgresResearchJobStore(here, TTL_DAYS), PostgresResearchJobStore(there, TTL_DAYS)
        for number in range(RUNS):
            await store.add(new_job(f"run {number}", "owner"), MANY)
        jobs = [await claimed(store, f"worker {number}") for number in range(RUNS)]
        has_begun = asyncio.Event()

        async def work(position: int) -> bool:
            for number in range(BATCHES):
                try:
                    await store.append(jobs[position], [event(2 * number + 1), event(2 * number + 2)], PROGRESS)
                except LeaseLostError:
                    return True
                has_begun.set()
            return False

        working = [asyncio.create_task(work(position)) for position in range(RUNS)]
        await has_begun.wait()
        deleted = await asyncio.gather(*(other.delete("owner", job.id) for job in jobs))
        assert deleted == [True] * RUNS
        assert await asyncio.gather(*working) == [True] * RUNS
        assert await store.page("owner", 9) == ()
    assert rows(url, "SELECT count(*) FROM llm_platform.research_job_event") == [(0,)]


@pytest.mark.parametrize("order", ["delete", "delete_thread", "clean"])
async def test_a_removal_waits_for_running_event_writes(url: str, order: str) -> None:
    """A worker's transaction that began before the removal is completed first, and its rows are removed, too."""
    async with opened(url) as database:
        store = PostgresResearchJobStore(database, TTL_DAYS)
        await store.add(new_job("a", "owner"), MANY)
        await claimed(store)
        insert(url, "UPDATE llm_platform.research_job SET finished_at = 1 WHERE %s::text = 'clean'", order)
        with psycopg.connect(url) as worker:  # in a transaction
            worker.execute("UPDATE llm_platform.research_job SET last_event = 1")
            worker.execute(
                "INSERT INTO llm_platform.research_job_event SELECT number, 1, '', '' FROM llm_platform.research_job"
            )
            removal = asyncio.create_task(store.clean() if order == "clean" else getattr(store, order)("owner", "a"))
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            while order != "clean" and rows(url, waiting) == [(0,)]:
                await asyncio.sleep(0.02)
            worker.commit()
        await removal
        await store.clean()
    assert rows(url, "SELECT count(*) FROM llm_platform.research_job_event") == [(0,)]


async def test_orphans_of_earlier_versions_are_removed(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migration removes events and sources of deleted runs only."""
    url = postgres.new_database()
    with monkeypatch.context() as before:
        before.setattr(migrations, "LATEST", MIGRATIONS.index(CASCADE_POSTGRES))
        await migrate(url)
    columns = "INSERT INTO llm_platform.research_job (owner, id, label, request, created_at) VALUES"
    insert(url, f"{columns} (%s, 'a', '', '{{}}', 0)", "owner")
    insert(
        url,
        "INSERT INTO llm_platform.research_job_event SELECT number + n, 1, %s, '' FROM llm_platform.research_job, "
        "generate_series(0, 1) AS n",
        "done",
    )
    insert(url, "INSERT INTO llm_platform.research_job_sources VALUES (99, %s)", "{}")
    await migrate(url)
    assert rows(url, "SELECT count(*), min(job) FROM llm_platform.research_job_event") == [(1, 1)]
    assert rows(url, "SELECT count(*) FROM llm_platform.research_job_sources") == [(0,)]
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        insert(url, "INSERT INTO llm_platform.research_job_event VALUES (99, 1, %s, '')", "done")


def insert(url: str, statement: str, *parameters: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode(), parameters)


def rows(url: str, statement: str) -> Sequence[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()
