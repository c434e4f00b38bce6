"""Parts of the worker; tests/integration has the whole one."""

from __future__ import annotations

import asyncio

from tests.fakes.outcome_store import TTL_DAYS, MemoryOutcomeStore, sample_outcome

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.kafka.worker.worker import remove_expired_outcomes
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true


class Failing(MemoryOutcomeStore):
    """Its first cleaning fails."""

    cleanings = 0

    async def clean(self) -> int:
        self.cleanings += 1
        if self.cleanings == 1:
            raise OutcomeStoreError
        return await super().clean()


async def test_expired_outcomes_are_removed_periodically() -> None:
    """Also after a failed cleanup."""
    now = [0.0]
    store = Failing(clock=lambda: now[0])
    await store.put_if_absent([sample_outcome("a", body=b"1")])
    now[0] = (TTL_DAYS + 1) * 86_400
    task = asyncio.create_task(remove_expired_outcomes(store, interval_s=0.01))
    assert await becomes_true(lambda: store.cleanings >= 3, START_TIMEOUT_S)
    task.cancel()
    await asyncio.wait([task])
    assert await store.get("search", "a") is None
