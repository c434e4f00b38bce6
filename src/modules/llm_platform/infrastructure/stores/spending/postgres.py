"""The spending of a day in PostgreSQL, which all servers and workers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.stores.database.postgres import Database, DatabaseError

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.stores.database.postgres import Connection

_ADD: Final = """
INSERT INTO llm_platform.spending AS stored (day, account, usd) VALUES (%(day)s, %(account)s, %(seen)s + %(usd)s)
ON CONFLICT (day, account) DO UPDATE SET usd = greatest(stored.usd, %(seen)s) + %(usd)s
RETURNING usd
"""


class PostgresSpendingStore(ISpendingStore):
    """Sums in the table `llm_platform.spending`. The caller closes `database`.

    An addition whose connection breaks at its end may count twice: a budget may be spent early, and is not exceeded.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        async def work(connection: Connection) -> Mapping[str, float]:
            found = await connection.execute("SELECT account, usd FROM llm_platform.spending WHERE day = %s", (day,))
            sums: dict[str, float] = dict(await found.fetchall())
            is_changed = any(usd or sums.get(account, 0.0) < seen.get(account, 0.0) for account, usd in amounts.items())
            return await add_all(connection) if is_changed else {account: sums.get(account, 0.0) for account in amounts}

        async def add_all(connection: Connection) -> Mapping[str, float]:
            sums = {}
            async with connection.transaction():
                # The same order in all servers, so that two do not wait for each other's rows.
                for account in sorted(amounts):
                    added = {"day": day, "account": account, "usd": amounts[account], "seen": seen.get(account, 0.0)}
                    row = await (await connection.execute(_ADD, added)).fetchone()
                    sums[account] = row[0] if row else 0.0
                await connection.execute("DELETE FROM llm_platform.spending WHERE day < %s", (day,))
            return sums

        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise SpendingStoreError(
                f"the spending of the day is not in PostgreSQL: {error}", reason=error.reason
            ) from error
