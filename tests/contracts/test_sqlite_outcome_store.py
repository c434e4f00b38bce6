"""The store of outcomes in a file keeps the port's promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modules.llm_platform.infrastructure.sqlite.outcome_store import SqliteOutcomeStore
from modules.llm_platform.testing import OutcomeStoreContract
from modules.llm_platform.testing.outcome_store import TTL_DAYS, Elapse


class TestSqliteOutcomeStore(OutcomeStoreContract):
    """In a folder that does not exist yet, on a clock of its own."""

    @pytest.fixture
    def now(self) -> list[float]:
        return [1_000_000.0]

    @pytest.fixture
    async def store(self, tmp_path: Path, now: list[float]) -> AsyncIterator[SqliteOutcomeStore]:
        file = tmp_path / "data" / "outcomes.sqlite3"
        store = SqliteOutcomeStore(file, TTL_DAYS, clock=lambda: now[0], monotonic=lambda: now[0])
        yield store
        await store.aclose()

    @pytest.fixture
    def elapse(self, now: list[float]) -> Elapse:
        async def elapse(seconds: float) -> None:
            now[0] += seconds

        return elapse
