"""Failed requests in one SQLite file, which all workers of a machine share. Failures are rare, so each call opens the file."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.infrastructure.files import private_files
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.database.sqlite import execute, transaction
from modules.llm_platform.infrastructure.stores.failed_requests.sql import SqlFailedRequestStore

FAILED_REQUESTS_BUSY_WAIT_S: Final = 5.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS failed_request (
    number INTEGER PRIMARY KEY,
    stage TEXT NOT NULL,
    tenant BLOB NOT NULL,
    request_id BLOB NOT NULL,
    stored_at REAL NOT NULL,
    size INTEGER NOT NULL,
    key BLOB,
    headers TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (stage, tenant, request_id)
)
"""
_SIZE_INDEX: Final = "CREATE INDEX IF NOT EXISTS failed_request_size ON failed_request (number, size)"


class SqliteFailedRequestStore(SqlFailedRequestStore):
    """Store of failed requests in `file`, which the first request creates. `clock` returns seconds since 1970."""

    def __init__(self, file: Path, max_bytes: int, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        super().__init__(max_bytes, ttl_days)
        self._file, self._clock = file, clock

    async def _query(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        return empty if private_files.is_absent(self._file) else await self._transact(make)

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        try:
            return await asyncio.to_thread(partial(self._run, make))
        except (sqlite3.Error, OSError) as error:
            message = f"the file of failed requests cannot be used ({error}): check LLM_PLATFORM_DATA_DIR"
            raise OutcomeStoreError(message) from error

    def _run(self, make: Callable[[], Operation[Result]]) -> Result:
        with self._open() as connection, transaction(connection):
            return execute(connection, make(), self._clock())

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        private_files.make_private_folder(self._file.parent)
        private_files.require_free_space(self._file.parent)
        self._file.touch(private_files.PRIVATE_FILE)
        with closing(
            sqlite3.connect(self._file, timeout=FAILED_REQUESTS_BUSY_WAIT_S, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA secure_delete = ON")  # a removed request leaves no bytes in the file
            connection.execute(_SCHEMA)
            connection.execute(_SIZE_INDEX)
            yield connection
