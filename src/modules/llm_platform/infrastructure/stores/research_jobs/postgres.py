"""Background runs in PostgreSQL, which the servers of several machines share. Times are those of the database."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.exceptions import StoreUnavailableError
from modules.llm_platform.infrastructure.stores.database.migrations import LATEST, check_not_newer
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.research_jobs.sql import SqlResearchJobStore

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection

_MARKS: Final = {  # placeholders of statements
    ":now": "extract(epoch FROM clock_timestamp())::double precision",
    "{skip}": "FOR UPDATE SKIP LOCKED",
    "{known}": f"(SELECT max(version) FROM llm_platform.migration) <= {LATEST}",  # noqa: S608  constants
    "{seconds}": "extract(epoch FROM stored_at)::double precision",
    "{stored_at}": "clock_timestamp()",
}
_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")  # the look-behind keeps types out: ::bigint


class PostgresResearchJobStore(SqlResearchJobStore):
    """Research runs in the tables `llm_platform.research_job…`. The caller closes `database`.

    Each write finds out whether a newer program has changed the tables, and raises StoreError then: a server that was not yet
    replaced would store runs that the newer ones misread.
    """

    def __init__(self, database: Database, ttl_days: float) -> None:
        super().__init__(ttl_days)
        self._database = database

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        async def work(connection: Connection) -> Result:
            async with connection.transaction():
                result = await execute(connection, make())
                # After the statements: a migration waits for the locks that they hold until the end of the transaction.
                await check_not_newer(connection)
                return result

        return await self._run(work)

    async def _run_statement(self, make: Callable[[], Operation[Result]]) -> Result:
        result = await self._run(lambda connection: execute(connection, make()))
        if result is None:  # the statement has changed nothing: this or another condition does not hold
            await self._run(check_not_newer)
        return result

    async def _read(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        async def work(connection: Connection) -> Result:
            async with connection.transaction():
                return await execute(connection, make())

        return await self._run(work)

    async def _run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise StoreUnavailableError(str(error)) from error


async def execute(connection: Connection, operation: Operation[Result]) -> Result:
    """Run an operation. An error that it raises, such as LeaseLostError, rolls the transaction back."""
    try:
        statement = next(operation)
        while True:
            found = await connection.execute(_translated(statement.sql).encode(), statement.parameters)
            statement = operation.send(await found.fetchall() if found.description else [])
    except StopIteration as end:
        result: Result = end.value
        return result


@lru_cache(64)
def _translated(sql: str) -> str:
    """Return the statement with the parameters of psycopg; rows that another worker has locked are left to it."""
    for mark, meaning in _MARKS.items():
        sql = sql.replace(mark, meaning)
    return _PARAMETER.sub(r"%(\1)s", sql)
