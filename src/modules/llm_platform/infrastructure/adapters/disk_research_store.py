"""The store of research runs in a folder, with a file for each entry."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NoReturn, ParamSpec, TypeVar, get_args

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from modules.llm_platform.domain.dtos import store_dtos as dtos
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.research_store import IResearchStore, Value
from modules.llm_platform.infrastructure.files.private_files import require_free_space
from modules.llm_platform.infrastructure.research_store.entry_files import Place, parsed_value
from modules.llm_platform.infrastructure.research_store.folder import StoreFolder
from modules.llm_platform.infrastructure.research_store.overview import HitCounters, entries_of, stats_of, topics_of
from modules.llm_platform.infrastructure.research_store.valid_entries import UnstorableError, ValidEntries

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
GIGABYTE: Final = 1e9
THREAD_BYTES: Final = 256 * 1024  # smaller entries are faster without a thread
COUNTERS_FILE: Final = "asked"

Args = ParamSpec("Args")
Result = TypeVar("Result")


class StoreFolderProbe:
    """The check of the doctor: whether a file can be written into the folder of the store."""

    name = "store"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def ping(self) -> str:
        """The folder and its free space. Raises StoreError."""
        return await asyncio.to_thread(self._write)

    def _write(self) -> str:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self._folder) as file:
                file.write(b"\0")
            free = shutil.disk_usage(self._folder).free
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreError(
                f"{self._folder} cannot be written ({reason}), so no research run is stored: make it writable for this user, "
                "or set LLM_PLATFORM_DATA_DIR to another folder"
            ) from error
        return f"files in {self._folder}, {free / GIGABYTE:.1f} GB free"


class DiskResearchStore(IResearchStore, IHealthProbe):
    """Entries below `folder`, made at the first write, for `ttl_days`. `clock`: seconds since 1970."""

    name = "store"

    def __init__(self, folder: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._folder = StoreFolder(folder)
        self._entries = ValidEntries(self._folder, ttl_days * DAY_S, clock)
        self._counters = HitCounters(folder / COUNTERS_FILE)

    async def get(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, kind: type[Value]) -> Value | None:
        place = Place(stage, topic.name, key)
        size = self._entries.size(place)
        value = None
        if size is not None:
            is_large = size > THREAD_BYTES
            value = await asyncio.to_thread(self._read, place, kind) if is_large else self._read(place, kind)
        self._counters.note(stage, hits=int(value is not None))
        return value

    async def put(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, value: BaseModel) -> None:
        place = Place(stage, topic.name, key)
        try:
            written = value.__pydantic_serializer__.to_json(value)
            data = self._entries.prepared(place, topic.query, written, ends_topic=isinstance(value, dtos.EndsTopic))
            if len(data) > THREAD_BYTES:
                await asyncio.to_thread(self._entries.write, place, data)
            else:
                self._entries.write(place, data)
        except OSError as error:
            raise _unusable(error) from error
        except (UnstorableError, PydanticSerializationError) as error:
            log.warning("an entry could not be stored", extra={"stage": stage, "error": type(error).__name__})

    async def values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        return await asyncio.to_thread(self._values, topic, stage, kind)

    async def topics(self) -> tuple[dtos.StoredTopic, ...]:
        return topics_of(await _in_thread(self._entries.listed))

    async def entries(self, name: str) -> tuple[dtos.StoredEntry, ...]:
        return entries_of(await _in_thread(self._entries.listed, name))

    async def clear(self, name: str | None = None) -> int:
        return await _in_thread(self._entries.clear, name)

    async def clean(self) -> int:
        return await _in_thread(self._entries.clean)

    async def stats(self) -> dtos.StoreStats:
        found = await _in_thread(self._entries.listed)
        counts = await _in_thread(self._counters.counts)
        return stats_of(found, counts, await _in_thread(self._folder.damaged))

    async def export(self, file: Path, name: str | None = None) -> int:
        return await _in_thread(self._entries.export, file, name)

    async def import_(self, file: Path) -> dtos.Imported:
        return await _in_thread(self._entries.import_, file)

    async def ping(self) -> str:
        """Nothing while there is room on the disk and the folder may be written to, which is found out without a write. Raises
        StoreError.
        """
        await _in_thread(self._check_writable)
        return ""

    def _check_writable(self) -> None:
        root = self._folder.root
        folder = next(each for each in (root, *root.parents) if each.exists())
        require_free_space(folder)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _read(self, place: Place, kind: type[Value]) -> Value | None:
        value = self._entries.value(place)
        return None if value is None else parsed_value(value, kind)

    def _values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        try:
            values = self._entries.values(topic.name, stage)
        except OSError:  # unreadable entries count as missing
            values = []
        parsed = tuple(read for value in values if (read := parsed_value(value, kind)) is not None)
        self._counters.note(stage, hits=len(parsed))
        return parsed


async def _in_thread(work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
    """Run in a thread. OSError becomes StoreError."""
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> StoreError:
    reason = error.strerror or type(error).__name__
    return StoreError(f"the store's folder cannot be used ({reason}): see LLM_PLATFORM_DATA_DIR")


_OFF: Final = "the store is off: set STORE_TTL_DAYS to more than 0"


class NoResearchStore(IResearchStore):
    """The store with STORE_TTL_DAYS=0: stores nothing."""

    async def get(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, kind: type[Value]) -> Value | None:
        return None

    async def put(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, value: BaseModel) -> None:
        return None

    async def values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        return ()

    async def topics(self) -> tuple[dtos.StoredTopic, ...]:
        return ()

    async def entries(self, name: str) -> NoReturn:
        raise TopicNotFoundError

    async def clear(self, name: str | None = None) -> int:
        if name is not None:
            raise TopicNotFoundError
        return 0

    async def clean(self) -> int:
        return 0

    async def stats(self) -> dtos.StoreStats:
        stages: tuple[dtos.StoreStage, ...] = get_args(dtos.StoreStage)
        nothing = {"entries": 0, "bytes": 0, "oldest": None, "newest": None, "hits": 0, "misses": 0}
        return dtos.StoreStats(
            stages=tuple(dtos.StageStats.model_validate({"stage": stage, **nothing}) for stage in stages),
            topics=0,
            damaged=0,
        )

    async def export(self, file: Path, name: str | None = None) -> NoReturn:
        raise StoreError(_OFF)

    async def import_(self, file: Path) -> NoReturn:
        raise StoreError(_OFF)
