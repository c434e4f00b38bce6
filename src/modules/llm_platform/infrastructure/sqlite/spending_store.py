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
from modules.llm_platform.infrastructure.files.private_files import make_private_folder, private_opener

BUSY_TIMEOUT_S: Final = 2.0  # another process writes
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spending (
    day TEXT NOT NULL, account TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (day, account)
)
"""
_ADD: Final = """
INSERT INTO spending (day, account, usd) VALUES (?, ?, ?)
ON CONFLICT (day, account) DO UPDATE SET usd = usd + excluded.usd
"""


class SqliteSpendingStore(ISpendingStore):
    """Opens the file for each call, in a thread: calls are as rare as those of language models."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def add(self, day: str, amounts: Mapping[str, float]) -> Mapping[str, float]:
        try:
            return await asyncio.to_thread(self._add, day, dict(amounts))
        except (sqlite3.Error, OSError) as error:
            raise SpendingStoreError(f"{self._file.name} in the data folder cannot be used: {error}") from error

    def _add(self, day: str, amounts: Mapping[str, float]) -> Mapping[str, float]:
        if not self._file.exists():
            make_private_folder(self._file.parent)
            os.close(private_opener(str(self._file), os.O_RDWR | os.O_CREAT))
        with closing(sqlite3.connect(self._file, timeout=BUSY_TIMEOUT_S)) as database, database:
            database.execute(_SCHEMA)
            if added := [(day, account, usd) for account, usd in amounts.items() if usd]:
                database.executemany(_ADD, added)
                database.execute("DELETE FROM spending WHERE day < ?", (day,))
            sums = dict(database.execute("SELECT account, usd FROM spending WHERE day = ?", (day,)).fetchall())
        return {account: float(sums.get(account, 0.0)) for account in amounts}
