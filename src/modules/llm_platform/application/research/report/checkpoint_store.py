"""What one research has in the store: each finished item is put there at once, and what is there is not made again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.store_dtos import StoreStage, Topic
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.store_key import store_key
from shared.exceptions import AppException

log = logging.getLogger(__name__)

STORE_TIMEOUT_S = 10.0  # for one entry; who takes longer would hold up every item of the research
SLOW = f"the store did not answer within {STORE_TIMEOUT_S:.0f} s: nothing more is kept of this research"

Value = TypeVar("Value", bound=BaseModel)
Result = TypeVar("Result")


class CheckpointStore:
    """The store as one topic in one language sees it. A `fresh` research takes nothing, and keeps what it makes.

    A store that fails or hangs costs the research nothing but itself: it is not asked again, and `trouble` says why.
    """

    def __init__(self, store: IResearchStore, topic: Topic, language: str, *, fresh: bool) -> None:
        self.topic = topic
        self.trouble: AppException | None = None
        self._store = store
        self._language = language
        self._fresh = fresh

    def key(self, version: str, model: str, **inputs: object) -> str:
        """The key of an entry that this prompt version and model make of these inputs."""
        return store_key(version=version, model=model, language=self._language, **inputs)

    async def get(self, stage: StoreStage, key: str, kind: type[Value]) -> Value | None:
        if self._fresh or self.trouble:
            return None
        return await self._survived(self._store.get(self.topic, stage, key, kind))

    async def values(self, stage: StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        if self._fresh or self.trouble:
            return ()
        return await self._survived(self._store.values(self.topic, stage, kind)) or ()

    async def put(self, stage: StoreStage, key: str, value: BaseModel) -> None:
        if not self.trouble:
            await self._survived(self._store.put(self.topic, stage, key, value))

    async def _survived(self, asked: Awaitable[Result]) -> Result | None:
        """What the store said; None where it failed or took too long."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                return await asked
        except TimeoutError:
            self.trouble = StoreError(SLOW)
        except AppException as error:
            self.trouble = error
        log.warning("store given up for this research", extra={"error": self.trouble.code})
        return None
