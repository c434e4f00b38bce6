"""Outcomes in one SQLite file, which all workers of a machine share.

Calls that come together are carried out together: with many requests in flight one transaction keeps all their outcomes,
and a durable answer costs little more than one that is not.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from modules.llm_platform.domain.dtos.retrieval_dtos import Outcome, RagStage
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.infrastructure.files.private_files import (
    PRIVATE_FILE,
    make_private_folder,
    require_free_space,
)

# The SQLite file of outcomes. One thread uses an object of this class; several processes may use the file.


Item = TypeVar("Item")

FORMAT: Final = 1  # of the file, in its user_version
BUSY_WAIT_S: Final = 10.0  # another process writes
BUSY_STEP_S: Final = 0.01
CLEANED_AT_ONCE: Final = 500  # rows of one transaction: workers that wait for it wait for milliseconds
WAL_BYTES: Final = 16 * 1024 * 1024  # to which the log of the file is cut when it has been written back
_OF_A_TENANT: Final = b"\xff"  # at the beginning of a key
_LENGTH_BYTES: Final = 4  # of how long the tenant is in it

# A table with a rowid: bodies are appended at its end, the index of its key stays small.
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
# One row: which file this is, and when somebody last tried whether it can be written.
_ABOUT: Final = """
CREATE TABLE IF NOT EXISTS about (only INTEGER PRIMARY KEY CHECK (only = 1), id TEXT NOT NULL, probed_at INTEGER)
"""
_COLUMNS: Final = 6
# Statements for many rows: SQLite lets the other threads run at each step of a statement, and a busy loop gives the word
# back late. A few lengths, so that the statements stay prepared.
LENGTHS: Final = (128, 32, 8, 1)
_GET: Final = "SELECT request_id, kind, body, request_sha256 FROM outcome WHERE stage = ? AND request_id IN "
_KEEP: Final = "INSERT INTO outcome (stage, request_id, kind, body, request_sha256, kept_at) VALUES "
_ROW: Final = f"({', '.join('?' * _COLUMNS)})"
_GET_MANY: Final = {length: f"{_GET}({', '.join('?' * length)})" for length in LENGTHS}
_KEEP_MANY: Final = {length: f"{_KEEP}{', '.join([_ROW] * length)} ON CONFLICT DO NOTHING" for length in LENGTHS}
# Outcomes are appended in the order of time, so the oldest have the lowest numbers and no index is needed.
_OLDEST: Final = "SELECT rowid, kept_at FROM outcome ORDER BY rowid LIMIT ?"


class OtherFormatError(Exception):
    """A newer version of this program wrote the file."""


class OutcomeTable:
    """Every method may raise sqlite3.Error, OSError or OtherFormatError. The file is made at the first use."""

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._open: sqlite3.Connection | None = None

    def get_all(self, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        """For each stage, request id and tenant what is kept."""
        connection = self._connection()
        found: dict[tuple[RagStage, bytes], Outcome] = {}
        keys = [(stage, _key(request_id, tenant)) for stage, request_id, tenant in wanted]
        for stage in {stage for stage, _ in keys}:
            for some in _cut([key for each, key in keys if each == stage]):
                for key, kind, body, sha256 in connection.execute(_GET_MANY[len(some)], (stage, *some)):
                    request_id, tenant = _read_key(key)
                    found[stage, key] = Outcome(
                        stage=stage, request_id=request_id, kind=kind, body=body, request_sha256=sha256, tenant=tenant
                    )
        return [found.get(key) for key in keys]

    def keep_all(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Keep each unless there is one; for each what is kept now. One transaction, all or none."""
        connection = self._connection()
        now = int(self._clock())
        written = 0
        with _transaction(connection):
            for some in _cut(outcomes):
                values = [value for each in some for value in _row(each, now)]
                written += connection.execute(_KEEP_MANY[len(some)], values).rowcount
            if written == len(outcomes):
                return list(outcomes)  # each is the first of its request: what was written is what would be read
            found = self.get_all([(each.stage, each.request_id, each.tenant) for each in outcomes])
        return [each for each in found if each is not None]

    def clean(self, before: float) -> int:
        """Remove a stretch of what was kept before that time (seconds since 1970); how many, 0 when there are none left."""
        connection = self._connection()
        with _transaction(connection):
            oldest = connection.execute(_OLDEST, (CLEANED_AT_ONCE,)).fetchall()
            old = [(number,) for number, kept_at in oldest if kept_at < before]
            connection.executemany("DELETE FROM outcome WHERE rowid = ?", old)
        return len(old)

    def probe(self) -> None:
        """Write, so that a disk that is full or read-only tells."""
        connection = self._connection()
        require_free_space(self._file.parent)
        with _transaction(connection):
            connection.execute("UPDATE about SET probed_at = ?", (int(self._clock()),))

    def identity(self) -> str:
        """The id of the file, made with it."""
        found: str = self._connection().execute("SELECT id FROM about").fetchone()[0]
        return found

    def close(self) -> None:
        """A later call opens the file again."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = self._opened()
        return self._open

    def _opened(self) -> sqlite3.Connection:
        make_private_folder(self._file.parent)
        require_free_space(self._file.parent)
        self._file.touch(PRIVATE_FILE)  # SQLite makes its other files with the same rights
        with ExitStack() as undo:
            connection = sqlite3.connect(self._file, timeout=BUSY_WAIT_S, isolation_level=None)
            undo.callback(connection.close)
            # What a commit has returned outlives this process, not a power cut: then the requests are read again.
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            self._prepare(connection)
            undo.pop_all()
        return connection

    @staticmethod
    def _prepare(connection: sqlite3.Connection) -> None:
        """Make the table, or see that it is ours."""
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            with _transaction(connection):  # of several workers that start together, one makes it
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif found != FORMAT:
            raise OtherFormatError
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone() is None:
            with _transaction(connection):
                connection.execute(_ABOUT)
                connection.execute("INSERT OR IGNORE INTO about (only, id) VALUES (1, ?)", (uuid4().hex,))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Of several processes that make the file at the same moment SQLite refuses all but one, without waiting for it."""
    until = time.monotonic() + BUSY_WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(BUSY_STEP_S)
        else:
            return


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; other processes wait meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:  # commits, or rolls back after an error
        yield


def _cut(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Into pieces that there are statements for."""
    start = 0
    while left := len(items) - start:
        length = next(length for length in LENGTHS if length <= left)
        yield items[start : start + length]
        start += length


def _row(outcome: Outcome, now: int) -> tuple[str, bytes, str, bytes, str, int]:
    """The values of its columns, in their order."""
    key = _key(outcome.request_id, outcome.tenant)
    return outcome.stage, key, outcome.kind, outcome.body, outcome.request_sha256, now


def _key(request_id: str, tenant: str) -> bytes:
    """The id; of a tenant's one a byte that no UTF-8 has, how long the tenant is, the tenant, the id: no two are alike.

    Half a surrogate pair is no text to SQLite, and one such id would stop the round of all others.
    """
    identity = request_id.encode("utf-8", "surrogatepass")
    if not tenant:
        return identity
    owner = tenant.encode("utf-8", "surrogatepass")
    return _OF_A_TENANT + len(owner).to_bytes(_LENGTH_BYTES) + owner + identity


def _read_key(key: bytes) -> tuple[str, str]:
    """Request id and tenant."""
    owner = b""
    if key.startswith(_OF_A_TENANT):
        begin = len(_OF_A_TENANT) + _LENGTH_BYTES
        end = begin + int.from_bytes(key[len(_OF_A_TENANT) : begin])
        owner, key = key[begin:end], key[end:]
    return key.decode("utf-8", "surrogatepass"), owner.decode("utf-8", "surrogatepass")


Result = TypeVar("Result")
_Answers = tuple[list[list[Outcome | None]], list[list[Outcome]]]  # what was looked up, what was kept

DAY_S: Final = 86_400
CLOSED: Final = "the store of outcomes is closed"
_OF_THE_FILE: Final = (sqlite3.Error, OSError, OtherFormatError)
_BROKEN: Final = (
    "the file of outcomes is damaged: move it away (outcomes.sqlite3 in LLM_PLATFORM_DATA_DIR), and start again"
)
_NEWER: Final = "a newer version wrote the file of outcomes: use that one, or another LLM_PLATFORM_DATA_DIR"


@dataclass(slots=True)
class _Round:
    """What was asked while the last round was carried out."""

    wanted: list[Sequence[tuple[RagStage, str, str]]] = field(default_factory=list)
    askers: list[asyncio.Future[list[Outcome | None]]] = field(default_factory=list)
    offered: list[Sequence[Outcome]] = field(default_factory=list)
    givers: list[asyncio.Future[list[Outcome]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.wanted or self.offered)


class SqliteOutcomeStore(IOutcomeStore):
    """Outcomes in `file`, made at the first call, each kept for `ttl_days`. `clock`: seconds since 1970."""

    reach = "all workers of this machine"

    def __init__(self, file: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._table = OutcomeTable(file, clock)
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "outcomes")  # owns the connection
        self._next = _Round()
        self._under_way = False
        self._closed = False

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        [found] = await self.get_many(((stage, request_id, tenant),))
        return found

    async def get_many(self, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        answer: asyncio.Future[list[Outcome | None]] = self._asked()
        self._next.wanted.append(wanted)
        self._next.askers.append(answer)
        return await answer

    async def keep(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        answer: asyncio.Future[list[Outcome]] = self._asked()
        self._next.offered.append(outcomes)
        self._next.givers.append(answer)
        return await answer

    async def clean(self) -> int:
        before = self._clock() - self._ttl_s
        removed = 0
        while some := await self._in_thread(partial(self._table.clean, before)):
            removed += some
        return removed

    async def probe(self) -> None:
        await self._in_thread(self._table.probe)

    async def identity(self) -> str:
        return await self._in_thread(self._table.identity)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._table.close)
            self._thread.shutdown()

    def _asked(self) -> asyncio.Future[Any]:
        """The answer to a question of the next round, which begins with the next turn of the loop, or after this one."""
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        loop = asyncio.get_running_loop()
        if not self._under_way:
            self._under_way = True
            loop.call_soon(self._begin, loop)
        return loop.create_future()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        asked, self._next = self._next, _Round()
        if self._closed:
            _refuse((*asked.askers, *asked.givers), OutcomeStoreError(CLOSED))
            return
        work = self._thread.submit(_carried_out, self._table, asked)
        work.add_done_callback(partial(self._done, loop, asked))

    def _done(self, loop: asyncio.AbstractEventLoop, asked: _Round, work: Future[_Answers]) -> None:
        """In the thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._answer, loop, asked, work)

    def _answer(self, loop: asyncio.AbstractEventLoop, asked: _Round, work: Future[_Answers]) -> None:
        self._under_way = False
        if self._next:
            self._under_way = True
            self._begin(loop)
        error = work.exception()
        if error is not None:
            _refuse((*asked.askers, *asked.givers), _as_ours(error))
            return
        found, kept = work.result()
        _tell(asked.askers, found)
        _tell(asked.givers, kept)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, _fresh_after_an_error, self._table, work
            )
        except _OF_THE_FILE as error:
            raise OutcomeStoreError(_said(error)) from error


def _carried_out(table: OutcomeTable, asked: _Round) -> _Answers:
    """In the thread. What was kept in a round is found in it as well."""
    with ExitStack() as after_an_error:
        after_an_error.callback(table.close)  # the next round begins with a fresh look at the file
        offered = list(chain.from_iterable(asked.offered))
        kept = iter(table.keep_all(offered) if offered else ())
        found = iter(table.get_all(list(chain.from_iterable(asked.wanted))))
        after_an_error.pop_all()
    return _shared_out(found, asked.wanted), _shared_out(kept, asked.offered)


def _fresh_after_an_error(table: OutcomeTable, work: Callable[[], Result]) -> Result:
    """In the thread."""
    with ExitStack() as after_an_error:
        after_an_error.callback(table.close)
        done = work()
        after_an_error.pop_all()
    return done


def _shared_out(answers: Iterator[Result], questions: Iterable[Sequence[object]]) -> list[list[Result]]:
    """To each who asked as many as were asked for."""
    return [list(islice(answers, len(asked))) for asked in questions]


def _tell(waiting: Sequence[asyncio.Future[Result]], answers: Sequence[Result]) -> None:
    for future, answer in zip(waiting, answers, strict=True):
        if not future.done():  # cancelled: nobody waits for it any more
            future.set_result(answer)


def _refuse(waiting: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)


def _as_ours(error: BaseException) -> BaseException:
    """What the file has against a round, in our words."""
    if not isinstance(error, _OF_THE_FILE):
        return error
    ours = OutcomeStoreError(_said(error))
    ours.__cause__ = error
    return ours


def _said(error: Exception) -> str:
    if isinstance(error, OtherFormatError):
        return _NEWER
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return _BROKEN
    why = error.strerror if isinstance(error, OSError) else str(error)
    return f"the file of outcomes cannot be used ({why}): see LLM_PLATFORM_DATA_DIR; nothing is answered until it can"
