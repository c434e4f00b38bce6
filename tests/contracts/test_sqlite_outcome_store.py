"""The store of outcomes in a file keeps the port's promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fakes.outcome_store import TTL_DAYS, OutcomeStoreContract
from tests.support.clock import Clock

from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore


class TestSqliteOutcomeStore(OutcomeStoreContract):
    """In a folder that does not exist yet, on a clock of its own."""

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteOutcomeStore]:
        file = tmp_path / "data" / "outcomes.sqlite3"
        store = SqliteOutcomeStore(file, TTL_DAYS, clock=clock, monotonic=clock)
        yield store
        await store.aclose()
