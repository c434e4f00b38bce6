"""Old outcomes go while the worker works."""

from __future__ import annotations

import asyncio

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.presentation.kafka.worker.worker import remove_expired_outcomes
from modules.llm_platform.testing import MemoryOutcomeStore
from modules.llm_platform.testing.outcome_store import KEPT_DAYS, made_up_outcome
from modules.llm_platform.testing.patience import STARTS_WITHIN_S, becomes


class Failing(MemoryOutcomeStore):
    """Its first cleaning fails."""

    cleanings = 0

    async def clean(self) -> int:
        self.cleanings += 1
        if self.cleanings == 1:
            raise OutcomeStoreError
        return await super().clean()


async def test_it_cleans_at_once_and_again_and_again() -> None:
    """Also when a cleaning failed."""
    now = [0.0]
    store = Failing(clock=lambda: now[0])
    await store.keep([made_up_outcome("a", body=b"1")])
    now[0] = (KEPT_DAYS + 1) * 86_400
    task = asyncio.create_task(remove_expired_outcomes(store, every_s=0.01))
    assert await becomes(lambda: store.cleanings >= 3, STARTS_WITHIN_S)
    task.cancel()
    await asyncio.wait([task])
    assert await store.get("search", "a") is None
