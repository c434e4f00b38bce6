"""Background runs in PostgreSQL, which the servers of several machines share. Times come from the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from modules.llm_platform.domain.exceptions import StoreUnavailableError
from modules.llm_platform.infrastructure.stores.database.migrations import check_not_newer
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.database.postgres_operations import execute
from modules.llm_platform.infrastructure.stores.research_jobs.sql import SqlResearchJobStore

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection


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
