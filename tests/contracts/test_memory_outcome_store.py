"""The store of outcomes in memory keeps the port's promises."""

from __future__ import annotations

import pytest

from modules.llm_platform.testing import MemoryOutcomeStore, OutcomeStoreContract
from modules.llm_platform.testing.outcome_store import Elapse


class TestMemoryOutcomeStore(OutcomeStoreContract):
    """In one process, on a clock of its own."""

    @pytest.fixture
    def now(self) -> list[float]:
        return [1_000_000.0]

    @pytest.fixture
    def store(self, now: list[float]) -> MemoryOutcomeStore:
        return MemoryOutcomeStore(clock=lambda: now[0])

    @pytest.fixture
    def elapse(self, now: list[float]) -> Elapse:
        async def elapse(seconds: float) -> None:
            now[0] += seconds

        return elapse
