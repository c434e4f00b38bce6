"""Background runs in PostgreSQL, which the servers of several machines share. Times come from the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.dtos.research_job_dtos import NewResearchJob, ResearchJob
from modules.llm_platform.domain.exceptions import StoreUnavailableError
from modules.llm_platform.infrastructure.stores.database.migrations import check_not_newer
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result, operation
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.database.postgres_operations import execute, lock_owner
from modules.llm_platform.infrastructure.stores.research_jobs.sql import SqlResearchJobStore, insert_queued

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection


ADDED_AT_ONCE: Final = 100  # runs of one owner that all servers add at the same time: each server has a few connections


class PostgresResearchJobStore(SqlResearchJobStore):
    """Research runs in the tables `llm_platform.research_job…`. The caller closes `database`.

    Each write finds out whether a newer program has changed the tables, and raises StoreError then: a server that was not yet
    replaced would store runs that the newer ones misread.
    """

    def __init__(self, database: Database, ttl_days: float) -> None:
        super().__init__(ttl_days)
        self._database = database

    async def add(self, job: NewResearchJob, max_queued: int) -> ResearchJob | None:
        """Add a run with one statement, or in turn with the other servers where a statement may see too few queued runs."""
        added = await super().add(job, max_queued - ADDED_AT_ONCE)
        return added or await self._add_in_turn(job, max_queued)

    @operation()
    def _add_in_turn(self, job: NewResearchJob, max_queued: int) -> Operation[ResearchJob | None]:
        yield from lock_owner("research_job", job.owner)
        return (yield from insert_queued(job, max_queued))

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
            raise StoreUnavailableError(str(error), reason=error.reason) from error
