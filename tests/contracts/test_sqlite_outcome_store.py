"""The outcome store in a file fulfils the contract of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fakes.outcome_store import TTL_DAYS, OutcomeStoreContract
from tests.support.clock import Clock

from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore


class TestSqliteOutcomeStore(OutcomeStoreContract):
    """A store in a new folder with a manual clock."""

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteOutcomeStore]:
        file = tmp_path / "data" / "outcomes.sqlite3"
        store = SqliteOutcomeStore(file, TTL_DAYS, clock=clock, monotonic=clock)
        yield store
        await store.aclose()
