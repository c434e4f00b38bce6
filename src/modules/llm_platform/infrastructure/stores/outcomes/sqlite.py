"""Store outcomes in one SQLite file, which all workers of a machine share.

Concurrent calls are batched: one transaction stores the outcomes of many requests, so that each pays little for durability.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome, OutcomeFilter, RagStage, StoredOutcome
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.infrastructure.files.private_files import require_free_space
from modules.llm_platform.infrastructure.stores.database.sqlite import open_shared_file, transaction
from modules.llm_platform.infrastructure.stores.failed_requests.sql import decode_id, encode_id

log = logging.getLogger(__name__)

Item = TypeVar("Item")

FORMAT: Final = 1  # stored in the file's user_version
CLEANUP_BATCH_SIZE: Final = 500  # rows removed by one transaction, so that other workers wait for milliseconds
_TENANT_PREFIX: Final = b"\xff"  # the first byte of a key with a tenant; UTF-8 never has it
LAST_ROWID: Final = 2**63 - 1
_LENGTH_BYTES: Final = 4  # bytes of a key that hold the length of the tenant

# The table keeps its rowid: bodies are appended in order of time, and the index of the key stays small.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS outcome (
    stage TEXT NOT NULL,
    request_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    request_sha256 TEXT NOT NULL,
    kept_at INTEGER NOT NULL,
    PRIMARY KEY (stage, request_id)
)
"""
# This table has one row, with the id of the file and the time of the last write test.
_ABOUT: Final = """
CREATE TABLE IF NOT EXISTS about (only INTEGER PRIMARY KEY CHECK (only = 1), id TEXT NOT NULL, probed_at INTEGER)
"""
_COLUMNS: Final = 6
# A statement handles many rows, because SQLite releases the interpreter lock at each statement and gets it back late from a
# busy event loop. There are statements for a few lengths only, so that all of them stay prepared.
LENGTHS: Final = (128, 32, 8, 1)
_GET: Final = "SELECT request_id, kind, body, request_sha256 FROM outcome WHERE stage = ? AND request_id IN "
_INSERT: Final = "INSERT INTO outcome (stage, request_id, kind, body, request_sha256, kept_at) VALUES "
_ROW: Final = f"({', '.join('?' * _COLUMNS)})"
_GET_MANY: Final = {length: f"{_GET}({', '.join('?' * length)})" for length in LENGTHS}
_INSERT_MANY: Final = {length: f"{_INSERT}{', '.join([_ROW] * length)} ON CONFLICT DO NOTHING" for length in LENGTHS}
SCAN_BATCH_SIZE: Final = 100  # rows read at once; an outcome has some kilobytes
# The parameters are fields of OutcomeFilter. A key contains both the request id and the tenant, so a filter that names only
# one of them is applied by `SqliteOutcomeStore.scan`.
_SCAN: Final = """
SELECT rowid, kept_at, stage, request_id, kind, body, request_sha256 FROM outcome
WHERE rowid < ? AND (? IS NULL OR stage = ?) AND (? IS NULL OR kind = ?) AND (? IS NULL OR request_id = ?)
AND kept_at <= ? AND kept_at >= ? ORDER BY rowid DESC LIMIT ?
"""
_REMOVE: Final = "DELETE FROM outcome WHERE stage = ? AND request_id = ? AND kind = ? AND body = ?"
# The oldest outcomes have the lowest rowids, because rows are appended in order of time. No index of time is needed. Rows that
# were stored while the clock was ahead are passed over: those after them would never be removed.
_OLDEST: Final = "SELECT rowid, kept_at FROM outcome WHERE kept_at <= ? ORDER BY rowid LIMIT ?"


class OtherFormatError(Exception):
    """A newer version of this program wrote the file."""


class OutcomeTable:
    """The table of outcomes, used by one thread. Several processes may use its file at the same time.

    The file is created at the first call. `clock` returns seconds since 1970. All methods block and may raise sqlite3.Error,
    OSError and OtherFormatError.
    """

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._open: sqlite3.Connection | None = None

    def get_all(self, requests: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        """Return the stored outcome, or None, for each (stage, request id, tenant), in the order of `requests`."""
        connection = self._get_connection()
        found: dict[tuple[RagStage, bytes], Outcome] = {}
        keys = [(stage, _make_key(request_id, tenant)) for stage, request_id, tenant in requests]
        for stage in {stage for stage, _ in keys}:
            for chunk in _split_chunks([key for key_stage, key in keys if key_stage == stage]):
                for key, kind, body, sha256 in connection.execute(_GET_MANY[len(chunk)], (stage, *chunk)):
                    request_id, tenant = _read_key(key)
                    found[stage, key] = Outcome(
                        stage=stage, request_id=request_id, kind=kind, body=body, request_sha256=sha256, tenant=tenant
                    )
        return [found.get(key) for key in keys]

    def insert_all(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Store each outcome in one transaction, unless its request has one. Return the outcomes that are stored then."""
        connection = self._get_connection()
        now = int(self._clock())
        written = 0
        with transaction(connection):
            for chunk in _split_chunks(outcomes):
                values: list[object] = []
                for outcome in chunk:
                    key = _make_key(outcome.request_id, outcome.tenant)
                    values += (outcome.stage, key, outcome.kind, outcome.body, outcome.request_sha256, now)
                written += connection.execute(_INSERT_MANY[len(chunk)], values).rowcount
            if written == len(outcomes):
                return list(outcomes)
            found = self.get_all([(outcome.stage, outcome.request_id, outcome.tenant) for outcome in outcomes])
        return [outcome for outcome in found if outcome is not None]

    def clean(self, before: float, now: float) -> int:
        """Remove up to CLEANUP_BATCH_SIZE outcomes from `before` this time. Return the number removed.

        Both times are in seconds since 1970. An outcome from after `now` was stored while the clock was ahead, and stays.
        """
        connection = self._get_connection()
        with transaction(connection):
            oldest = connection.execute(_OLDEST, (now, CLEANUP_BATCH_SIZE)).fetchall()
            old = [(number,) for number, kept_at in oldest if kept_at < before]
            connection.executemany("DELETE FROM outcome WHERE rowid = ?", old)
        return len(old)

    def page(self, wanted: OutcomeFilter, below: int) -> list[tuple[int, StoredOutcome]]:
        """Return up to SCAN_BATCH_SIZE outcomes below this rowid, with their rowids, the newest first.

        If `wanted` has a request id without a tenant, or the reverse, the caller has to compare it.
        """
        key = (
            None if wanted.request_id is None or wanted.tenant is None else _make_key(wanted.request_id, wanted.tenant)
        )
        now = self._clock()
        since = 0 if wanted.max_age_s is None else now - wanted.max_age_s
        optional = (value for field in (wanted.stage, wanted.kind, key) for value in (field, field))
        rows = self._get_connection().execute(_SCAN, (below, *optional, now - wanted.min_age_s, since, SCAN_BATCH_SIZE))
        return [
            (number, StoredOutcome(Outcome(stage, request_id, kind, body, sha256, tenant), kept_at))
            for number, kept_at, stage, found, kind, body, sha256 in rows
            for request_id, tenant in (_read_key(found),)
        ]

    def remove(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Remove the outcomes in one transaction. The result tells for each whether it was stored with the same bytes."""
        connection = self._get_connection()
        with transaction(connection):
            return [
                connection.execute(
                    _REMOVE, (outcome.stage, _make_key(outcome.request_id, outcome.tenant), outcome.kind, outcome.body)
                ).rowcount
                > 0
                for outcome in outcomes
            ]

    def probe(self) -> None:
        """Write to the file, which raises if the disk is full or read-only."""
        connection = self._get_connection()
        require_free_space(self._file.parent)
        with transaction(connection):
            connection.execute("UPDATE about SET probed_at = ?", (int(self._clock()),))

    def identity(self) -> str:
        """Return the random id that the file got when it was created."""
        found: str = self._get_connection().execute("SELECT id FROM about").fetchone()[0]
        return found

    def close(self) -> None:
        """Close the file. A later call opens it again."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    def _get_connection(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = self._open_connection()
        return self._open

    def _open_connection(self) -> sqlite3.Connection:
        with ExitStack() as undo:
            connection = open_shared_file(self._file)
            undo.callback(connection.close)
            self._prepare(connection)
            undo.pop_all()
        return connection

    @staticmethod
    def _prepare(connection: sqlite3.Connection) -> None:
        """Create the tables, or check the format of the file. Raises OtherFormatError."""
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            # Another worker may do this at the same time: the statements change nothing the second time.
            with transaction(connection):
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif found != FORMAT:
            raise OtherFormatError
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone() is None:
            with transaction(connection):
                connection.execute(_ABOUT)
                connection.execute("INSERT OR IGNORE INTO about (only, id) VALUES (1, ?)", (uuid4().hex,))


def _split_chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Split the items into chunks of the lengths that have a statement, see LENGTHS."""
    start = 0
    while left := len(items) - start:
        length = next(length for length in LENGTHS if length <= left)
        yield items[start : start + length]
        start += length


def _make_key(request_id: str, tenant: str) -> bytes:
    """Return the key of a request: its id as bytes, after a prefix if it has a tenant.

    The prefix is _TENANT_PREFIX, the length of the tenant in _LENGTH_BYTES, and the tenant, so that keys are unique. Keys are
    bytes because SQLite rejects lone surrogates in text, and one such id would fail its whole batch.
    """
    identity = encode_id(request_id)
    if not tenant:
        return identity
    owner = encode_id(tenant)
    return _TENANT_PREFIX + len(owner).to_bytes(_LENGTH_BYTES) + owner + identity


def _read_key(key: bytes) -> tuple[str, str]:
    owner = b""
    if key.startswith(_TENANT_PREFIX):
        begin = len(_TENANT_PREFIX) + _LENGTH_BYTES
        end = begin + int.from_bytes(key[len(_TENANT_PREFIX) : begin])
        owner, key = key[begin:end], key[end:]
    return decode_id(key), decode_id(owner)


Result = TypeVar("Result")
_BatchResult = tuple[list[list[Outcome | None]], list[list[Outcome]]]  # the results of its lookups and its insertions

DAY_S: Final = 86_400
CLOCK_JUMP_S: Final = 60.0  # a clock that is set by more has jumped; smaller steps correct its drift
CLOSED: Final = "the store of outcomes is closed"
_FILE_ERRORS: Final = (sqlite3.Error, OSError, OtherFormatError)


@dataclass(slots=True)
class _Batch:
    """The calls that arrived while the previous batch ran, with the futures that their callers wait for."""

    lookups: list[Sequence[tuple[RagStage, str, str]]] = field(default_factory=list)
    lookup_futures: list[asyncio.Future[list[Outcome | None]]] = field(default_factory=list)
    insertions: list[Sequence[Outcome]] = field(default_factory=list)
    insertion_futures: list[asyncio.Future[list[Outcome]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lookups or self.insertions)


class SqliteOutcomeStore(IOutcomeStore):
    """Store of outcomes in `file`, which is created at the first call. Outcomes are removed after `ttl_days`.

    `clock` returns seconds since 1970 and may jump. `monotonic` returns seconds and never jumps.
    """

    reach = "all workers of this machine"

    def __init__(
        self,
        file: Path,
        ttl_days: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = OutcomeTable(file, clock)
        self._ttl_s = ttl_days * DAY_S
        self._clock, self._monotonic = clock, monotonic
        # The time of `clock` at which `monotonic` was 0.
        self._monotonic_epoch = clock() - monotonic()
        # A connection of SQLite belongs to the thread that opened it, so one thread does all work.
        self._thread = ThreadPoolExecutor(1, "outcomes")
        self._next = _Batch()
        self._is_running = False
        self._closed = False

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        [found] = await self.get_many(((stage, request_id, tenant),))
        return found

    async def get_many(self, requests: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        answer: asyncio.Future[list[Outcome | None]] = self._make_future()
        self._next.lookups.append(requests)
        self._next.lookup_futures.append(answer)
        return await answer

    async def put_if_absent(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        answer: asyncio.Future[list[Outcome]] = self._make_future()
        self._next.insertions.append(outcomes)
        self._next.insertion_futures.append(answer)
        return await answer

    async def scan(self, wanted: OutcomeFilter) -> AsyncIterator[StoredOutcome]:
        below = LAST_ROWID
        while page := await self._run_in_thread(partial(self._table.page, wanted, below)):
            below = page[-1][0]
            for _, found in page:
                outcome = found.outcome
                is_id = wanted.request_id in (None, outcome.request_id)
                if is_id and wanted.tenant in (None, outcome.tenant):
                    yield found

    async def remove(self, outcomes: Sequence[Outcome]) -> list[bool]:
        return await self._run_in_thread(partial(self._table.remove, outcomes))

    async def clean(self) -> int:
        # After a jump of the clock, every outcome would look expired, and a request that is sent again would get another one.
        now, elapsed = self._clock(), self._monotonic_epoch + self._monotonic()
        if now - elapsed > CLOCK_JUMP_S:
            by_s = round(now - elapsed)
            log.warning("the system clock jumped forward: outcomes expire as if it had not", extra={"by_s": by_s})
        before = min(now, elapsed) - self._ttl_s
        removed = 0
        while some := await self._run_in_thread(partial(self._table.clean, before, max(now, elapsed))):
            removed += some
        return removed

    async def probe(self) -> None:
        await self._run_in_thread(self._table.probe)

    async def identity(self) -> str:
        return await self._run_in_thread(self._table.identity)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._table.close)
            self._thread.shutdown()

    def _make_future(self) -> asyncio.Future[Any]:
        """Return a future for a call of the next batch. Raises OutcomeStoreError after `aclose`.

        The batch starts when the running one has ended, or else in the next iteration of the event loop.
        """
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        loop = asyncio.get_running_loop()
        if not self._is_running:
            self._is_running = True
            loop.call_soon(self._begin, loop)
        return loop.create_future()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._next = self._next, _Batch()
        if self._closed:
            _fail((*batch.lookup_futures, *batch.insertion_futures), OutcomeStoreError(CLOSED))
            return
        work = self._thread.submit(_run_batch, self._table, batch)
        work.add_done_callback(partial(self._end_in_thread, loop, batch))

    def _end_in_thread(self, loop: asyncio.AbstractEventLoop, batch: _Batch, work: Future[_BatchResult]) -> None:
        """Pass the result of a batch to the event loop. Runs in the thread of the store."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._end, loop, batch, work)

    def _end(self, loop: asyncio.AbstractEventLoop, batch: _Batch, work: Future[_BatchResult]) -> None:
        """Begin the next batch, then give the callers of this one their results."""
        self._is_running = False
        if self._next:
            self._is_running = True
            self._begin(loop)
        error = work.exception()
        if isinstance(error, _FILE_ERRORS):
            translated = OutcomeStoreError(_write_message(error))
            translated.__cause__ = error
            error = translated
        if error is not None:
            _fail((*batch.lookup_futures, *batch.insertion_futures), error)
            return
        found, stored = work.result()
        _resolve(batch.lookup_futures, found)
        _resolve(batch.insertion_futures, stored)

    async def _run_in_thread(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, _run_in_table, self._table, work)
        except _FILE_ERRORS as error:
            raise OutcomeStoreError(_write_message(error)) from error


def _run_batch(table: OutcomeTable, batch: _Batch) -> _BatchResult:
    """Run a batch in the thread of the store. Insertions come first, so that lookups of the same batch find them."""

    def run() -> _BatchResult:
        outcomes = list(chain.from_iterable(batch.insertions))
        stored = iter(table.insert_all(outcomes) if outcomes else ())
        found = iter(table.get_all(list(chain.from_iterable(batch.lookups))))
        return _group_results(found, batch.lookups), _group_results(stored, batch.insertions)

    return _run_in_table(table, run)


def _run_in_table(table: OutcomeTable, work: Callable[[], Result]) -> Result:
    """Run an operation in the thread of the store. An error closes the file, and the next operation opens it again."""
    with ExitStack() as on_error:
        on_error.callback(table.close)
        result = work()
        on_error.pop_all()
    return result


def _group_results(results: Iterator[Result], calls: Iterable[Sequence[object]]) -> list[list[Result]]:
    return [list(islice(results, len(call))) for call in calls]


def _resolve(futures: Sequence[asyncio.Future[Result]], answers: Sequence[Result]) -> None:
    for future, answer in zip(futures, answers, strict=True):
        # The future of a caller that was cancelled is done.
        if not future.done():
            future.set_result(answer)


def _fail(futures: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)


def _write_message(error: Exception) -> str:
    if isinstance(error, OtherFormatError):
        return "a newer version wrote the file of outcomes: use that one, or another LLM_PLATFORM_DATA_DIR"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return (
            "the file of outcomes is damaged: move it away (outcomes.sqlite3 in LLM_PLATFORM_DATA_DIR), and start again"
        )
    why = error.strerror if isinstance(error, OSError) else str(error)
    return (
        f"the file of outcomes cannot be used ({why}): check LLM_PLATFORM_DATA_DIR; no request is answered until it can"
    )
