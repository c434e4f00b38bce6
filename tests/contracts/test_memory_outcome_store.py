"""The store of outcomes in memory keeps the port's promises."""

from __future__ import annotations

import pytest
from tests.fakes.outcome_store import MemoryOutcomeStore, OutcomeStoreContract
from tests.support.clock import Clock


class TestMemoryOutcomeStore(OutcomeStoreContract):
    """In one process, on a clock of its own."""

    @pytest.fixture
    def store(self, clock: Clock) -> MemoryOutcomeStore:
        return MemoryOutcomeStore(clock=clock)
