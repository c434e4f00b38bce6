"""Run operations of SQL over a connection to PostgreSQL, with the parameters of psycopg."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from modules.llm_platform.infrastructure.stores.database.migrations import LATEST
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result, Statement

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection

_MARKS: Final = {  # placeholders of statements
    ":now": "extract(epoch FROM clock_timestamp())::double precision",
    "{skip}": "FOR UPDATE SKIP LOCKED",
    "{known}": f"(SELECT max(version) FROM llm_platform.migration) <= {LATEST}",  # noqa: S608  constants
    "{seconds}": "extract(epoch FROM stored_at)::double precision",
    "{stored_at}": "clock_timestamp()",
}
_LOCK_OWNER: Final = "SELECT pg_advisory_xact_lock(hashtext(:table), hashtext(:owner))"
_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")  # the look-behind keeps types out: ::bigint


async def execute(connection: Connection, operation: Operation[Result]) -> Result:
    """Run an operation. An error that it raises, such as LeaseLostError, rolls the transaction back."""
    try:
        statement = next(operation)
        while True:
            found = await connection.execute(_translate(statement.sql).encode(), statement.parameters)
            statement = operation.send(await found.fetchall() if found.description else [])
    except StopIteration as end:
        result: Result = end.value
        return result


def lock_owner(table: str, owner: str) -> Operation[None]:
    """Lock out other transactions that lock this owner in this table, until the end of the transaction.

    The statements after it see what those transactions stored.
    """
    yield Statement(_LOCK_OWNER, {"table": table, "owner": owner})


@lru_cache(64)
def _translate(sql: str) -> str:
    """Return the statement with the parameters of psycopg. Rows that another worker has locked are skipped."""
    for mark, meaning in _MARKS.items():
        sql = sql.replace(mark, meaning)
    return _PARAMETER.sub(r"%(\1)s", sql)
