"""The store of outcomes in memory keeps the port's promises."""

from __future__ import annotations

import pytest
from tests.clock import Clock
from tests.fakes.outcome_store import MemoryOutcomeStore, OutcomeStoreContract


class TestMemoryOutcomeStore(OutcomeStoreContract):
    """In one process, on a clock of its own."""

    @pytest.fixture
    def store(self, clock: Clock) -> MemoryOutcomeStore:
        return MemoryOutcomeStore(clock=clock)
