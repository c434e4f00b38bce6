"""The in-memory outcome store fulfils the contract of the port."""

from __future__ import annotations

import pytest
from tests.fakes.outcome_store import MemoryOutcomeStore, OutcomeStoreContract
from tests.support.clock import Clock


class TestMemoryOutcomeStore(OutcomeStoreContract):
    """A store in one process with a manual clock."""

    @pytest.fixture
    def store(self, clock: Clock) -> MemoryOutcomeStore:
        return MemoryOutcomeStore(clock=clock)
