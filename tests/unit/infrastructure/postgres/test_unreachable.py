"""Stores whose PostgreSQL cannot be reached; services/test_postgres_faults.py has a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from tests.fakes.outcome_store import sample_outcome
from tests.fakes.tracing import tracing

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import OutcomeStoreError, StoreUnavailableError, TopicNotFoundError
from modules.llm_platform.domain.store_key import topic_of
from modules.llm_platform.infrastructure.postgres import pool, research_queue
from modules.llm_platform.infrastructure.postgres.migrations import check_schema, migrate
from modules.llm_platform.infrastructure.postgres.outcome_store import PostgresOutcomeStore
from modules.llm_platform.infrastructure.postgres.pool import RETRY_S, Database, DatabaseError
from modules.llm_platform.infrastructure.postgres.research_queue import ProcrastinateResearchQueue
from modules.llm_platform.infrastructure.postgres.research_store import PostgresResearchStore
from modules.llm_platform.testing import sample_page
from modules.llm_platform.testing.waiting import error_of

PASSWORD = "hush-hush-hush"
URL = f"postgresql://user:{PASSWORD}@127.0.0.1:9/database"  # the discard port: nobody listens
TOPIC = topic_of("What is stored?")


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    database = Database(URL, check_schema)
    yield database
    await database.aclose()


async def test_outcome_store_raises_its_error(database: Database) -> None:
    """Every call names the reason and the setting, and neither the password nor the address."""
    store = PostgresOutcomeStore(database, 7.0)
    outcome = sample_outcome("a", body=b"1")
    calls = (store.get("search", "a"), store.put_if_absent([outcome]), store.clean(), store.probe(), store.identity())
    for call in calls:
        message = (await error_of(call, OutcomeStoreError)).message
        assert "Connection refused" in message
        assert "DATABASE_URL" in message
        assert PASSWORD not in message
        assert "127.0.0.1" not in message
    await store.aclose()


async def test_a_call_that_fails_is_a_span(database: Database) -> None:
    """Its result is the class of the error: the message may contain an address."""
    with tracing() as ended:
        await error_of(PostgresResearchStore(database, 30.0).topics(), StoreUnavailableError)
    assert [(each.name, each.attributes["llm_platform.result"]) for each in ended] == [("postgresql", "DatabaseError")]
    assert "127.0.0.1" not in str(ended)


async def test_research_store_raises_its_error(database: Database, tmp_path: Path) -> None:
    """A store that cannot be used is not an empty one."""
    store = PostgresResearchStore(database, 30.0)
    page = sample_page("https://example.org", "x")
    calls = (
        store.get(TOPIC, "docs", "a", Page), store.put(TOPIC, "docs", "a", page), store.values(TOPIC, "docs", Page),
        store.topics(), store.entries(TOPIC.name), store.clear(), store.clean(), store.export(tmp_path / "x.zip"),
        store.ping(),
    )  # fmt: skip
    for call in calls:
        error = await error_of(call, StoreUnavailableError)
        assert "Connection refused" in error.message
        assert (error.status_code, error.retryable, error.code) == (503, True, "store")
    await error_of(store.entries("../x"), TopicNotFoundError)
    await store.aclose()
    assert not (tmp_path / "x.zip").exists()


async def test_migration_raises_its_error() -> None:
    """The command reports the reason."""
    assert "Connection refused" in str(await error_of(migrate(URL), DatabaseError))


async def test_failed_connection_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within RETRY_S all callers get the known error; after that the database is tried again."""
    attempts = 0
    now = 0.0

    async def connect(url: str) -> pool.Connection:
        nonlocal attempts
        attempts += 1
        raise DatabaseError("away")

    monkeypatch.setattr(pool, "connect", connect)
    database = Database(URL, check_schema, clock=lambda: now)
    for expected in (1, 1, 2):
        await error_of(database.run(check_schema), DatabaseError)
        assert attempts == expected
        now += RETRY_S / 2
    await database.aclose()
    assert pool.CLOSED in str(await error_of(database.run(check_schema), DatabaseError))


async def test_queue_reports_a_failure_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One line says what is wrong and what to do, however often it is tried again, and none is psycopg's."""
    tries = asyncio.Semaphore(0)

    async def pause(_: float) -> None:
        tries.release()
        await real_sleep(0)

    real_sleep = asyncio.sleep
    monkeypatch.setattr(research_queue, "CONNECT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(research_queue.asyncio, "sleep", pause)
    queue = ProcrastinateResearchQueue(URL)

    async def handle(_: str) -> None: ...

    with caplog.at_level(logging.INFO):
        running = asyncio.create_task(queue.run(handle, 1))
        for _ in range(2):
            await tries.acquire()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await queue.aclose()
    assert [record.getMessage() for record in caplog.records] == ["the queue of researches cannot be used"]
    assert "DATABASE_URL" in caplog.records[0].reason  # type: ignore[attr-defined]


class Answering(Database):
    """A database whose only answer is whether the tables of the queue exist. It takes the write of the probe."""

    def __init__(self, has_tables: bool) -> None:
        super().__init__(URL, check_schema)
        self._has_tables = has_tables

    async def run(self, work: Any, timeout_s: float = 1.0) -> Any:
        return await work(self)

    async def execute(self, statement: str, parameters: Sequence[str] = ()) -> Self:
        assert parameters == ("llm_platform_queue.procrastinate_jobs",) or "probed_at" in statement
        return self

    async def fetchone(self) -> tuple[bool]:
        return (self._has_tables,)


async def test_a_store_without_its_queue_is_not_ok() -> None:
    """The check of doctor and /health names the command that makes the tables."""
    assert await PostgresResearchStore(Answering(True), 30.0).ping() == "PostgreSQL answers"
    message = (await error_of(PostgresResearchStore(Answering(False), 30.0).ping(), StoreUnavailableError)).message
    assert "queue" in message
    assert "`llm-platform store migrate`" in message
