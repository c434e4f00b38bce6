"""Stores whose PostgreSQL cannot be reached; services/test_postgres_faults.py has a real server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from tests.fakes.outcome_store import sample_outcome
from tests.fakes.tracing import tracing

from modules.llm_platform.application.services.doctor_service import DoctorService
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import OutcomeStoreError, StoreUnavailableError, TopicNotFoundError
from modules.llm_platform.domain.ports.health import IHealthProbe
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


class FailedStore(IHealthProbe):
    """A store whose check raises an error."""

    name = "store"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def ping(self) -> str:
        raise self._error


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    database = Database(URL, check_schema)
    yield database
    await database.aclose()


async def test_outcome_store_raises_its_error(database: Database) -> None:
    """Every call names the setting in its message, and the reason beside it, but not the password or the address."""
    store = PostgresOutcomeStore(database, 7.0)
    outcome = sample_outcome("a", body=b"1")
    calls = (store.get("search", "a"), store.put_if_absent([outcome]), store.clean(), store.probe(), store.identity())
    for call in calls:
        error = await error_of(call, OutcomeStoreError)
        assert error.message.startswith(pool.UNREACHABLE)
        assert "DATABASE_URL" in error.message
        assert "Connection refused" in error.reason
        assert PASSWORD not in error.explain()
        assert "127.0.0.1" not in error.explain()
    await store.aclose()


async def test_reason_names_no_host() -> None:
    """The log has the reason. In a mistyped address, the host part may contain a piece of the password."""
    error = await error_of(pool.connect(f"postgresql://user:hush-@{PASSWORD}'s@db.invalid/x"), DatabaseError)
    assert "failed to resolve the host" in error.reason
    assert PASSWORD not in error.reason
    assert "db.invalid" not in error.reason


async def test_clients_see_no_words_of_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused login names the user. The log has it once for equal failures, the doctor shows it, and no client sees it."""
    refusal = 'connection to server at "db", port 5432 failed: FATAL:  password authentication failed for user "alice"'

    async def refuse(_url: str, **_options: object) -> NoReturn:
        raise psycopg.OperationalError(refusal)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)
    database = Database(URL, check_schema)
    store = PostgresResearchStore(database, 30.0)
    with caplog.at_level(logging.WARNING):
        error = await error_of(store.topics(), StoreUnavailableError)
        await error_of(store.topics(), StoreUnavailableError)
    await database.aclose()
    health = await HealthService({}, {}, stores={"store": FailedStore(error)}).check()
    assert "alice" not in error.message
    assert "alice" not in str(error.problem(instance="/", request_id=""))
    assert health.components["store"].detail == error.message == pool.UNREACHABLE
    [result] = await DoctorService((), (), stores=(FailedStore(error),)).examine()
    assert 'user "alice"' in result.text
    [record] = [record for record in caplog.records if record.name == pool.__name__]
    assert 'user "alice"' in vars(record)["reason"]


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
        assert error.message == pool.UNREACHABLE
        assert "Connection refused" in error.reason
        assert (error.status_code, error.retryable, error.code) == (503, True, "store")
    await error_of(store.entries("../x"), TopicNotFoundError)
    await store.aclose()
    assert not (tmp_path / "x.zip").exists()


async def test_migration_raises_its_error() -> None:
    """The command reports the reason."""
    assert "Connection refused" in (await error_of(migrate(URL), DatabaseError)).reason


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
