"""The SQLite file of outcomes. One thread uses an object of this class; several processes may use the file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from modules.llm_platform.domain.dtos.outcome import Outcome
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.infrastructure.disk_space import require_free_space
from modules.llm_platform.infrastructure.private_files import PRIVATE_FILE, make_private_folder

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
                values = [
                    value
                    for each in some
                    for value in _row(each, now)
                ]
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
