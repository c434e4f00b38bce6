"""Watched questions in one SQLite file, which all servers of a machine share."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import StoreUnavailableError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.infrastructure.files.private_files import is_absent
from modules.llm_platform.infrastructure.stores.database import sqlite as shared_file
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.database.watch_schema import ADD_TOTALS, DROP_DUE_AT, SCHEMA
from modules.llm_platform.infrastructure.stores.watches.sql import SqlWatchStore

MIGRATIONS: Final = (SCHEMA, ADD_TOTALS, DROP_DUE_AT)
FORMAT: Final = len(MIGRATIONS)  # stored in the file's user_version
NEWER: Final = "a newer version wrote it: use that one, or another folder"
PROBE: Final = "watched_questions"  # name in the reports of health and doctor
_NUMBER: Final = "INTEGER PRIMARY KEY AUTOINCREMENT"


class SqliteWatchStore(SqlWatchStore, IHealthProbe):
    """Opens the file for each call, in a thread: calls are rare. The first watch creates it.

    `clock` returns seconds since 1970.
    """

    name = PROBE

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock

    async def ping(self) -> str:
        """Return an empty string if the file can be used or does not exist yet. Raises StoreError otherwise.

        Writes nothing, except that opening a file of an older version upgrades it.
        """
        await self.count()
        return ""

    async def _query(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        return empty if is_absent(self._file) else await self._transact(make)

    async def _read(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        return empty if is_absent(self._file) else await self._run_in_thread(make, is_read=True)

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        return await self._run_in_thread(make, is_read=False)

    async def _run_in_thread(self, make: Callable[[], Operation[Result]], *, is_read: bool) -> Result:
        try:
            return await asyncio.to_thread(partial(self._run, make, is_read=is_read))
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            message = f"{self._file.name} in the data folder cannot be used ({why}): check LLM_PLATFORM_DATA_DIR"
            raise StoreUnavailableError(message) from error

    def _run(self, make: Callable[[], Operation[Result]], *, is_read: bool) -> Result:
        with closing(shared_file.open_shared_file(self._file)) as connection:
            if is_read and _read_format(connection) < FORMAT:  # a transaction that reads cannot wait to become a writer
                with shared_file.transaction(connection):
                    _migrate(connection)
            with shared_file.transaction(connection, is_read=is_read):
                _migrate(connection)
                return shared_file.execute(connection, make(), self._clock())


def _read_format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> None:
    found = _read_format(connection)
    if found > FORMAT:
        raise sqlite3.DatabaseError(NEWER)
    for statement in chain.from_iterable(MIGRATIONS[found:]):
        connection.execute(statement.format(number=_NUMBER).replace(shared_file.SCHEMA_OF_TABLES, ""))
    if found < FORMAT:
        connection.execute(f"PRAGMA user_version = {FORMAT}")
