"""A PostgreSQL for each file of tests, and a database of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.services.postgres_server import PostgresServer, opened

from modules.llm_platform.infrastructure.postgres.migrations import migrate
from modules.llm_platform.infrastructure.postgres.pool import Database


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """The address of a database with the tables."""
    url = postgres.new_database()
    await migrate(url)
    return url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with opened(url) as database:
        yield database
