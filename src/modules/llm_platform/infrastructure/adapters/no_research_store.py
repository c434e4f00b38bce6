"""The store of those who keep nothing (STORE_TTL_DAYS=0)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn, get_args

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.store_dtos import (
    StageStats,
    StoredTopic,
    StoreStage,
    StoreStats,
    Topic,
)
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore, Value

_OFF: Final = "nothing is kept: set STORE_TTL_DAYS to more than 0"


class NoResearchStore(IResearchStore):
    """Keeps nothing and has nothing."""

    async def get(self, topic: Topic, stage: StoreStage, key: str, kind: type[Value]) -> Value | None:
        return None

    async def put(self, topic: Topic, stage: StoreStage, key: str, value: BaseModel) -> None:
        return None

    async def values(self, topic: Topic, stage: StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        return ()

    async def topics(self) -> tuple[StoredTopic, ...]:
        return ()

    async def entries(self, name: str) -> NoReturn:
        raise TopicNotFoundError

    async def clear(self, name: str | None = None) -> int:
        if name is not None:
            raise TopicNotFoundError
        return 0

    async def clean(self) -> int:
        return 0

    async def stats(self) -> StoreStats:
        stages: tuple[StoreStage, ...] = get_args(StoreStage)
        nothing = {"entries": 0, "bytes": 0, "oldest": None, "newest": None, "hits": 0, "misses": 0}
        return StoreStats(
            stages=tuple(StageStats.model_validate({"stage": stage, **nothing}) for stage in stages),
            topics=0,
            damaged=0,
        )

    async def export(self, file: Path, name: str | None = None) -> NoReturn:
        raise StoreError(_OFF)

    async def import_(self, file: Path) -> NoReturn:
        raise StoreError(_OFF)
