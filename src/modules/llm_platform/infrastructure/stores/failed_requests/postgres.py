"""Failed requests in PostgreSQL, which the workers of several machines share. Times come from the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError
from modules.llm_platform.infrastructure.stores.database.postgres_operations import execute
from modules.llm_platform.infrastructure.stores.failed_requests.sql import SqlFailedRequestStore

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection


class PostgresFailedRequestStore(SqlFailedRequestStore):
    """Requests in the table `llm_platform.failed_request`."""

    def __init__(self, database: Database, max_bytes: int, ttl_days: float) -> None:
        super().__init__(max_bytes, ttl_days)
        self._database = database

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        async def work(connection: Connection) -> Result:
            async with connection.transaction():
                return await execute(connection, make())

        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise OutcomeStoreError(str(error), reason=error.reason) from error
