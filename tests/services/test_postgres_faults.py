"""The effect of a database that is unavailable, restarted, not migrated, of another version or damaged."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.fakes.outcome_store import sample_outcome
from tests.services.postgres_server import PASSWORD, USER, PostgresServer, opened
from tests.support.forked_command import COMMAND_LINE, run_forked

from modules.llm_platform.application.services import health_service
from modules.llm_platform.container import build_platform, build_worker_parts
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.exceptions import OutcomeStoreError, StoreError
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.domain.telemetry.metrics import POSTGRES_UP
from modules.llm_platform.infrastructure.stores.database import migrations
from modules.llm_platform.infrastructure.stores.database import postgres as pool
from modules.llm_platform.infrastructure.stores.database.migrations import LATEST, check_schema, migrate
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore
from modules.llm_platform.infrastructure.stores.research_runs.postgres import PostgresResearchStore
from modules.llm_platform.testing import FakePageReader, FakeWebSearch, sample_page
from modules.llm_platform.testing.waiting import becomes_true, error_of
from shared.config import Settings

pytestmark = pytest.mark.services

WORKERS = 4
REQUESTS = 200
CALL_S = 60.0  # limit of a call that waits for the test, and of a new connection on a busy machine
BUSY_S = 3.0  # a call waits this long for a free connection
TOPIC = make_topic("What is stored?")
TEXT = "A consumer group shares the partitions of a topic among its members."


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry a failed connection at once."""
    monkeypatch.setattr(pool, "RETRY_S", 0.0)


@pytest.fixture
async def full(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """Open all connections of a database, so that no call spends time on that."""
    monkeypatch.setattr(pool, "POSTGRES_CONNECT_TIMEOUT_S", CALL_S)
    everybody = asyncio.Barrier(pool.POOL_SIZE)

    async def hold(_connection: pool.Connection) -> None:
        await everybody.wait()

    async with opened(url) as database:
        await asyncio.gather(*(database.run(hold, CALL_S) for _ in range(pool.POOL_SIZE)))
        yield database


def hurry(database: Database) -> None:
    """Make calls wait only BUSY_S for a free connection."""
    assert database._pool is not None
    database._pool.timeout = BUSY_S


async def test_stores_of_several_machines_agree_on_the_first_outcome(url: str) -> None:
    """Each store has its own pool and the same requests in another order.

    There is one outcome for each request, and no deadlock.
    """
    databases = [Database(url, check_schema) for _ in range(WORKERS)]
    stores = [PostgresOutcomeStore(database, 7.0) for database in databases]

    async def keep_all(number: int, store: PostgresOutcomeStore) -> dict[str, bytes]:
        ids = [f"{request_id}" for request_id in range(REQUESTS)][:: -1 if number % 2 else 1]
        calls = [[sample_outcome(id_, body=b"%d" % number) for id_ in ids[at : at + 7]] for at in range(0, REQUESTS, 7)]
        kept = await asyncio.gather(*map(store.put_if_absent, calls))
        return {outcome.request_id: outcome.body for call in kept for outcome in call}

    kept = await asyncio.gather(*(keep_all(number, store) for number, store in enumerate(stores)))
    assert len(kept[0]) == REQUESTS
    assert all(bodies == kept[0] for bodies in kept)
    assert len({await store.identity() for store in stores}) == 1
    for database in databases:
        await database.aclose()


@pytest.mark.usefixtures("no_pause")
async def test_restarted_database_is_used_again(postgres: PostgresServer, database: Database) -> None:
    """While the database is down calls raise OutcomeStoreError. Afterwards the same store works with its old data."""
    store = PostgresOutcomeStore(database, 7.0)
    first = sample_outcome("first", body=b"1")
    await store.put_if_absent([first])
    postgres.down()
    try:
        calls = (
            store.get("search", "first"),
            store.put_if_absent([first]),
            store.probe(),
            store.clean(),
            store.identity(),
        )
        for call in calls:
            error = await error_of(call, OutcomeStoreError)
            assert "PostgreSQL cannot be used" in error.message
            assert "DATABASE_URL" in error.message
    finally:
        postgres.up()
    assert await store.get("search", "first") == first


async def test_broken_connections_cost_no_error(postgres: PostgresServer, database: Database) -> None:
    """After a restart between two calls the second call reconnects."""
    store = PostgresOutcomeStore(database, 7.0)
    outcome = sample_outcome("a", body=b"1")
    await store.put_if_absent([outcome])
    postgres.stop()
    postgres.up()
    assert await store.get("search", "a") == outcome


async def test_busy_connections_cost_no_more_than_one_deadline(url: str, full: Database) -> None:
    """While a table is locked, all connections wait for it.

    A call without a connection fails before their deadline, and no call is retried.
    """
    timeout_s = 4 * BUSY_S
    reads = 0
    errors: list[str] = []

    async def read(connection: pool.Connection) -> None:
        nonlocal reads
        reads += 1
        await connection.execute("SELECT count(*) FROM llm_platform.research_job")

    async def fail() -> None:
        errors.append(str(await error_of(full.run(read, timeout_s), DatabaseError)))

    hurry(full)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE llm_platform.research_job IN ACCESS EXCLUSIVE MODE")
        await asyncio.gather(*(fail() for _ in range(pool.POOL_SIZE + 1)))
    assert errors == [
        pool.BUSY,
        *["PostgreSQL did not answer within 12 s: try again, or check DATABASE_URL"] * pool.POOL_SIZE,
    ]
    assert reads == pool.POOL_SIZE


async def test_stopped_database_does_not_hang_its_users(
    postgres: PostgresServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts connections but does not answer costs each call its deadline, and is used again later."""
    monkeypatch.setattr(pool, "RETRY_S", 0.0)
    monkeypatch.setattr(pool, "POSTGRES_CONNECT_TIMEOUT_S", CALL_S)
    await database.run(check_schema, CALL_S)
    children = Path(f"/proc/{postgres.pid}/task/{postgres.pid}/children").read_text("ascii").split()
    for pid in (postgres.pid, *map(int, children)):
        os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(pool, "POSTGRES_CONNECT_TIMEOUT_S", 0.5)
            error = await error_of(database.run(_select_one, timeout_s=0.5), DatabaseError)
            assert "did not answer within 0.5 s" in str(error)
            await error_of(database.run(_select_one, timeout_s=0.5), DatabaseError)
    finally:
        for pid in (postgres.pid, *map(int, children)):
            os.kill(pid, signal.SIGCONT)
    await database.run(_select_one, CALL_S)


@pytest.mark.parametrize(
    "refused",
    [
        ("SELECT %s", "\0"),
        ("SELECT 1 / %s", 0),
        ("INSERT INTO llm_platform.migration (version) VALUES (%s)", LATEST),
        ("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)",),
    ],
)
async def test_refused_statement_closes_no_connection(full: Database, refused: tuple[object, ...]) -> None:
    """A refused statement of one caller does not affect running calls of others, and later calls use the same
    connections.
    """
    statement, *parameters = refused
    seen: set[int] = set()

    async def read(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        seen.add(connection.info.backend_pid)
        await connection.execute("SELECT pg_sleep(0.3)")

    async def refuse(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        seen.add(connection.info.backend_pid)
        await connection.execute(str(statement).encode(), parameters or None)

    reading = [asyncio.create_task(full.run(read, CALL_S)) for _ in range(3 * pool.POOL_SIZE)]
    for _ in range(5):
        assert "refused a statement" in str(await error_of(full.run(refuse, CALL_S), DatabaseError))
    await asyncio.gather(*reading)
    assert len(seen) <= pool.POOL_SIZE


async def test_refused_write_ends_no_running_call(full: Database) -> None:
    """After a failover a read-only database is left for the new primary, and running reads are completed."""

    async def read(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        await connection.execute("SELECT pg_sleep(0.3)")

    async def write(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        await connection.execute(b"SET TRANSACTION READ ONLY; DELETE FROM llm_platform.research_entry")

    reading = [asyncio.create_task(full.run(read, CALL_S)) for _ in range(3 * pool.POOL_SIZE)]
    for _ in range(5):
        assert "let DATABASE_URL name the primary" in str(await error_of(full.run(write, CALL_S), DatabaseError))
    await asyncio.gather(*reading)


async def test_slow_statement_closes_no_connection(url: str, full: Database) -> None:
    """A call that waits too long for a lock fails alone."""
    held = await psycopg.AsyncConnection.connect(url)
    await held.execute("LOCK TABLE llm_platform.research_entry")

    async def wait_for_lock(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        await connection.execute("SELECT count(*) FROM llm_platform.research_entry")

    async def read(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> int:
        await connection.execute("SELECT pg_sleep(0.3)")
        return connection.info.backend_pid

    reading = [asyncio.create_task(full.run(read, CALL_S)) for _ in range(3)]
    error = await error_of(full.run(wait_for_lock, timeout_s=0.1), DatabaseError)
    assert "did not answer within 0.1 s" in str(error)
    used = {await task for task in reading}
    assert used & {await full.run(read, CALL_S) for _ in range(3)}
    await held.close()


async def test_removed_table_is_named_by_the_next_call(postgres: PostgresServer, url: str, database: Database) -> None:
    """A missing table suggests that the database was replaced, so the next call checks its version."""
    store = PostgresOutcomeStore(database, 7.0)
    await store.probe()
    postgres.execute(url, "DROP SCHEMA llm_platform CASCADE")
    assert "does not exist" in (await error_of(store.get("search", "a"), OutcomeStoreError)).reason
    assert "llm-platform store migrate" in (await error_of(store.get("search", "a"), OutcomeStoreError)).message


async def test_busy_pool_is_not_closed(url: str, full: Database) -> None:
    """While all connections are in use, a further call waits and then fails alone."""
    reads = 0

    async def read(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        nonlocal reads
        reads += 1
        await connection.execute("SELECT count(*) FROM llm_platform.research_entry")

    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("LOCK TABLE llm_platform.research_entry")
        reading = [asyncio.create_task(full.run(read, CALL_S)) for _ in range(pool.POOL_SIZE)]
        assert await becomes_true(lambda: reads == pool.POOL_SIZE, CALL_S)
        hurry(full)
        assert "PostgreSQL is busy" in str(await error_of(full.run(_select_one, CALL_S), DatabaseError))
    await asyncio.gather(*reading)


async def _select_one(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
    await connection.execute("SELECT 1")


async def test_unprepared_database_names_the_command(postgres: PostgresServer) -> None:
    """Without tables each store names the command. After the migration the same store works."""
    url = postgres.new_database()
    async with opened(url) as database:
        store = PostgresOutcomeStore(database, 7.0)
        assert "llm-platform store migrate" in (await error_of(store.probe(), OutcomeStoreError)).message
        assert await migrate(url) == (0, LATEST)
        await asyncio.sleep(pool.RETRY_S)
        await store.probe()
    assert await migrate(url) == (LATEST, LATEST)


async def test_concurrent_migrations_apply_each_version_once(postgres: PostgresServer) -> None:
    """Of machines that are upgraded at the same time, one migrates, and the others find it done."""
    url = postgres.new_database()
    found = await asyncio.gather(*(migrate(url) for _ in range(WORKERS)))
    assert sorted(found) == sorted([(0, LATEST), *[(LATEST, LATEST)] * (WORKERS - 1)])


async def test_failed_migration_changes_nothing(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration is one transaction, so an error in its last statement leaves no table."""
    url = postgres.new_database()
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", ((*migrations.MIGRATIONS[0], "SELECT no_such_function()"),))
        failed = await error_of(migrate(url), DatabaseError)
    assert failed.reason.endswith("does not exist")
    assert str(failed).endswith(": nothing was changed")  # instead of missing permissions
    assert await migrate(url) == (0, LATEST)


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("INSERT INTO llm_platform.migration (version) VALUES (1000)", "upgrade it"),
        ("DELETE FROM llm_platform.migration", "run `llm-platform store migrate`"),
    ],
)
async def test_other_versions_are_refused(postgres: PostgresServer, url: str, statement: str, remedy: str) -> None:
    """Tables of a newer or older version are refused, and the message says which side to upgrade."""
    postgres.execute(url, statement)
    async with opened(url) as database:
        assert remedy in str(await error_of(database.run(check_schema), DatabaseError))


async def test_read_only_database_fails_the_probe(postgres: PostgresServer, url: str) -> None:
    """A standby answers reads, so the probe checks that an outcome can be stored."""
    name = url.rpartition("/")[2]
    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with opened(url) as database:
        error = await error_of(PostgresOutcomeStore(database, 7.0).probe(), OutcomeStoreError)
    assert "read-only" in error.message


async def test_read_only_database_degrades_a_server(
    postgres: PostgresServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover to a standby, submits fail. Health and the gauge report it, even while reads succeed.

    Both recover.
    """
    monkeypatch.setattr(health_service, "REPORT_TTL_S", 0.0)
    name = url.rpartition("/")[2]
    metrics = MemoryMetrics()
    request = ResearchRequest(query="What is a standby?")
    async with build_platform(
        settings(url, tmp_path), {IWebSearchProvider: fake_search(), IMetrics: metrics}
    ) as platform:
        platform.health._deadline_s = CALL_S
        assert (await platform.health.check()).components["store"].status == "healthy"
        assert metrics.values[POSTGRES_UP.name,] == 1
        await set_read_only(postgres, name, "on")
        with pytest.raises(StoreError, match=r"read-only.*primary"):
            await platform.research_jobs.submit(request)
        health = await platform.health.check()
        assert (health.status, health.components["store"].status) == ("degraded", "unhealthy")
        assert "read-only" in health.components["store"].detail
        assert await platform.store.topics() == ()
        assert metrics.values[POSTGRES_UP.name,] == 0
        await set_read_only(postgres, name, "off")
        assert (await platform.research_jobs.submit(request)).status == "queued"
        assert metrics.values[POSTGRES_UP.name,] == 1
        assert (await platform.health.check()).components["store"].status == "healthy"


async def set_read_only(postgres: PostgresServer, name: str, state: str) -> None:
    """Simulate a failover: old connections end, and new ones have the new state."""
    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = {state}")
    postgres.execute(
        "postgres",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()",
    )


@pytest.mark.parametrize(
    "damage",
    [
        "entry = set_byte(entry, 200, 0)",
        "entry = ''",
        "entry = 'cos\nsystem\ntR.'",
        "key = 'b'",
        "entry = 'null'",
        """entry = '{"format":99,"stage":"docs"}'""",
    ],
)
async def test_damaged_and_unknown_entries_are_misses(
    postgres: PostgresServer, url: str, database: Database, damage: str
) -> None:
    """An invalid entry in the table is not found and raises no error. A new value replaces it."""
    store = PostgresResearchStore(database, 30.0)
    page = sample_page("https://example.org", "x" * 300)
    await store.put(TOPIC, "docs", "a", page)
    postgres.execute(url, f"UPDATE llm_platform.research_entry SET {damage}")
    key = "b" if damage.startswith("key") else "a"
    assert await store.get(TOPIC, "docs", key, Page) is None
    assert await store.values(TOPIC, "docs", Page) == ()
    await store.topics()
    await store.stats()
    await store.put(TOPIC, "docs", key, page)
    assert await store.get(TOPIC, "docs", key, Page) == page
    assert (await store.stats()).damaged == 0


def settings(url: str, folder: Path, **more: object) -> Settings:
    return Settings(DATABASE_URL=url, LLM_PLATFORM_DATA_DIR=folder, EMBEDDER="none", **more)


def fake_search() -> FakeWebSearch:
    item = WebSearchResultItem(title="Groups", url="https://example.org/groups", snippet=TEXT, summary=TEXT)
    return FakeWebSearch([item])


async def test_server_answers_without_its_database(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """The report is written, `degraded` names the store, and health is degraded.

    After the restart the next report is stored.
    """
    request = ResearchRequest(query="What is a consumer group?", depth="report")
    pages = FakePageReader({"https://example.org/groups": TEXT})
    overrides = {IWebSearchProvider: fake_search(), IPageReader: pages}
    async with build_platform(settings(url, tmp_path), overrides) as platform:
        postgres.down()
        try:
            answer = await platform.research.research(request)
            health = await platform.health.check()
        finally:
            postgres.up()
        assert answer.synthesis
        [reason] = [degradation.reason for degradation in answer.degraded if degradation.component == "store"]
        assert "PostgreSQL cannot be used" in reason
        assert "127.0.0.1" not in reason
        assert PASSWORD not in reason
        assert (health.status, health.components["store"].status) == ("degraded", "unhealthy")
        await asyncio.sleep(pool.RETRY_S)
        again = await platform.research.research(request)
        assert [degradation for degradation in again.degraded if degradation.component == "store"] == []
        assert [topic.query for topic in await platform.store.topics()] == [request.query]
    assert not (tmp_path / "store").exists()


async def test_worker_with_a_database_leaves_no_file(url: str, tmp_path: Path) -> None:
    """Outcomes are in PostgreSQL, and the first log line says who shares them."""
    async with build_worker_parts(settings(url, tmp_path)) as parts:
        outcome = sample_outcome("a", body=b"1")
        await parts.outcomes.put_if_absent([outcome])
        assert "PostgreSQL" in parts.outcomes.reach
    assert not (tmp_path / "outcomes.sqlite3").exists()
    async with build_worker_parts(settings(url, tmp_path / "another machine")) as parts:
        assert await parts.outcomes.get("search", "a") == outcome


async def test_store_error_names_no_secret(postgres: PostgresServer, tmp_path: Path) -> None:
    """A refused login is reported without the password, and to a client also without the user."""
    wrong = postgres.url("postgres", "not-the-password")
    async with build_platform(settings(wrong, tmp_path)) as platform:
        error = await error_of(platform.store.topics(), StoreError)
    assert "password authentication failed" in error.reason
    assert USER not in error.message
    assert "not-the-password" not in repr(error) + error.reason


def test_command_migrates(postgres: PostgresServer, tmp_path: Path) -> None:
    """`topics list` names the command, `store migrate` prepares the database, and doctor reports no fault."""
    run = command_line(postgres.new_database(), tmp_path)
    assert "run `llm-platform store migrate`" in run("topics", "list").stderr
    assert run("store", "migrate").stdout == f"the tables have version {LATEST} (before: none)\n"
    assert run("store", "migrate").stdout == f"the tables have version {LATEST}\n"
    assert run("topics", "list").stdout == "The store is empty.\n"
    assert "store                PostgreSQL answers" in run("doctor").stdout


def command_line(url: str, folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    environment = {**os.environ, "DATABASE_URL": url, "LLM_PLATFORM_DATA_DIR": str(folder), "LLM_PLATFORM_OFFLINE": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_forked(COMMAND_LINE, *arguments, env=environment, timeout=120)

    return run
