"""Watched questions in PostgreSQL, which the servers of several machines share. Times come from the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from modules.llm_platform.domain.dtos.watch_dtos import NewWatch, Watch
from modules.llm_platform.domain.exceptions import StoreUnavailableError
from modules.llm_platform.infrastructure.stores.database.migrations import check_not_newer
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result, operation
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.database.postgres_operations import execute, lock_owner
from modules.llm_platform.infrastructure.stores.watches.sql import SqlWatchStore, insert_watch

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection


class PostgresWatchStore(SqlWatchStore):
    """Watched questions in the tables `llm_platform.watch…`. The caller closes `database`.

    Each write finds out whether a newer program has changed the tables, and raises StoreError then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation()
    def add(self, watch: NewWatch, max_watches: int) -> Operation[Watch | None]:
        yield from lock_owner("watch", watch.owner)  # others may add a watch of the owner at the same time
        return (yield from insert_watch(watch, max_watches))

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        async def work(connection: Connection) -> Result:
            async with connection.transaction():
                result = await execute(connection, make())
                # After the statements: a migration waits for the locks that they hold until the end of the transaction.
                await check_not_newer(connection)
                return result

        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise StoreUnavailableError(str(error), reason=error.reason) from error
