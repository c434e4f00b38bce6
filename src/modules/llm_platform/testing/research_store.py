"""A research store in memory, for tests."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from modules.llm_platform.domain.dtos import store_dtos as dtos
from modules.llm_platform.domain.exceptions import TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore, Value
from modules.llm_platform.infrastructure.stores.research_runs import entry_files
from modules.llm_platform.infrastructure.stores.research_runs.folder import STAGES, StoredFile
from modules.llm_platform.infrastructure.stores.research_runs.overview import compute_stats, list_entries, list_topics

DAY_S: Final = 86_400


class MemoryResearchStore(IResearchStore):
    """Stores entries for `ttl_days` in this process. `clock` returns seconds since 1970.

    Its archives have the format of the store on disk.
    """

    def __init__(self, ttl_days: float = 30.0, clock: Callable[[], float] = time.time) -> None:
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._entries: dict[entry_files.EntryLocation, tuple[entry_files.EntryHeader, bytes]] = {}
        self._hits: dict[dtos.StoreStage, int] = {}
        self._misses: dict[dtos.StoreStage, int] = {}

    async def get(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, kind: type[Value]) -> Value | None:
        entry = self._entries.get(entry_files.EntryLocation(stage, topic.name, key))
        value = None if entry is None or self._is_expired(entry[0].made_at) else entry_files.parse_value(entry[1], kind)
        self._count(stage, hits=int(value is not None))
        return value

    async def put(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, value: BaseModel) -> None:
        head = entry_files.EntryHeader(
            entry_files.EntryLocation(stage, topic.name, key),
            topic.query,
            self._clock(),
            isinstance(value, dtos.EndsTopic),
        )
        written = entry_files.seal(head, value.model_dump_json().encode())
        self._entries[head.location] = entry_files.unseal(written)  # stored as if read from a file, with a rounded date

    async def values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        entries = sorted(
            (head.made_at, head.location.key, value)
            for head, value in self._entries.values()
            if (head.location.stage, head.location.topic) == (stage, topic.name) and not self._is_expired(head.made_at)
        )
        values = tuple(parsed for *_, value in entries if (parsed := entry_files.parse_value(value, kind)) is not None)
        self._count(stage, hits=len(values))
        return values

    async def topics(self) -> tuple[dtos.StoredTopic, ...]:
        return list_topics(self._found())

    async def entries(self, name: str) -> tuple[dtos.StoredEntry, ...]:
        return list_entries(self._found(name))

    async def clear(self, name: str | None = None) -> int:
        found = self._found(name)
        for file in found:
            del self._entries[file.location]
        return len(found)

    async def clean(self) -> int:
        old = [location for location, (head, _) in self._entries.items() if self._is_expired(head.made_at)]
        for location in old:
            del self._entries[location]
        return len(old)

    async def stats(self) -> dtos.StoreStats:
        lookups = {stage: (self._hits.get(stage, 0), self._misses.get(stage, 0)) for stage in STAGES}
        return compute_stats(self._found(), lookups, damaged=0)

    async def export(self, file: Path, name: str | None = None) -> int:
        from modules.llm_platform.infrastructure.stores.research_runs.archive import write_archive

        entries = [self._entries[file.location] for file in self._found(name) if not self._is_expired(file.made_at)]
        return write_archive(file, ((head.location, entry_files.seal(head, value)) for head, value in entries))

    async def import_(self, file: Path) -> dtos.Imported:
        from modules.llm_platform.infrastructure.stores.research_runs.archive import read_archive

        added = skipped = expired = 0
        for head, value in list(read_archive(file)):
            existing = self._entries.get(head.location)
            if self._is_expired(head.made_at):
                expired += 1
            elif existing is not None and existing[0].made_at >= head.made_at:
                skipped += 1
            else:
                self._entries[head.location] = head, value
                added += 1
        return dtos.Imported(added=added, skipped=skipped, expired=expired)

    def _count(self, stage: dtos.StoreStage, *, hits: int) -> None:
        counter = self._hits if hits else self._misses
        counter[stage] = counter.get(stage, 0) + (hits or 1)

    def _found(self, name: str | None = None) -> list[StoredFile]:
        entries = [entry for location, entry in self._entries.items() if name in (None, location.topic)]
        if name is not None and not entries:
            raise TopicNotFoundError
        found = [StoredFile(head.location, len(value), head.made_at, head) for head, value in entries]
        return sorted(found, key=lambda file: (STAGES.index(file.location.stage), file.made_at, file.location.key))

    def _is_expired(self, made_at: float) -> bool:
        return self._clock() - made_at > self._ttl_s
