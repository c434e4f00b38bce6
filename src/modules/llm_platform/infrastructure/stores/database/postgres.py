"""Connect to PostgreSQL with psycopg 3. The stores of one platform share the connections.

A database that cannot be used costs each caller at most POSTGRES_CONNECT_TIMEOUT_S or CALL_TIMEOUT_S. Within RETRY_S of a failed
connection attempt, there is no other. A database that works again is used without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.tracing import DatabaseCall, database_call
from modules.llm_platform.domain.telemetry.metrics import POSTGRES_UP

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
    Pool: TypeAlias = AsyncConnectionPool[Connection]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

POSTGRESQL: Final = "postgresql"  # The name in traces.
POOL_SIZE: Final = 4  # Connections of one process.
POSTGRES_CONNECT_TIMEOUT_S: Final = 5.0
CALL_TIMEOUT_S: Final = 10.0
RETRY_S: Final = 1.0  # The pause between attempts to connect to a database that cannot be used.
MAX_REASON_CHARS: Final = 200
ROLLED_BACK: Final = "40"  # The class of SQLSTATE for a deadlock, or a conflict with another transaction.
CLOSING: Final = ("08", "57P")  # The SQLSTATE classes of a closing connection, and of a server that stops.
NO_CONNECTION: Final = (
    f"PostgreSQL did not answer within {POSTGRES_CONNECT_TIMEOUT_S:g} s: check that it runs, and DATABASE_URL"
)
BUSY: Final = f"PostgreSQL is busy: none of {POOL_SIZE} connections was free within {POSTGRES_CONNECT_TIMEOUT_S:g} s"
CLOSED: Final = "the connections to PostgreSQL are closed"
UNREACHABLE: Final = "PostgreSQL cannot be used: check that it runs, and DATABASE_URL"
REFUSED: Final = "PostgreSQL refused a statement: run `llm-platform doctor`, or set LOG_LEVEL and read the log"
READ_ONLY: Final = "PostgreSQL is read-only: let DATABASE_URL name the primary"
# A host in a reason. After a mistake in DATABASE_URL, it has a part of the password.
_HOST: Final = re.compile(r"host(?: name)? (?:'.*'|\"[^\"]*\")")
# With these options of libpq, a server that vanished is noticed after this time and not after minutes.
_LIVENESS: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class DatabaseError(Exception):
    """The database cannot be used. Clients see the message: it has the remedy, and no words of the database.

    `reason` has the words of the database, for the log and for operators: they may name its users, tables and addresses.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NewerTablesError(DatabaseError):
    """A newer program has changed the tables."""


class Database:
    """A pool of connections for one event loop. The first call opens it.

    - `url` is DATABASE_URL.
    - `check` raises DatabaseError for a database that is not prepared.
    - `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        check: Callable[[Connection], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
        metrics: IMetrics = NO_METRICS,
    ) -> None:
        self._url = url
        self._check = check
        self._clock = clock
        self._metrics = metrics
        self._is_read_only = False  # It becomes True when the database refuses a write.
        self._logged: tuple[str, str] | None = None  # The last logged failure; None after a call that succeeded.
        self._lock = asyncio.Lock()
        self._pool: Pool | None = None
        self._failure: DatabaseError | None = None
        self._failed_at = 0.0
        self._checking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[Any]] = (
            set()
        )  # The running calls, with those that no caller waits for any more.
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[Result]], timeout_s: float = CALL_TIMEOUT_S) -> Result:
        """Run `work` on a connection in autocommit mode. If the connection was broken, run it once more on a new one.

        `work` must have the same effect if it is repeated. Raises DatabaseError.
        """
        with database_call(POSTGRESQL) as call:
            named = work if call is None else partial(_run_named, call, work)
            try:
                result = await self._run(partial(self._observe, named), timeout_s)
            except DatabaseError as error:
                self._note_failure(error.__cause__)
                self._log_failure(error)
                raise
        self._logged = None
        self._metrics.set(POSTGRES_UP, 0 if self._is_read_only else 1)
        return result

    async def aclose(self) -> None:
        """Close the connections. Later calls raise DatabaseError. A second `aclose` does nothing."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await self._discard(self._pool)

    async def _observe(self, work: Callable[[Connection], Awaitable[Result]], connection: Connection) -> Result:
        """Return the result of the work.

        After a refused write, ask whether the database accepts writes again. A read that succeeds does not show that.
        """
        result = await work(connection)
        if self._is_read_only:
            row = await (await connection.execute("SELECT current_setting('transaction_read_only')")).fetchone()
            self._is_read_only = row is not None and row[0] == "on"
        return result

    def _note_failure(self, cause: BaseException | None) -> None:
        """Record a failure of the database. A statement that is refused for its content is not one."""
        from psycopg.errors import DataError, IntegrityError, ReadOnlySqlTransaction

        self._is_read_only = self._is_read_only or isinstance(cause, ReadOnlySqlTransaction)
        if not self._closed and not isinstance(cause, DataError | IntegrityError):
            self._metrics.set(POSTGRES_UP, 0)

    def _log_failure(self, error: DatabaseError) -> None:
        """Log a failure once, until a call succeeds or fails otherwise."""
        failure = (str(error), error.reason)
        if not self._closed and failure != self._logged:
            self._logged = failure
            log.warning("a call of PostgreSQL failed", extra={"error": str(error), "reason": error.reason})

    async def _run(self, work: Callable[[Connection], Awaitable[Result]], timeout_s: float) -> Result:
        was_open = self._pool is not None
        try:
            return await self._run_once(work, timeout_s)
        except _RepeatableError as error:
            if not was_open:
                raise _copy_error(error) from error
        try:
            return await self._run_once(work, timeout_s)
        except _RepeatableError as error:
            raise _copy_error(error) from error

    async def _run_once(self, work: Callable[[Connection], Awaitable[Result]], timeout_s: float) -> Result:
        """Run `work` once.

        The connections of other callers are closed only if they cannot be used either. A refused statement does not show that.
        """
        from psycopg import Error
        from psycopg_pool import PoolTimeout

        pool = await self._open_pool()

        async def call() -> Result:
            async with pool.connection() as connection:
                try:
                    return await work(connection)
                except Error as error:
                    if connection.closed or _is_of_connection(error):
                        raise _ConnectionLostError(UNREACHABLE, read_reason(error)) from error
                    raise

        try:
            return await self._run_within(call(), timeout_s)
        except PoolTimeout as error:
            await self._check_pool(pool)
            raise DatabaseError(BUSY) from error
        except TimeoutError as error:
            self._check_soon(pool)
            raise DatabaseError(
                f"PostgreSQL did not answer within {timeout_s:g} s: try again, or check DATABASE_URL"
            ) from error
        except (_ConnectionLostError, NewerTablesError):
            await self._discard(pool)
            raise
        except Error as error:
            if _is_of_connection(error):
                # The pool was closed in the meantime.
                raise _ConnectionLostError(UNREACHABLE, read_reason(error)) from error
            await self._replace_after(error, pool)
            kind = _RepeatableError if (error.sqlstate or "").startswith(ROLLED_BACK) else DatabaseError
            raise kind(_describe_refusal(error), read_reason(error)) from error

    async def _replace_after(self, error: Exception, pool: Pool) -> None:
        """Replace the connections if the refusal is about the database and not about one statement."""
        from psycopg.errors import InvalidSchemaName, ReadOnlySqlTransaction, UndefinedColumn, UndefinedTable

        if isinstance(error, (InvalidSchemaName, UndefinedColumn, UndefinedTable)):
            await self._discard(pool)  # The next call checks the version of the tables.
        elif isinstance(error, ReadOnlySqlTransaction):
            await pool.drain()  # Running calls end, and the next ones find the new primary.

    async def _check_pool(self, pool: Pool) -> None:
        """Discard the pool if a new connection cannot be used, and raise DatabaseError with the reason."""
        try:
            await self._run_within(self._try_connection(), POSTGRES_CONNECT_TIMEOUT_S)
        except TimeoutError as error:
            await self._discard(pool)
            raise DatabaseError(NO_CONNECTION) from error
        except DatabaseError as error:
            await self._discard(pool)
            raise _copy_error(error) from error

    def _check_soon(self, pool: Pool) -> None:
        """Check the pool in the background after a statement that took too long. It may only have waited for a lock."""
        if self._pool is pool and (self._checking is None or self._checking.done()):
            self._checking = asyncio.create_task(self._check_pool(pool))
            self._tasks.add(self._checking)
            self._checking.add_done_callback(self._forget)

    async def _run_within(self, call: Awaitable[Result], timeout_s: float) -> Result:
        """Return the result of the call. Raises TimeoutError after `timeout_s`.

        A cancelled call is not waited for, because psycopg waits for a server that is stopped.
        """
        task = asyncio.ensure_future(call)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait((task,), timeout=timeout_s)
        finally:
            is_done = task.done()
            task.cancel()
        if not is_done:
            raise TimeoutError
        return task.result()

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio warns of an exception that is not retrieved, and the caller may be gone.

    async def _open_pool(self) -> Pool:
        if self._pool is not None:
            return self._pool
        async with self._lock:
            if self._closed:
                raise DatabaseError(CLOSED)
            if self._pool is None:
                if self._failure is not None and self._clock() < self._failed_at + RETRY_S:
                    raise _copy_error(self._failure) from self._failure
                self._pool = await self._open()
            return self._pool

    async def _open(self) -> Pool:
        """Open a pool after one connection has shown that the database can be used. A pool does not say why it cannot."""
        try:
            await self._run_within(self._try_connection(), POSTGRES_CONNECT_TIMEOUT_S)
        except TimeoutError:
            self._failure = DatabaseError(NO_CONNECTION)
        except DatabaseError as error:
            self._failure = error
        else:
            self._failure = None
            return await self._make_pool()
        self._failed_at = self._clock()
        raise _copy_error(self._failure) from self._failure

    async def _try_connection(self) -> None:
        connection = await connect(self._url)
        try:
            await self._check(connection)
        finally:
            await connection.close()

    async def _make_pool(self) -> Pool:
        from psycopg_pool import AsyncConnectionPool

        mute_pool_log()
        pool: Pool = AsyncConnectionPool(
            self._url,
            kwargs=make_connection_options(),
            min_size=0,
            max_size=POOL_SIZE,
            open=False,
            timeout=POSTGRES_CONNECT_TIMEOUT_S,
            reconnect_timeout=POSTGRES_CONNECT_TIMEOUT_S,
        )
        await pool.open()
        return pool

    async def _discard(self, pool: Pool | None) -> None:
        """Close a pool. The next call opens another one."""
        if self._pool is pool and pool is not None:
            self._pool = None
            await pool.close()


def mute_pool_log() -> None:
    """Silence psycopg_pool, which logs each use and each attempt to connect. The platform reports the same once."""
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


class _NamingConnection:
    """A connection whose first statement names the span of the call by its first word."""

    def __init__(self, connection: Connection, call: DatabaseCall) -> None:
        self._connection = connection
        self._name: Callable[[str], object] | None = call.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: str | bytes, *parameters: Any, **options: Any) -> Any:
        if self._name is not None:
            text = statement.decode() if isinstance(statement, bytes) else statement
            self._name(text.split(maxsplit=1)[0].upper())
            self._name = None
        return await self._connection.execute(statement, *parameters, **options)


async def _run_named(
    call: DatabaseCall, work: Callable[[Connection], Awaitable[Result]], connection: Connection
) -> Result:
    return await work(cast("Connection", _NamingConnection(connection, call)))


class _RepeatableError(DatabaseError):
    """The call had no effect, and may succeed if it is repeated."""


class _ConnectionLostError(_RepeatableError):
    """The connection broke during a call."""


def _copy_error(error: DatabaseError) -> DatabaseError:
    """Return a new DatabaseError with the same message and reason, for a caller of its own."""
    return DatabaseError(str(error), error.reason)


def _is_of_connection(error: Exception) -> bool:
    """Return whether the connection failed, or the server closes it, and the error is not the answer to a statement."""
    from psycopg import InterfaceError, OperationalError

    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(CLOSING)


async def connect(url: str) -> Connection:
    from psycopg import AsyncConnection, Error

    try:
        return await AsyncConnection.connect(url, **make_connection_options())
    except Error as error:
        raise DatabaseError(UNREACHABLE, read_reason(error)) from error


def make_connection_options() -> dict[str, Any]:
    """Return options of a connection. Prepared statements are off, because poolers such as PgBouncer may not support them."""
    return {"autocommit": True, "prepare_threshold": None, "application_name": "llm-platform", **_LIVENESS}


def _describe_refusal(error: Exception) -> str:
    """Return the message for a statement that failed."""
    from psycopg.errors import ReadOnlySqlTransaction

    return READ_ONLY if isinstance(error, ReadOnlySqlTransaction) else REFUSED


def read_reason(error: Exception) -> str:
    """Return the first line of the message of psycopg, libpq or the server, without password and host.

    It may name a user, a database or a table, so it is not for clients.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _HOST.sub("the host", lines[0].rpartition(" failed: ")[2])[:MAX_REASON_CHARS]
