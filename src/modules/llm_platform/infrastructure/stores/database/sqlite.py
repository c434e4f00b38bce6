"""A SQLite file that several processes of a machine use at once."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from modules.llm_platform.infrastructure.files import private_files
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result

SCHEMA_OF_TABLES: Final = "llm_platform."  # SQLite has none
_MARKS: Final = {  # placeholders of statements
    SCHEMA_OF_TABLES: "",
    "{skip}": "",
    "{known}": "true",
    "{seconds}": "stored_at",
    "{stored_at}": ":now",
}
BUSY_WAIT_S: Final = 10.0  # another process writes
BUSY_STEP_S: Final = 0.01
INDEX_BYTES: Final = 32 * 1024  # the smallest index of a write-ahead log
WAL_BYTES: Final = 16 * 1024 * 1024  # size of the write-ahead log after a checkpoint


def open_shared_file(file: Path) -> sqlite3.Connection:
    """Return a connection in autocommit mode. The file is created if it does not exist.

    A commit survives the end of the process, but not a power cut. Raises sqlite3.Error and OSError, the latter for a disk that
    is almost full, too.
    """
    private_files.make_private_folder(file.parent)
    private_files.require_free_space(file.parent)
    file.touch(private_files.PRIVATE_FILE)  # SQLite makes its other files with the same rights
    with ExitStack() as undo:
        connection = sqlite3.connect(file, timeout=BUSY_WAIT_S, isolation_level=None)
        undo.callback(connection.close)
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        undo.pop_all()
    return connection


def open_for_reading(file: Path) -> sqlite3.Connection:
    """Return a connection that reads the file although its disk is full. May raise sqlite3.Error.

    If no other process has the file open, the shared index of the write-ahead log is missing. This connection then has
    the index in memory, and the file for itself until it is closed.
    """
    index = file.with_name(f"{file.name}-shm")
    has_index = index.exists() and index.stat().st_size >= INDEX_BYTES
    with ExitStack() as undo:
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_WAIT_S, isolation_level=None
        )
        undo.callback(connection.close)
        if not has_index:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        undo.pop_all()
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, is_read: bool = False) -> Iterator[None]:
    """Run the block in a transaction that locks out other writers. A transaction that only reads locks out nobody."""
    connection.execute("BEGIN" if is_read else "BEGIN IMMEDIATE")
    with connection:  # commits, or rolls back after an error
        yield


def execute(connection: sqlite3.Connection, operation: Operation[Result], now: float) -> Result:
    """Run an operation of statements. `now` is the time in seconds since 1970."""
    try:
        statement = next(operation)
        while True:
            sql = statement.sql
            for mark, meaning in _MARKS.items():
                sql = sql.replace(mark, meaning)
            rows = connection.execute(sql, {"now": now, **statement.parameters}).fetchall()
            statement = operation.send(rows)
    except StopIteration as end:
        result: Result = end.value
        return result


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Set WAL mode. When several processes make the file at once, SQLite fails in all but one without waiting."""
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
