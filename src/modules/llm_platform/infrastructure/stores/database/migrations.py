"""Create and change the tables in PostgreSQL for `llm-platform store migrate`.

The tables are in the schema `llm_platform`. A migration that was released never changes. A change is a new migration.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from modules.llm_platform.infrastructure.stores.database.postgres import (
    DatabaseError,
    NewerTablesError,
    connect,
    read_reason,
)
from modules.llm_platform.infrastructure.stores.database.research_schema import (
    ADD_ANSWER,
    ADD_CLIENT,
    ADD_FINISH,
    ADD_THREAD,
    ADD_TRACEPARENT,
    ADD_UNCLEAN_ENDS,
    CASCADE_POSTGRES,
    OWN_THREAD_POSTGRES,
    SCHEMA,
)
from modules.llm_platform.infrastructure.stores.database.watch_schema import ADD_TOTALS, DROP_DUE_AT
from modules.llm_platform.infrastructure.stores.database.watch_schema import SCHEMA as WATCH_SCHEMA

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection

COMMAND: Final = "llm-platform store migrate"
NEEDS_RIGHTS: Final = "the user of DATABASE_URL needs the right to create a schema and tables"
LOCK: Final = 7_268_411_033  # number of the advisory lock: one migration at a time
TRIES: Final = 3  # a migration may wait for a transaction of a running server that waits for it
NUMBER: Final = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
_PREPARE: Final = (
    "CREATE SCHEMA IF NOT EXISTS llm_platform",
    """
    CREATE TABLE IF NOT EXISTS llm_platform.migration (
        version integer PRIMARY KEY,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
)
# Version 1 is the first tuple. `outcome.digest` is the SHA-256 of stage, tenant and id, since an index takes at most 2,704
# bytes of a key. Ids are bytes, since `text` takes no NUL and no lone surrogate.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE llm_platform.about (single boolean PRIMARY KEY CHECK (single), id text NOT NULL, probed_at timestamptz)",
        "INSERT INTO llm_platform.about (single, id) VALUES (true, replace(gen_random_uuid()::text, '-', ''))",
        """
        CREATE TABLE llm_platform.outcome (
            digest bytea PRIMARY KEY,
            stage text NOT NULL,
            tenant bytea NOT NULL,
            request_id bytea NOT NULL,
            kind text NOT NULL,
            body bytea NOT NULL,
            request_sha256 text NOT NULL,
            stored_at timestamptz NOT NULL DEFAULT clock_timestamp()
        )
        """,
        "CREATE INDEX outcome_stored_at ON llm_platform.outcome (stored_at)",
        """
        CREATE TABLE llm_platform.research_entry (
            stage text NOT NULL,
            topic text NOT NULL,
            key text NOT NULL,
            made_at double precision NOT NULL,
            damaged boolean NOT NULL DEFAULT false,
            entry bytea NOT NULL,
            PRIMARY KEY (topic, stage, key)
        )
        """,
        "CREATE INDEX research_entry_made_at ON llm_platform.research_entry (made_at)",
        """
        CREATE TABLE llm_platform.research_lookup (
            stage text PRIMARY KEY,
            hits bigint NOT NULL,
            misses bigint NOT NULL
        )
        """,
    ),
    tuple(statement.format(number=NUMBER) for statement in SCHEMA),
    (
        """
        CREATE TABLE llm_platform.failed_request (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            stage text NOT NULL,
            tenant bytea NOT NULL,
            request_id bytea NOT NULL,
            stored_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            size integer NOT NULL,
            key bytea,
            headers text NOT NULL,
            value bytea NOT NULL
        )
        """,
        "CREATE INDEX failed_request_size ON llm_platform.failed_request (number) INCLUDE (size)",
        "CREATE INDEX failed_request_id ON llm_platform.failed_request USING hash (request_id)",
    ),
    (ADD_TRACEPARENT,),
    ADD_CLIENT,
    ADD_THREAD,
    (
        """
        CREATE TABLE llm_platform.spending (
            day text NOT NULL,
            account text NOT NULL,
            usd double precision NOT NULL,
            PRIMARY KEY (day, account)
        )
        """,
    ),
    OWN_THREAD_POSTGRES,
    CASCADE_POSTGRES,
    ADD_ANSWER,
    (ADD_FINISH,),
    (ADD_UNCLEAN_ENDS,),
    tuple(statement.format(number=NUMBER) for statement in WATCH_SCHEMA),
    ADD_TOTALS,
    DROP_DUE_AT,
)
LATEST: Final = len(MIGRATIONS)


async def read_schema_version(connection: Connection) -> int:
    found = await connection.execute("SELECT to_regclass('llm_platform.migration') IS NOT NULL")
    row = await found.fetchone()
    if row is None or not row[0]:
        return 0
    return await _read_version(connection)


async def check_not_newer(connection: Connection) -> None:
    """Raise NewerTablesError if a newer program has changed the tables since this connection was opened."""
    _check_not_newer(await _read_version(connection))


async def check_schema(connection: Connection) -> None:
    """Raise DatabaseError unless the tables have the version that this program uses."""
    from psycopg import Error

    try:
        version = await read_schema_version(connection)
    except Error as error:
        raise DatabaseError("PostgreSQL does not show the tables: check DATABASE_URL", read_reason(error)) from error
    if version == 0:
        raise DatabaseError(f"the database of DATABASE_URL has no tables of llm-platform: run `{COMMAND}`")
    if version < LATEST:
        raise DatabaseError(
            f"the tables in PostgreSQL have version {version} and this program needs {LATEST}: run `{COMMAND}`"
        )
    _check_not_newer(version)


async def write_probe(connection: Connection) -> None:
    """Update a row. Raises the error of the database if nothing can be written, as on a standby."""
    await connection.execute("UPDATE llm_platform.about SET probed_at = clock_timestamp()")


async def migrate(url: str) -> tuple[int, int]:
    """Bring the tables to the latest version in one transaction, and return the version before and after.

    Raises DatabaseError.
    """
    from psycopg import Error
    from psycopg.errors import DeadlockDetected, InsufficientPrivilege

    connection = await connect(url)
    try:
        for _ in range(TRIES - 1):
            with suppress(DeadlockDetected):
                return await _migrate(connection)
        return await _migrate(connection)
    except Error as error:
        remedy = NEEDS_RIGHTS if isinstance(error, InsufficientPrivilege) else "nothing was changed"
        raise DatabaseError(f"the tables could not be migrated: {remedy}", read_reason(error)) from error
    finally:
        await connection.close()


async def _migrate(connection: Connection) -> tuple[int, int]:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        before = await read_schema_version(connection)
        _check_not_newer(before)
        for statement in _PREPARE if before == 0 else ():
            await connection.execute(statement)
        for version in range(before + 1, LATEST + 1):
            for statement in MIGRATIONS[version - 1]:
                await connection.execute(statement)
            await connection.execute("INSERT INTO llm_platform.migration (version) VALUES (%s)", (version,))
    return before, LATEST


async def _read_version(connection: Connection) -> int:
    found = await connection.execute("SELECT coalesce(max(version), 0) FROM llm_platform.migration")
    row = await found.fetchone()
    return 0 if row is None else int(row[0])


def _check_not_newer(version: int) -> None:
    if version > LATEST:
        raise NewerTablesError(
            f"the tables in PostgreSQL have version {version}, which a newer llm-platform made; this one knows {LATEST}: "
            "upgrade it"
        )
