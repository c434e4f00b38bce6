"""The stores in PostgreSQL fulfil the contracts of their ports, on a real server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import psycopg
import pytest
from tests.clock import Clock
from tests.docs.pages import text_of
from tests.services.postgres_server import PostgresServer

from modules.llm_platform.infrastructure.postgres.failed_request_store import PostgresFailedRequestStore
from modules.llm_platform.infrastructure.postgres.migrations import check_schema, migrate
from modules.llm_platform.infrastructure.postgres.outcome_store import PostgresOutcomeStore
from modules.llm_platform.infrastructure.postgres.pool import Database
from modules.llm_platform.infrastructure.postgres.research_job_store import PostgresResearchJobStore
from modules.llm_platform.infrastructure.postgres.research_store import PostgresResearchStore
from modules.llm_platform.testing import (
    FailedRequestStoreContract,
    OutcomeStoreContract,
    ResearchJobStoreContract,
    ResearchStoreContract,
)
from modules.llm_platform.testing.failed_request_store import MAX_BYTES as FAILED_MAX_BYTES
from modules.llm_platform.testing.failed_request_store import TTL_DAYS as FAILED_TTL_DAYS
from modules.llm_platform.testing.outcome_store import TTL_DAYS as OUTCOME_TTL_DAYS
from modules.llm_platform.testing.outcome_store import sample_outcome
from modules.llm_platform.testing.research_job_store import TTL_DAYS as JOB_TTL_DAYS
from modules.llm_platform.testing.research_store_contract import TTL_DAYS
from modules.llm_platform.testing.waiting import Elapse

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def url(server: PostgresServer) -> str:
    url = server.new_database()
    await migrate(url)
    return url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url, check_schema)
    yield database
    await database.aclose()


class TestPostgresOutcomeStore(OutcomeStoreContract):
    """The clock is the database's, so time passes by making the rows older."""

    @pytest.fixture
    async def store(self, database: Database) -> AsyncIterator[PostgresOutcomeStore]:
        store = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
        yield store
        await store.aclose()

    @pytest.fixture
    def elapse(self, url: str) -> Elapse:
        async def elapse(seconds: float) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                statement = "UPDATE llm_platform.outcome SET stored_at = stored_at - make_interval(secs => %s)"
                connection.execute(statement, (seconds,))

        return elapse


class TestPostgresResearchJobStore(ResearchJobStoreContract):
    """The clock is the database's, so time passes by making the rows older."""

    @pytest.fixture
    def store(self, database: Database) -> PostgresResearchJobStore:
        return PostgresResearchJobStore(database, JOB_TTL_DAYS)

    @pytest.fixture
    def elapse(self, url: str) -> Elapse:
        columns = ("created_at", "started_at", "finished_at", "lease_until", "webhook_at")
        changes = ", ".join(f"{column} = {column} - %(s)s" for column in columns)

        async def elapse(seconds: float) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"UPDATE llm_platform.research_job SET {changes}".encode(), {"s": seconds})

        return elapse


class TestPostgresFailedRequestStore(FailedRequestStoreContract):
    """The clock is the database's, so time passes by making the rows older."""

    @pytest.fixture
    def failed(self, database: Database) -> PostgresFailedRequestStore:
        return PostgresFailedRequestStore(database, FAILED_MAX_BYTES, FAILED_TTL_DAYS)

    @pytest.fixture
    def elapse(self, url: str) -> Elapse:
        async def elapse(seconds: float) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                statement = "UPDATE llm_platform.failed_request SET stored_at = stored_at - make_interval(secs => %s)"
                connection.execute(statement, (seconds,))

        return elapse


class TestPostgresResearchStore(ResearchStoreContract):
    """Two databases, one clock."""

    @pytest.fixture
    async def store(self, database: Database, clock: Clock) -> AsyncIterator[PostgresResearchStore]:
        store = PostgresResearchStore(database, TTL_DAYS, clock)
        yield store
        await store.aclose()

    @pytest.fixture
    async def other_store(self, server: PostgresServer, clock: Clock) -> AsyncIterator[PostgresResearchStore]:
        url = server.new_database()
        await migrate(url)
        other = Database(url, check_schema)
        yield PostgresResearchStore(other, TTL_DAYS, clock)
        await other.aclose()


async def test_a_backup_is_restored_into_an_empty_database(server: PostgresServer, url: str, tmp_path: Path) -> None:
    """The two commands of the operator's guide: outcomes are found again, and the store has the same identity."""
    commands = re.findall(r"`(pg_(?:dump|restore) [^`]*)`", text_of("docs/howto/operate.md"))
    assert [command.split()[0] for command in commands] == ["pg_dump", "pg_restore"]
    outcome = sample_outcome("before-the-backup", body=b"{}", stage="answer")
    copy = server.new_database()
    async with aclosing(Database(url, check_schema)) as database:
        store = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
        await store.put_if_absent([outcome])
        identity = await store.identity()
    for command, database in zip(commands, (url, copy), strict=True):
        environment = {**os.environ, "DATABASE_URL": database}
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, check=True, timeout=120)
    async with aclosing(Database(copy, check_schema)) as database:
        store = PostgresOutcomeStore(database, OUTCOME_TTL_DAYS)
        assert await store.get("answer", "before-the-backup") == outcome
        assert await store.identity() == identity
