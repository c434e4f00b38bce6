"""Named places of the worker's loop, where a test may end the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from modules.llm_platform.domain.dtos.outcome import Outcome
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore

Point = Literal[
    "after_poll", "after_compute", "after_store", "after_produce", "before_commit", "after_commit", "in_rebalance",
    "in_shutdown",
]  # fmt: skip
At = Callable[[Point], None]  # called on whichever thread passes the point; a normal run has none


class WatchedOutcomeStore(IOutcomeStore):
    """A store that tells when an outcome has been computed, and when it is kept."""

    def __init__(self, store: IOutcomeStore, at: At) -> None:
        self._store = store
        self._at = at
        self.reach = store.reach

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        return await self._store.get(stage, request_id, tenant)

    async def get_many(self, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        return await self._store.get_many(wanted)

    async def keep(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        self._at("after_compute")
        kept = await self._store.keep(outcomes)
        self._at("after_store")
        return kept

    async def clean(self) -> int:
        return await self._store.clean()

    async def probe(self) -> None:
        await self._store.probe()

    async def identity(self) -> str:
        return await self._store.identity()

    async def aclose(self) -> None:
        await self._store.aclose()
