"""The stores in PostgreSQL fulfil the contracts of their ports, on a real postgres."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from tests.docs.pages import text_of
from tests.fakes.failed_request_store import MAX_BYTES as FAILED_MAX_BYTES
from tests.fakes.failed_request_store import TTL_DAYS as FAILED_TTL_DAYS
from tests.fakes.failed_request_store import FailedRequestStoreContract
from tests.fakes.outcome_store import TTL_DAYS as OUTCOME_TTL_DAYS
from tests.fakes.outcome_store import OutcomeStoreContract, sample_outcome
from tests.fakes.research_job_store import MANY, ResearchJobStoreContract, new_job
from tests.fakes.research_job_store import TTL_DAYS as JOB_TTL_DAYS
from tests.fakes.spending_store import SpendingStoreContract
from tests.fakes.tracing import tracing
from tests.fakes.watch_store import WatchStoreContract, new_watch
from tests.services.postgres_server import PostgresServer, opened
from tests.support.clock import Clock

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.tracing import DatabaseCall
from modules.llm_platform.infrastructure.stores.database import postgres as pool
from modules.llm_platform.infrastructure.stores.database import postgres_operations
from modules.llm_platform.infrastructure.stores.database.migrations import migrate
from modules.llm_platform.infrastructure.stores.database.postgres import Database
from modules.llm_platform.infrastructure.stores.failed_requests.postgres import PostgresFailedRequestStore
from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore
from modules.llm_platform.infrastructure.stores.research_jobs.postgres import PostgresResearchJobStore
from modules.llm_platform.infrastructure.stores.research_runs.postgres import PostgresResearchStore
from modules.llm_platform.infrastructure.stores.spending.postgres import PostgresSpendingStore
from modules.llm_platform.infrastructure.stores.watches.postgres import PostgresWatchStore
from modules.llm_platform.testing import ResearchStoreContract
from modules.llm_platform.testing.research_store_contract import TTL_DAYS
from modules.llm_platform.testing.waiting import Elapse

pytestmark = pytest.mark.services


def aged(url: str, table: str, *changes: str) -> Elapse:
    """The database's clock cannot be moved, so time passes by ageing the rows."""

    async def elapse(seconds: float) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"UPDATE llm_platform.{table} SET {', '.join(changes)}".encode(), {"s": seconds})

    return elapse


class TestPostgresOutcomeStore(OutcomeStoreContract):
    @pytest.fixture
    async def store(self, database: Database) -> AsyncIterator[PostgresOutcomeStore]:
        store = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
        yield store
        await store.aclose()

    @pytest.fixture
    def elapse(self, url: str) -> Elapse:
        return aged(url, "outcome", "stored_at = stored_at - make_interval(secs => %(s)s)")


class TestTracedOutcomeStore(TestPostgresOutcomeStore):
    """The same contract with connections that create spans."""

    @pytest.fixture(autouse=True)
    def _traced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "database_call", DatabaseCall)


class TestPostgresResearchJobStore(ResearchJobStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> PostgresResearchJobStore:
        return PostgresResearchJobStore(database, JOB_TTL_DAYS)

    @pytest.fixture
    def elapse(self, url: str) -> Elapse:
        columns = ("created_at", "started_at", "finished_at", "lease_until", "webhook_at")
        return aged(url, "research_job", *(f"{column} = {column} - %(s)s" for column in columns))


class TestTracedResearchJobStore(TestPostgresResearchJobStore):
    """The same contract with connections that create spans."""

    @pytest.fixture(autouse=True)
    def _traced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "database_call", DatabaseCall)


class TestPostgresWatchStore(WatchStoreContract):
    """The statements use the test's time instead of the database's."""

    @pytest.fixture(autouse=True)
    def _timed(self, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
        translate = postgres_operations._translate.__wrapped__

        def at_this_time(sql: str) -> str:
            return translate(sql.replace(":now", f"{clock.now!r}::double precision"))

        monkeypatch.setattr(postgres_operations, "_translate", at_this_time)

    @pytest.fixture
    def store(self, database: Database) -> PostgresWatchStore:
        return PostgresWatchStore(database)

    @pytest.fixture
    async def second(self, url: str) -> AsyncIterator[PostgresWatchStore]:
        async with opened(url) as other:
            yield PostgresWatchStore(other)


async def test_workers_that_claim_at_once_get_different_watches(database: Database, url: str) -> None:
    """No two workers get the same watch, and none waits for another."""
    store = PostgresWatchStore(database)
    for number in range(20):
        await store.add(new_watch(str(number)), MANY)
    async with opened(url) as other:
        stores = [store, PostgresWatchStore(other)] * 15
        found = await asyncio.gather(*(one.claim(str(token), 60.0) for token, one in enumerate(stores)))
    claimed = [watch.id for watch in found if watch is not None]
    assert len(claimed) == len(set(claimed)) == 20


async def test_limits_hold_for_requests_that_arrive_at_once(database: Database, url: str) -> None:
    """No owner gets more queued runs or watches than allowed, and each one within the limit is stored."""
    owners, requests = 20, 3  # more would wait longer for four connections than a call may
    async with opened(url) as other:
        jobs = [PostgresResearchJobStore(one, JOB_TTL_DAYS) for one in (database, other)]
        watches = [PostgresWatchStore(one) for one in (database, other)]
        await asyncio.gather(*(jobs[number % 2].counts() for number in range(20)))  # opens all connections
        names = [(str(number), str(owner)) for owner in range(owners) for number in range(requests)]
        queued = await asyncio.gather(*(jobs[number % 2].add(new_job(*name), 1) for number, name in enumerate(names)))
        watched = await asyncio.gather(
            *(watches[number % 2].add(new_watch(*name), 1) for number, name in enumerate(names))
        )
    assert (sum(map(bool, queued)), (await jobs[0].counts())["queued"]) == (owners, owners)
    assert (sum(map(bool, watched)), (await watches[0].count())["active"]) == (owners, owners)


async def test_calls_are_spans(database: Database) -> None:
    """Each span is named after its first statement, has its own parent, and contains no stored data."""
    outcomes = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
    jobs = PostgresResearchJobStore(database, JOB_TTL_DAYS)
    with tracing() as ended:
        await outcomes.put_if_absent([sample_outcome("private", body=b"{}", stage="answer")])
        await outcomes.get("answer", "private")
        await jobs.add(new_job("private"), MANY)
        await jobs.claim("x", 60.0)
        await PostgresResearchStore(database, TTL_DAYS).clear()
    names = ["INSERT", "SELECT", "INSERT", "UPDATE", "DELETE"]
    assert [span.name for span in ended] == [f"postgresql {name}" for name in names]
    assert len({span.parent for span in ended}) == 1
    assert "private" not in str(ended)
    await outcomes.aclose()


class TestPostgresFailedRequestStore(FailedRequestStoreContract):
    @pytest.fixture
    def failed(self, database: Database) -> PostgresFailedRequestStore:
        return PostgresFailedRequestStore(database, FAILED_MAX_BYTES, FAILED_TTL_DAYS)

    @pytest.fixture
    def elapse(self, url: str) -> Elapse:
        return aged(url, "failed_request", "stored_at = stored_at - make_interval(secs => %(s)s)")


class TestPostgresSpendingStore(SpendingStoreContract):
    @pytest.fixture
    def store(self, database: Database) -> PostgresSpendingStore:
        return PostgresSpendingStore(database)

    @pytest.fixture
    async def second(self, url: str) -> AsyncIterator[PostgresSpendingStore]:
        async with opened(url) as other:
            yield PostgresSpendingStore(other)

    async def test_a_closed_database_is_an_error(self, database: Database, store: PostgresSpendingStore) -> None:
        """The budget is then counted in the process alone."""
        await database.aclose()
        with pytest.raises(SpendingStoreError, match="not in PostgreSQL"):
            await store.add("2026-01-31", {"all": 1.0}, {})


class TestPostgresResearchStore(ResearchStoreContract):
    """Two databases with one clock."""

    @pytest.fixture
    async def store(self, database: Database, clock: Clock) -> AsyncIterator[PostgresResearchStore]:
        store = PostgresResearchStore(database, TTL_DAYS, clock)
        yield store
        await store.aclose()

    @pytest.fixture
    async def other_store(self, postgres: PostgresServer, clock: Clock) -> AsyncIterator[PostgresResearchStore]:
        url = postgres.new_database()
        await migrate(url)
        async with opened(url) as other:
            yield PostgresResearchStore(other, TTL_DAYS, clock)


async def test_a_backup_is_restored_into_an_empty_database(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """After the two commands of the operator's guide, outcomes are found, and the store has the same identity."""
    commands = re.findall(r"`(pg_(?:dump|restore) [^`]*)`", text_of("docs/howto/operate.md"))
    assert [command.split()[0] for command in commands] == ["pg_dump", "pg_restore"]
    outcome = sample_outcome("before-the-backup", body=b"{}", stage="answer")
    copy = postgres.new_database()
    async with opened(url) as database:
        store = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
        await store.put_if_absent([outcome])
        identity = await store.identity()
    for command, database in zip(commands, (url, copy), strict=True):
        environment = {**os.environ, "DATABASE_URL": database}
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, check=True, timeout=120)
    async with opened(copy) as database:
        store = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
        assert await store.get("answer", "before-the-backup") == outcome
        assert await store.identity() == identity
