"""Failed requests in PostgreSQL, which the workers of several machines share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore
from modules.llm_platform.infrastructure.postgres.pool import Database, DatabaseError
from modules.llm_platform.infrastructure.sqlite.failed_request_store import content_of, key_of, request_of

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.postgres.pool import Connection

Result = TypeVar("Result")

DAY_S: Final = 86_400
_DELETE_EARLIER: Final = """
DELETE FROM llm_platform.failed_request WHERE stage = %s AND tenant = %s AND request_id = %s
"""
_KEEP: Final = """
INSERT INTO llm_platform.failed_request (stage, tenant, request_id, size, key, headers, value)
VALUES (%s, %s, %s, %s, %s, %s, %s)
"""
_TRIM: Final = """
DELETE FROM llm_platform.failed_request WHERE number <= (
    SELECT max(number) FROM (
        SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM llm_platform.failed_request
    ) AS newest WHERE total > %s
)
"""
_LIST: Final = """
SELECT stage, request_id, tenant, value, key, headers, extract(epoch FROM stored_at) FROM llm_platform.failed_request
WHERE stored_at >= clock_timestamp() - make_interval(secs => %s) ORDER BY number
"""
_REMOVE: Final = f"{_DELETE_EARLIER} AND extract(epoch FROM stored_at)::float = %s"
_CLEAN: Final = "DELETE FROM llm_platform.failed_request WHERE stored_at < clock_timestamp() - make_interval(secs => %s)"


class PostgresFailedRequestStore(IFailedRequestStore):
    """Requests in the table `llm_platform.failed_request`: at most `max_bytes`, each for `ttl_days`."""

    def __init__(self, database: Database, max_bytes: int, ttl_days: float) -> None:
        self._database, self._max_bytes, self._ttl_s = database, max_bytes, ttl_days * DAY_S

    async def put(self, request: FailedRequest) -> None:
        size, *content = content_of(request)
        if size > self._max_bytes:
            return

        async def write(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(_DELETE_EARLIER, key_of(request))
                await connection.execute(_KEEP, (*key_of(request), size, *content))
                await connection.execute(_TRIM, (self._max_bytes,))

        await self._run(write)

    async def list(self) -> list[FailedRequest]:
        async def read(connection: Connection) -> list[FailedRequest]:
            return list(map(request_of, await (await connection.execute(_LIST, (self._ttl_s,))).fetchall()))

        return await self._run(read)

    async def remove(self, requests: Sequence[FailedRequest]) -> None:
        async def delete(connection: Connection) -> None:
            for each in requests:
                await connection.execute(_REMOVE, (*key_of(each), each.stored_at))

        await self._run(delete)

    async def clean(self) -> int:
        async def delete(connection: Connection) -> int:
            return int((await connection.execute(_CLEAN, (self._ttl_s,))).rowcount)

        return await self._run(delete)

    async def _run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise OutcomeStoreError(str(error)) from error
