"""Failed requests in one SQLite file, which all workers of a machine share. Failures are rare, so each call opens the file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore
from modules.llm_platform.infrastructure.files.private_files import (
    PRIVATE_FILE,
    make_private_folder,
    require_free_space,
)
from modules.llm_platform.infrastructure.sqlite.shared_file import transaction

Result = TypeVar("Result")

BUSY_WAIT_S: Final = 5.0
DAY_S: Final = 86_400
_ROW_BYTES: Final = 100  # besides the texts, roughly
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
_KEEP: Final = """
INSERT OR REPLACE INTO failed_request (stage, tenant, request_id, stored_at, size, key, headers, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_TRIM: Final = """
DELETE FROM failed_request WHERE number <= (
    SELECT max(number) FROM (SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM failed_request) WHERE total > ?
)
"""
_LIST: Final = """
SELECT stage, request_id, tenant, value, key, headers, stored_at FROM failed_request WHERE stored_at >= ? ORDER BY number
"""
_REMOVE: Final = (
    "DELETE FROM failed_request WHERE stage = ? AND tenant = ? AND request_id = ? AND stored_at = ?"
)
_CLEAN: Final = "DELETE FROM failed_request WHERE stored_at < ?"


class SqliteFailedRequestStore(IFailedRequestStore):
    """Requests in `file`, made at the first one: at most `max_bytes`, each for `ttl_days`. `clock`: seconds since 1970."""

    def __init__(
        self, file: Path, max_bytes: int, ttl_days: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._file, self._max_bytes, self._ttl_s, self._clock = file, max_bytes, ttl_days * DAY_S, clock

    async def put(self, request: FailedRequest) -> None:
        def write(connection: sqlite3.Connection) -> None:
            size, *content = content_of(request)
            if size <= self._max_bytes:
                connection.execute(_KEEP, (*key_of(request), self._clock(), size, *content))
                connection.execute(_TRIM, (self._max_bytes,))

        await self._run(write)

    async def list(self) -> list[FailedRequest]:
        def read(connection: sqlite3.Connection) -> list[FailedRequest]:
            return list(map(request_of, connection.execute(_LIST, (self._clock() - self._ttl_s,))))

        return await self._run(read) if self._file.exists() else []

    async def remove(self, requests: Sequence[FailedRequest]) -> None:
        rows = [(*key_of(each), each.stored_at) for each in requests]
        await self._run(lambda connection: connection.executemany(_REMOVE, rows))

    async def clean(self) -> int:
        before = self._clock() - self._ttl_s
        return await self._run(lambda each: each.execute(_CLEAN, (before,)).rowcount) if self._file.exists() else 0

    async def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return await asyncio.to_thread(partial(self._run_in_thread, work))
        except (sqlite3.Error, OSError) as error:
            raise OutcomeStoreError(f"the file of failed requests cannot be used ({error})") from error

    def _run_in_thread(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._opened() as connection, transaction(connection):
            return work(connection)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        make_private_folder(self._file.parent)
        require_free_space(self._file.parent)
        self._file.touch(PRIVATE_FILE)
        with closing(sqlite3.connect(self._file, timeout=BUSY_WAIT_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")  # a removed request leaves no bytes in the file
            connection.execute(_SCHEMA)
            connection.execute(_SIZE_INDEX)
            yield connection


def key_of(request: FailedRequest) -> tuple[str, bytes, bytes]:
    """Return the columns stage, tenant and request_id."""
    return request.stage, bytes_of(request.tenant), bytes_of(request.request_id)


def content_of(request: FailedRequest) -> tuple[int, bytes | None, str, bytes]:
    """Return the columns size, key, headers and value. Headers are JSON with the values in base64."""
    encoded = [(name, None if value is None else b64encode(value).decode()) for name, value in request.headers]
    headers = json.dumps(encoded)
    return _ROW_BYTES + len(request.value) + len(request.key or b"") + len(headers), request.key, headers, request.value


def request_of(row: Sequence[Any]) -> FailedRequest:
    """Return the request of a row of _LIST."""
    stage, request_id, tenant, value, key, encoded, stored_at = row
    headers = tuple((name, None if each is None else b64decode(each)) for name, each in json.loads(encoded))
    content = bytes(value), None if key is None else bytes(key), headers
    return FailedRequest(stage, text_of(request_id), text_of(tenant), *content, float(stored_at))


def bytes_of(text: str) -> bytes:
    """Return UTF-8, in which a lone surrogate is allowed: an id may contain one."""
    return text.encode("utf-8", "surrogatepass")


def text_of(raw: bytes) -> str:
    """Reverse `bytes_of`."""
    return bytes(raw).decode("utf-8", "surrogatepass")
