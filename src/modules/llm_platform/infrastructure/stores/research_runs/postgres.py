"""The store of research runs in PostgreSQL, which the servers of several machines share.

A row holds the bytes that the store on disk has in a file, with header and seal, so that damage is detected and archives of
both stores are the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel

from modules.llm_platform.domain.dtos import store_dtos as dtos
from modules.llm_platform.domain.exceptions import StoreError, StoreUnavailableError, TopicNotFoundError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.research_store import IResearchStore, Value
from modules.llm_platform.domain.research.store_key import is_topic_name
from modules.llm_platform.infrastructure.stores.database.migrations import write_probe
from modules.llm_platform.infrastructure.stores.database.postgres import CALL_TIMEOUT_S, Database, DatabaseError
from modules.llm_platform.infrastructure.stores.research_runs import entry_files
from modules.llm_platform.infrastructure.stores.research_runs.folder import STAGES, StoredFile
from modules.llm_platform.infrastructure.stores.research_runs.overview import compute_stats, list_entries, list_topics

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection

log = logging.getLogger(__name__)

Result = TypeVar("Result")

DAY_S: Final = 86_400
IMPORT_TIMEOUT_S: Final = 600.0  # an archive has up to 4 GB of entries, imported in one transaction
_TABLE: Final = "llm_platform.research_entry"
_AT: Final = "stage = %s AND topic = %s AND key = %s"
_GET: Final = f"SELECT entry FROM {_TABLE} WHERE {_AT} AND NOT damaged"  # noqa: S608  constants
_VALUES: Final = f"""
SELECT key, entry FROM {_TABLE} WHERE topic = %s AND stage = %s AND NOT damaged ORDER BY made_at, key
"""  # noqa: S608
_PUT: Final = f"""
INSERT INTO {_TABLE} AS stored (stage, topic, key, made_at, entry) VALUES (%s, %s, %s, %s, %b)
ON CONFLICT (topic, stage, key) DO UPDATE SET made_at = excluded.made_at, entry = excluded.entry, damaged = false
"""  # noqa: S608
_PUT_NEWER: Final = f"{_PUT} WHERE stored.damaged OR stored.made_at < excluded.made_at"
_LIST: Final = f"""
SELECT stage, topic, key, made_at, octet_length(entry), substring(entry FOR {entry_files.ENTRY_HEAD_BYTES}) FROM {_TABLE}
WHERE NOT damaged
"""  # noqa: S608
_COUNT: Final = """
INSERT INTO llm_platform.research_lookup AS counted (stage, hits, misses) VALUES (%s, %s, %s)
ON CONFLICT (stage) DO UPDATE SET hits = counted.hits + excluded.hits, misses = counted.misses + excluded.misses
"""


class PostgresResearchStore(IResearchStore, IHealthProbe):
    """Stores entries in the table `llm_platform.research_entry` for `ttl_days`. Raises StoreError if the database fails.

    The caller closes `database` after this store. `clock` returns seconds since 1970.
    """

    name = "store"

    def __init__(self, database: Database, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._hits: Counter[dtos.StoreStage] = Counter()  # hits not yet written
        self._misses: Counter[dtos.StoreStage] = Counter()

    async def get(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, kind: type[Value]) -> Value | None:
        entry = await self._load_entry(entry_files.EntryLocation(stage, topic.name, key))
        value = None if entry is None else entry_files.parse_value(entry[1], kind)
        self._count(stage, hits=int(value is not None))
        return value

    async def put(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, value: BaseModel) -> None:
        head = entry_files.EntryHeader(
            entry_files.EntryLocation(stage, topic.name, key),
            topic.query,
            self._clock(),
            isinstance(value, dtos.EndsTopic),
        )
        try:
            data = entry_files.seal_value(head, value)
        except entry_files.UnstorableError as error:
            log.warning("an entry could not be stored", extra={"stage": stage, "error": str(error)})
            return
        await self._run(lambda connection: _execute(connection, _PUT, _make_row(head, data)))

    async def values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        rows = []
        if is_topic_name(topic.name):
            rows = await self._run(lambda connection: _fetch(connection, _VALUES, (topic.name, stage)))
        entries = [
            await self._open_entry(entry_files.EntryLocation(stage, topic.name, key), bytes(data)) for key, data in rows
        ]
        parsed = [entry_files.parse_value(entry[1], kind) for entry in entries if entry is not None]
        values = tuple(value for value in parsed if value is not None)
        self._count(stage, hits=len(values))
        return values

    async def topics(self) -> tuple[dtos.StoredTopic, ...]:
        return list_topics(await self._list_files())

    async def entries(self, name: str) -> tuple[dtos.StoredEntry, ...]:
        return list_entries(await self._list_files(name))

    async def clear(self, name: str | None = None) -> int:
        if name is not None and not is_topic_name(name):
            raise TopicNotFoundError
        where, parameters = ("", ()) if name is None else (" WHERE topic = %s", (name,))
        statement = f"DELETE FROM {_TABLE}{where}"  # noqa: S608  constants
        removed = await self._run(lambda connection: _execute(connection, statement, parameters))
        if name is not None and not removed:
            raise TopicNotFoundError
        return removed

    async def clean(self) -> int:
        statement = f"DELETE FROM {_TABLE} WHERE made_at < %s"  # noqa: S608  constants
        before = self._clock() - self._ttl_s
        return await self._run(lambda connection: _execute(connection, statement, (before,)))

    async def stats(self) -> dtos.StoreStats:
        await self._write_counts()
        counts, damaged = "SELECT stage, hits, misses FROM llm_platform.research_lookup", f"FROM {_TABLE} WHERE damaged"
        lookups = await self._run(lambda connection: _fetch(connection, counts))
        [(set_aside,)] = await self._run(lambda connection: _fetch(connection, f"SELECT count(*) {damaged}"))
        found = await self._list_files()
        return compute_stats(found, {stage: (hits, misses) for stage, hits, misses in lookups}, set_aside)

    async def export(self, file: Path, name: str | None = None) -> int:
        from modules.llm_platform.infrastructure.stores.research_runs.archive import write_archive

        locations = [file.location for file in await self._list_files(name)]
        loop, cancelled = asyncio.get_running_loop(), threading.Event()

        def entries() -> Iterator[tuple[entry_files.EntryLocation, bytes]]:
            """Yield one entry at a time, since all of them may not fit into memory. Runs in the thread."""
            for location in locations:
                if cancelled.is_set():
                    raise StoreError("the export was cancelled")
                entry = asyncio.run_coroutine_threadsafe(self._load_entry(location), loop).result()
                if entry is not None:
                    yield location, entry_files.seal(*entry)

        try:
            return await asyncio.to_thread(write_archive, file, entries())
        finally:
            cancelled.set()

    async def import_(self, file: Path) -> dtos.Imported:
        return await self._run(lambda connection: self._import(connection, file), IMPORT_TIMEOUT_S)

    async def ping(self) -> str:
        """Return the check of the health page: a write. Raises StoreError."""
        await self._run(write_probe)
        return "PostgreSQL answers"

    async def aclose(self) -> None:
        """Write the counters, if the database can be used."""
        try:
            await self._write_counts()
        except StoreError as error:
            log.debug("hits and misses of the store are lost", extra={"reason": error.message})

    async def _import(self, connection: Connection, file: Path) -> dtos.Imported:
        from modules.llm_platform.infrastructure.stores.research_runs.archive import read_archive

        added = skipped = expired = 0
        entries = read_archive(file)
        async with connection.transaction():
            while (entry := await asyncio.to_thread(next, entries, None)) is not None:
                head, value = replace(entry[0], made_at=min(entry[0].made_at, self._clock())), entry[1]
                if self._is_old(head):
                    expired += 1
                elif await _execute(connection, _PUT_NEWER, _make_row(head, entry_files.seal(head, value))):
                    added += 1
                else:
                    skipped += 1
        return dtos.Imported(added=added, skipped=skipped, expired=expired)

    async def _list_files(self, name: str | None = None) -> list[StoredFile]:
        """Return the entries of a topic or all, in the order of the stages, oldest first. Raises TopicNotFoundError."""
        if name is not None and not is_topic_name(name):
            raise TopicNotFoundError
        statement, parameters = (_LIST, ()) if name is None else (f"{_LIST} AND topic = %s", (name,))
        rows = await self._run(lambda connection: _fetch(connection, statement, parameters))
        found = [_read_row(row) for row in rows if row[0] in STAGES]
        if name is not None and not found:
            raise TopicNotFoundError
        return sorted(found, key=lambda file: (STAGES.index(file.location.stage), file.made_at, file.location.key))

    async def _load_entry(self, location: entry_files.EntryLocation) -> tuple[entry_files.EntryHeader, bytes] | None:
        if not location.is_valid:
            return None
        rows = await self._run(
            lambda connection: _fetch(connection, _GET, (location.stage, location.topic, location.key))
        )
        return await self._open_entry(location, bytes(rows[0][0])) if rows else None

    async def _open_entry(
        self, location: entry_files.EntryLocation, data: bytes
    ) -> tuple[entry_files.EntryHeader, bytes] | None:
        try:
            head, value = entry_files.unseal(data)
            if head.location != location:
                raise entry_files.DamagedEntryError
        except entry_files.OtherFormatError:
            return None
        except entry_files.DamagedEntryError:
            log.warning("a damaged entry of the store was set aside", extra={"stage": location.stage})
            statement = f"UPDATE {_TABLE} SET damaged = true WHERE {_AT}"  # noqa: S608  constants
            await self._run(
                lambda connection: _execute(connection, statement, (location.stage, location.topic, location.key))
            )
            return None
        return None if self._is_old(head) else (head, value)

    def _is_old(self, head: entry_files.EntryHeader) -> bool:
        return self._clock() - head.made_at > self._ttl_s

    def _count(self, stage: dtos.StoreStage, *, hits: int) -> None:
        """Count in memory. The counts are written with the next statistics or at the end, so that a read does not write."""
        (self._hits if hits else self._misses)[stage] += hits or 1

    async def _write_counts(self) -> None:
        hits, self._hits = self._hits, Counter()
        misses, self._misses = self._misses, Counter()
        for stage in sorted(hits.keys() | misses.keys()):
            counts = (stage, hits[stage], misses[stage])
            await self._run(partial(_execute, statement=_COUNT, parameters=counts))

    async def _run(self, work: Callable[[Connection], Awaitable[Result]], timeout_s: float = CALL_TIMEOUT_S) -> Result:
        try:
            return await self._database.run(work, timeout_s)
        except DatabaseError as error:
            raise StoreUnavailableError(str(error), reason=error.reason) from error


async def _fetch(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]]
    rows = await (await connection.execute(statement.encode(), parameters, binary=True)).fetchall()
    return rows


async def _execute(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> int:
    """Return the number of rows that were changed."""
    return int((await connection.execute(statement.encode(), parameters)).rowcount)


def _make_row(head: entry_files.EntryHeader, data: bytes) -> tuple[str, str, str, float, bytes]:
    """Return the values of _PUT. The time is the time of the header, which is rounded to microseconds."""
    return head.location.stage, head.location.topic, head.location.key, head.made.timestamp(), data


def _read_row(row: Sequence[Any]) -> StoredFile:
    stage, topic, key, made_at, size, beginning = row
    location = entry_files.EntryLocation(stage, topic, key)
    try:
        head: entry_files.EntryHeader | None = entry_files.read_header(bytes(beginning))
    except (entry_files.DamagedEntryError, entry_files.OtherFormatError):
        head = None
    return StoredFile(location, size, made_at, head if head is not None and head.location == location else None)
