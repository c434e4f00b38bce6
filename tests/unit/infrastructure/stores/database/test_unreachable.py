"""Stores whose PostgreSQL cannot be reached; services/test_postgres_faults.py has a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fakes.outcome_store import sample_outcome
from tests.fakes.tracing import tracing

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import OutcomeStoreError, StoreUnavailableError, TopicNotFoundError
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.database import postgres as pool
from modules.llm_platform.infrastructure.stores.database.migrations import check_schema, migrate
from modules.llm_platform.infrastructure.stores.database.postgres import RETRY_S, Database, DatabaseError
from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore
from modules.llm_platform.infrastructure.stores.research_runs.postgres import PostgresResearchStore
from modules.llm_platform.testing import sample_page
from modules.llm_platform.testing.waiting import error_of

PASSWORD = "hush-hush-hush"
URL = f"postgresql://user:{PASSWORD}@127.0.0.1:9/database"  # the discard port, on which nothing listens
TOPIC = make_topic("What is stored?")


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    database = Database(URL, check_schema)
    yield database
    await database.aclose()


async def test_outcome_store_raises_its_error(database: Database) -> None:
    """Every call names the reason and the setting, but not the password or the address."""
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


async def test_reason_names_no_host() -> None:
    """Clients see the reason. In a mistyped address, the host part may contain a piece of the password."""
    message = str(await error_of(pool.connect(f"postgresql://user:hush-@{PASSWORD}'s@db.invalid/x"), DatabaseError))
    assert "failed to resolve the host" in message
    assert PASSWORD not in message
    assert "db.invalid" not in message


async def test_a_call_that_fails_is_a_span(database: Database) -> None:
    """Its result is the class of the error: the message may contain an address."""
    with tracing() as ended:
        await error_of(PostgresResearchStore(database, 30.0).topics(), StoreUnavailableError)
    assert [(span.name, span.attributes["llm_platform.result"]) for span in ended] == [("postgresql", "DatabaseError")]
    assert "127.0.0.1" not in str(ended)


async def test_research_store_raises_its_error(database: Database, tmp_path: Path) -> None:
    """A store that cannot be used is not an empty one."""
    store = PostgresResearchStore(database, 30.0)
    page = sample_page("https://example.org", "x")
    calls = (
        store.get(TOPIC, "docs", "a", Page),
        store.put(TOPIC, "docs", "a", page),
        store.values(TOPIC, "docs", Page),
        store.topics(),
        store.entries(TOPIC.name),
        store.clear(),
        store.clean(),
        store.export(tmp_path / "x.zip"),
        store.ping(),
    )
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
