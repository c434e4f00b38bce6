"""Background runs in one SQLite file, which all servers of a machine share."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import StoreError, StoreUnavailableError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.infrastructure.files.private_files import is_absent
from modules.llm_platform.infrastructure.stores.database import sqlite as shared_file
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result, Row, Statement
from modules.llm_platform.infrastructure.stores.database.research_schema import (
    ADD_ANSWER,
    ADD_CLIENT,
    ADD_FINISH,
    ADD_THREAD,
    ADD_TRACEPARENT,
    ADD_UNCLEAN_ENDS,
    OWN_THREAD_SQLITE,
    REMOVE_ORPHANS,
    SCHEMA,
)
from modules.llm_platform.infrastructure.stores.research_jobs.sql import SqlResearchJobStore

MIGRATIONS: Final = (
    SCHEMA,
    (ADD_TRACEPARENT,),
    ADD_CLIENT,
    ADD_THREAD,
    OWN_THREAD_SQLITE,
    REMOVE_ORPHANS,
    ADD_ANSWER,
    (ADD_FINISH,),
    (ADD_UNCLEAN_ENDS,),
)
FORMAT: Final = len(MIGRATIONS)  # stored in the file's user_version
MEMORY: Final = Path(":memory:")
NEWER: Final = "a newer version wrote it: use that one, or another folder"
PROBE: Final = "background_runs"  # name in the reports of health and doctor
_NUMBER: Final = "INTEGER PRIMARY KEY AUTOINCREMENT"


class SqliteResearchJobStore(SqlResearchJobStore, IHealthProbe):
    """Store of research runs in `file`, which the first run creates, or with `MEMORY` in this process.

    Stored runs can be read while the disk is full. A file that a newer version has changed is neither read nor written, even
    if that happens while it is open. `clock` returns seconds since 1970.
    """

    name = PROBE

    def __init__(self, file: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        super().__init__(ttl_days)
        self._file = file
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "research-jobs")  # owns the connection
        self._closed = False

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown()

    async def _query(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        # A server without background runs makes no file.
        return await self._transact(make) if self._exists() else empty

    async def _read(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        return await self._run_in_thread(partial(self._run_reading, make)) if self._exists() else empty

    async def ping(self) -> str:
        """Return an empty string if the file can be used or does not exist yet. Raises StoreError otherwise.

        Writes nothing, except that opening a file of an older version upgrades it.
        """
        if self._exists():
            await self._run_in_thread(partial(self._run, _find_newest_run, is_read=True))
        return ""

    def _exists(self) -> bool:
        return self._connection is not None or (self._file != MEMORY and not is_absent(self._file))

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        return await self._run_in_thread(partial(self._run, make))

    async def _run_in_thread(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise StoreError("the store of background runs is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            message = f"{self._file.name} in the data folder cannot be used ({why}): check LLM_PLATFORM_DATA_DIR"
            raise StoreUnavailableError(message) from error

    def _run(self, make: Callable[[], Operation[Result]], *, is_read: bool = False) -> Result:
        """Run an operation in the thread. After an error of the file it is opened again, unless there was no room for a
        write: an open file can still be read.
        """
        if self._connection is None:
            self._connection = self._get_connection()
        try:
            return self._execute(self._connection, make, is_read=is_read)
        except (sqlite3.Error, OSError) as error:
            if self._file != MEMORY and getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                self._close()
            raise

    def _run_reading(self, make: Callable[[], Operation[Result]]) -> Result:
        """Run a reading operation in the thread. A file that cannot be opened for writing, as on a full disk, is opened for
        it alone.
        """
        try:
            return self._run(make, is_read=True)
        except (sqlite3.Error, OSError) as error:
            if self._file == MEMORY:
                raise
            try:
                with closing(shared_file.open_for_reading(self._file)) as connection:
                    _define_functions(connection)
                    return self._execute(connection, make, is_read=True)
            except sqlite3.Error:
                raise error from None

    def _execute(
        self, connection: sqlite3.Connection, make: Callable[[], Operation[Result]], *, is_read: bool
    ) -> Result:
        with shared_file.transaction(connection, is_read=is_read):
            if _read_format(connection) > FORMAT:
                raise sqlite3.DatabaseError(NEWER)
            return shared_file.execute(connection, make(), self._clock())

    def _get_connection(self) -> sqlite3.Connection:
        with ExitStack() as undo:
            in_memory = self._file == MEMORY
            connection = (
                sqlite3.connect(MEMORY, isolation_level=None) if in_memory else shared_file.open_shared_file(self._file)
            )
            undo.callback(connection.close)
            _define_functions(connection)
            with shared_file.transaction(connection):  # several servers may start at once
                if (found := _read_format(connection)) > FORMAT:
                    raise sqlite3.DatabaseError(NEWER)
                for statement in chain.from_iterable(MIGRATIONS[found:]):
                    connection.execute(statement.format(number=_NUMBER).replace(shared_file.SCHEMA_OF_TABLES, ""))
                if found < FORMAT:
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
            undo.pop_all()
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _find_newest_run() -> Operation[Sequence[Row]]:
    return (yield Statement("SELECT max(number) FROM llm_platform.research_job", {}))


def _define_functions(connection: sqlite3.Connection) -> None:
    connection.create_function("split_part", 3, _split_part, deterministic=True)


def _read_format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _split_part(text: str, gap: str, number: int) -> str:
    """Return a part of the text, counted from 1, or an empty text. PostgreSQL has this function."""
    return "".join(text.split(gap)[number - 1 : number])
