"""Background runs in one SQLite file, which all servers of a machine share."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import StoreError, StoreUnavailableError
from modules.llm_platform.infrastructure.sqlite import shared_file
from modules.llm_platform.infrastructure.statements.operations import Operation, Result
from modules.llm_platform.infrastructure.statements.research_jobs import SqlResearchJobStore
from modules.llm_platform.infrastructure.statements.research_schema import (
    ADD_CLIENT,
    ADD_THREAD,
    ADD_TRACEPARENT,
    SCHEMA,
)

MIGRATIONS: Final = (SCHEMA, (ADD_TRACEPARENT,), ADD_CLIENT, ADD_THREAD)
FORMAT: Final = len(MIGRATIONS)  # of the file, in its user_version
MEMORY: Final = Path(":memory:")
CLOSED: Final = "the store of background runs is closed"
_NUMBER: Final = "INTEGER PRIMARY KEY AUTOINCREMENT"


class SqliteResearchJobStore(SqlResearchJobStore):
    """Research runs in `file`, made when the first one is added; `MEMORY`: in this process. `clock`: seconds since 1970."""

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
        """A server without background runs makes no file."""
        exists = self._connection is not None or (self._file != MEMORY and self._file.exists())
        return await self._transact(make) if exists else empty

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        if self._closed:
            raise StoreError(CLOSED)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, make)
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise StoreUnavailableError(f"{self._file.name} in the data folder cannot be used ({why})") from error

    def _run(self, make: Callable[[], Operation[Result]]) -> Result:
        """In the thread. After an error of the file it is opened again."""
        if self._connection is None:
            self._connection = self._opened()
        try:
            with shared_file.transaction(self._connection):
                return shared_file.execute(self._connection, make(), self._clock())
        except (sqlite3.Error, OSError):
            self._close_file()
            raise

    def _opened(self) -> sqlite3.Connection:
        with ExitStack() as undo:
            in_memory = self._file == MEMORY
            connection = (
                sqlite3.connect(MEMORY, isolation_level=None) if in_memory else shared_file.open_shared_file(self._file)
            )
            undo.callback(connection.close)
            connection.create_function("split_part", 3, _split_part, deterministic=True)
            with shared_file.transaction(connection):  # several servers may start at once
                if (found := connection.execute("PRAGMA user_version").fetchone()[0]) > FORMAT:
                    raise sqlite3.DatabaseError("a newer version wrote it: use that one, or another folder")
                for statement in chain.from_iterable(MIGRATIONS[found:]):
                    connection.execute(statement.format(number=_NUMBER).replace(shared_file.SCHEMA_OF_TABLES, ""))
                if found < FORMAT:
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
            undo.pop_all()
        return connection

    def _close_file(self) -> None:
        if self._file != MEMORY:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _split_part(text: str, gap: str, number: int) -> str:
    """The function of PostgreSQL: a part of the text, counted from 1; empty if there is none."""
    return "".join(text.split(gap)[number - 1 : number])
