"""The store in a folder: an entry is a file, which is there whole or not at all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, ParamSpec, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from modules.llm_platform.domain.dtos.store_dtos import (
    EndsTopic,
    Imported,
    StageStats,
    StoredEntry,
    StoredTopic,
    StoreStage,
    StoreStats,
    Topic,
)
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore, Value
from modules.llm_platform.infrastructure.research_store.entry_files import Place
from modules.llm_platform.infrastructure.research_store.folder import StoreFolder
from modules.llm_platform.infrastructure.research_store.overview import HitCounters, entries_of, stats_of, topics_of
from modules.llm_platform.infrastructure.research_store.valid_entries import UnstorableError, ValidEntries

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
BIG_BYTES: Final = 256 * 1024  # a thread for less takes longer than the work
ASKED_FILE: Final = "asked"

Args = ParamSpec("Args")
Result = TypeVar("Result")


class DiskResearchStore(IResearchStore):
    """Entries below `folder` (the store's own, made at the first write), kept for `ttl_days`. `clock`: seconds since 1970."""

    def __init__(self, folder: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._folder = StoreFolder(folder)
        self._entries = ValidEntries(self._folder, ttl_days * DAY_S, clock)
        self._asked = HitCounters(folder / ASKED_FILE)

    async def get(self, topic: Topic, stage: StoreStage, key: str, kind: type[Value]) -> Value | None:
        place = Place(stage, topic.name, key)
        size = self._entries.size(place)
        value = None
        if size is not None:
            big = size > BIG_BYTES
            value = await asyncio.to_thread(self._read, place, kind) if big else self._read(place, kind)
        self._asked.note(stage, hits=int(value is not None))
        return value

    async def put(self, topic: Topic, stage: StoreStage, key: str, value: BaseModel) -> None:
        place = Place(stage, topic.name, key)
        try:
            written = value.__pydantic_serializer__.to_json(value)
            data = self._entries.prepared(place, topic.query, written, ends_topic=isinstance(value, EndsTopic))
            if len(data) > BIG_BYTES:
                await asyncio.to_thread(self._entries.write, place, data)
            else:
                self._entries.write(place, data)
        except (OSError, UnstorableError, PydanticSerializationError) as error:
            told = {"stage": stage, "error": getattr(error, "strerror", None) or type(error).__name__}
            log.warning("an entry could not be kept", extra=told)

    async def values(self, topic: Topic, stage: StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        return await asyncio.to_thread(self._values, topic, stage, kind)

    async def topics(self) -> tuple[StoredTopic, ...]:
        return topics_of(await _carried_out(self._entries.listed))

    async def entries(self, name: str) -> tuple[StoredEntry, ...]:
        return entries_of(await _carried_out(self._entries.listed, name))

    async def clear(self, name: str | None = None) -> int:
        return await _carried_out(self._entries.clear, name)

    async def clean(self) -> int:
        return await _carried_out(self._entries.clean)

    async def stats(self) -> StoreStats:
        found = await _carried_out(self._entries.listed)
        asked = await _carried_out(self._asked.counts)
        return stats_of(found, asked, await _carried_out(self._folder.damaged))

    async def export(self, file: Path, name: str | None = None) -> int:
        return await _carried_out(self._entries.export, file, name)

    async def import_(self, file: Path) -> Imported:
        return await _carried_out(self._entries.import_, file)

    def _read(self, place: Place, kind: type[Value]) -> Value | None:
        value = self._entries.value(place)
        return None if value is None else _understood(value, kind)

    def _values(self, topic: Topic, stage: StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        try:
            values = self._entries.values(topic.name, stage)
        except OSError:  # what cannot be read is not there
            values = []
        understood = tuple(read for value in values if (read := _understood(value, kind)) is not None)
        self._asked.note(stage, hits=len(understood))
        return understood


async def _carried_out(work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
    """Done in a thread. StoreError where the file system refuses."""
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise StoreError(f"the store's folder cannot be used ({said}): see LLM_PLATFORM_DATA_DIR") from error


def _understood(value: bytes, kind: type[Value]) -> Value | None:
    """The value; None when an earlier version wrote it and it has another shape now. It will be written anew."""
    try:
        return kind.model_validate_json(value)
    except ValidationError:
        return None


# The store of those who keep nothing (STORE_TTL_DAYS=0).


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
