"""The spending of a day in one SQLite file, which all processes of a machine share."""

import asyncio
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.files.private_files import make_private_folder, open_privately

BUSY_TIMEOUT_S: Final = 2.0  # another process writes
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spending (
    day TEXT NOT NULL, account TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (day, account)
)
"""
_ADD: Final = """
INSERT INTO spending (day, account, usd) VALUES (:day, :account, :seen + :usd)
ON CONFLICT (day, account) DO UPDATE SET usd = max(usd, :seen) + :usd
"""


class SqliteSpendingStore(ISpendingStore):
    """Opens the file for each call, in a thread: calls are as rare as calls of language models."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        try:
            return await asyncio.to_thread(self._add, day, dict(amounts), dict(seen))
        except (sqlite3.Error, OSError) as error:
            raise SpendingStoreError(f"{self._file.name} in the data folder cannot be used: {error}") from error

    def _add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        if not self._file.exists():
            make_private_folder(self._file.parent)
            os.close(open_privately(str(self._file), os.O_RDWR | os.O_CREAT))
        with closing(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT_S)) as database, database:
            database.execute(_SCHEMA)
            sums = self._sum_up(database, day)
            added = [
                {"day": day, "account": account, "usd": usd, "seen": seen.get(account, 0.0)}
                for account, usd in amounts.items()
                if usd or sums.get(account, 0.0) < seen.get(account, 0.0)
            ]
            if added:
                database.executemany(_ADD, added)
                database.execute("DELETE FROM spending WHERE day < ?", (day,))
                sums = self._sum_up(database, day)
        return {account: sums.get(account, 0.0) for account in amounts}

    def _sum_up(self, database: sqlite3.Connection, day: str) -> Mapping[str, float]:
        return dict(database.execute("SELECT account, usd FROM spending WHERE day = ?", (day,)).fetchall())
