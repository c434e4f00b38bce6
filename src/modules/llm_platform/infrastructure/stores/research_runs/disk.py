"""The store of research runs in a folder, with a file for each entry."""

import asyncio
import errno
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NoReturn, ParamSpec, TypeVar

from pydantic import BaseModel

from modules.llm_platform.domain.dtos import store_dtos as dtos
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.research_store import IResearchStore, Value
from modules.llm_platform.domain.research.store_key import is_topic_name
from modules.llm_platform.infrastructure.files.private_files import require_free_space
from modules.llm_platform.infrastructure.stores.research_runs import entry_files
from modules.llm_platform.infrastructure.stores.research_runs.folder import StoredFile, StoreFolder
from modules.llm_platform.infrastructure.stores.research_runs.overview import (
    HitCounters,
    compute_stats,
    list_entries,
    list_topics,
)

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
GIGABYTE: Final = 1e9
THREAD_BYTES: Final = 256 * 1024  # smaller entries are faster without a thread

Args = ParamSpec("Args")
Result = TypeVar("Result")


class StoreFolderProbe:
    """The check of the doctor: whether a file can be written into the folder of the store."""

    name = "store"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def ping(self) -> str:
        """Return the folder and its free space. Raises StoreError."""
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
    """Stores entries below `folder` for `ttl_days`. The first write creates the folder. `clock` returns seconds since 1970.

    Any number of threads and processes may use the folder. Damaged files are set aside.
    """

    name = "store"

    def __init__(self, folder: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._folder = StoreFolder(folder)
        self._counters = HitCounters(folder / "asked")
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock

    async def get(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, kind: type[Value]) -> Value | None:
        location = entry_files.EntryLocation(stage, topic.name, key)
        try:
            is_large = location.is_valid and self._folder.measure_size(location) > THREAD_BYTES
        except OSError:
            is_large = False
        value = await asyncio.to_thread(self._read, location, kind) if is_large else self._read(location, kind)
        self._counters.note(stage, hits=int(value is not None))
        return value

    async def put(self, topic: dtos.Topic, stage: dtos.StoreStage, key: str, value: BaseModel) -> None:
        location = entry_files.EntryLocation(stage, topic.name, key)
        header = entry_files.EntryHeader(location, topic.query, self._clock(), isinstance(value, dtos.EndsTopic))
        try:
            data = entry_files.seal_value(header, value)
            if len(data) > THREAD_BYTES:
                await asyncio.to_thread(self._folder.write, location, data)
            else:
                self._folder.write(location, data)
        except OSError as error:
            raise _make_unusable_error(error) from error
        except entry_files.UnstorableError as error:
            log.warning("an entry could not be stored", extra={"stage": stage, "error": str(error)})

    async def values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        return await asyncio.to_thread(self._load_values, topic, stage, kind)

    async def topics(self) -> tuple[dtos.StoredTopic, ...]:
        return list_topics(await _run_in_thread(self._list_files))

    async def entries(self, name: str) -> tuple[dtos.StoredEntry, ...]:
        return list_entries(await _run_in_thread(self._list_files, name))

    async def clear(self, name: str | None = None) -> int:
        return await _run_in_thread(self._clear, name)

    async def clean(self) -> int:
        return await _run_in_thread(self._clean)

    async def stats(self) -> dtos.StoreStats:
        found = await _run_in_thread(self._list_files)
        counts = await _run_in_thread(self._counters.counts)
        return compute_stats(found, counts, await _run_in_thread(self._folder.count_damaged))

    async def export(self, file: Path, name: str | None = None) -> int:
        return await _run_in_thread(self._export, file, name)

    async def import_(self, file: Path) -> dtos.Imported:
        return await _run_in_thread(self._import, file)

    async def ping(self) -> str:
        """Return an empty text if the disk has room and the folder may be written to. Raises StoreError otherwise.

        Nothing is written to find out.
        """
        await _run_in_thread(self._check_writable)
        return ""

    def _check_writable(self) -> None:
        root = self._folder.root
        folder = next(path for path in (root, *root.parents) if path.exists())
        require_free_space(folder)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _read(self, location: entry_files.EntryLocation, kind: type[Value]) -> Value | None:
        entry = self._load_entry(location)
        return None if entry is None else entry_files.parse_value(entry[1], kind)

    def _load_values(self, topic: dtos.Topic, stage: dtos.StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        try:
            files = list(self._folder.list_files(topic.name, stage)) if is_topic_name(topic.name) else []
        except OSError:  # unreadable entries count as missing
            files = []
        values = tuple(value for file in files if (value := self._read(file.location, kind)) is not None)
        self._counters.note(stage, hits=len(values))
        return values

    def _list_files(self, name: str | None = None) -> list[StoredFile]:
        """Return all files, valid or not. Raises TopicNotFoundError for a topic without files, and OSError."""
        if name is not None and not is_topic_name(name):
            raise TopicNotFoundError
        files = list(self._folder.list_files(name))
        if name is not None and not files:
            raise TopicNotFoundError
        return files

    def _clear(self, name: str | None) -> int:
        removed = sum(self._folder.remove(file.location) for file in self._list_files(name))
        if name is None:
            self._folder.sweep(self._clock())
        return removed

    def _clean(self) -> int:
        removed = sum(
            self._folder.remove(file.location) for file in self._folder.list_files() if self._is_old(file.made_at)
        )
        self._folder.sweep(self._clock() - self._ttl_s)
        return removed

    def _export(self, file: Path, name: str | None) -> int:
        from modules.llm_platform.infrastructure.stores.research_runs.archive import write_archive

        entries = ((file.location, self._load_entry(file.location)) for file in self._list_files(name))
        return write_archive(
            file, ((location, entry_files.seal(*entry)) for location, entry in entries if entry is not None)
        )

    def _import(self, file: Path) -> dtos.Imported:
        """Import the entries of an archive that are newer than stored ones, all or none. Raises StoreError and OSError."""
        from modules.llm_platform.infrastructure.stores.research_runs.archive import read_archive

        skipped = expired = 0
        with self._folder.stage_writes() as drafts:
            for head, value in read_archive(file):
                own = self._load_entry(head.location)
                if self._is_old(head.made_at):
                    expired += 1
                elif own is not None and own[0].made_at >= head.made_at:
                    skipped += 1
                else:
                    # A time in the future becomes now, or else the entry would outlive all others.
                    dated = replace(head, made_at=min(head.made_at, self._clock()))
                    drafts.append(
                        (self._folder.write_draft(head.location, entry_files.seal(dated, value)), head.location)
                    )
            added = len(drafts)
        return dtos.Imported(added=added, skipped=skipped, expired=expired)

    def _load_entry(self, location: entry_files.EntryLocation) -> tuple[entry_files.EntryHeader, bytes] | None:
        if not location.is_valid:
            return None
        try:
            head, value = entry_files.unseal(self._folder.read(location))
            if head.location != location:
                raise entry_files.DamagedEntryError
        except (OSError, entry_files.OtherFormatError):
            return None
        except entry_files.DamagedEntryError:
            self._set_aside(location)
            return None
        return None if self._is_old(head.made_at) else (head, value)

    def _set_aside(self, location: entry_files.EntryLocation) -> None:
        log.warning("a damaged entry of the store was set aside", extra={"stage": location.stage})
        try:
            self._folder.set_aside(location)
        except OSError as error:  # it is not read in any case
            log.debug("a damaged entry could not be moved", extra={"error": type(error).__name__})

    def _is_old(self, made_at: float) -> bool:
        return self._clock() - made_at > self._ttl_s


async def _run_in_thread(work: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs) -> Result:
    """Run in a thread. OSError becomes StoreError."""
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        raise _make_unusable_error(error) from error


def _make_unusable_error(error: OSError) -> StoreError:
    reason = error.strerror or type(error).__name__
    return StoreError(f"the folder of the research store cannot be used ({reason}): check LLM_PLATFORM_DATA_DIR")


_OFF: Final = "the store is disabled: set STORE_TTL_DAYS to more than 0"


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
        return compute_stats((), {}, 0)

    async def export(self, file: Path, name: str | None = None) -> NoReturn:
        raise StoreError(_OFF)

    async def import_(self, file: Path) -> NoReturn:
        raise StoreError(_OFF)
