"""The check of a SQLite file that nothing else opens while the doctor looks."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.infrastructure.stores.database.sqlite import open_for_reading

CHECK_S: Final = 10.0  # a file of some gigabytes is read in part
STEPS_BETWEEN_LOOKS: Final = 10_000  # instructions of SQLite, a few milliseconds
SOUND: Final = "ok"  # SQLite's answer for a file without damage


class SqliteFileCheck(IHealthProbe):
    """Checks `file` for damage, without changing it. `loss` ends the error message: it says what is lost with the file."""

    def __init__(self, file: Path, loss: str) -> None:
        self.name = file.name
        self._file, self._loss = file, loss

    async def ping(self) -> str:
        """Return an empty string if no damage is found within CHECK_S. Raises StoreError for a damaged or unreadable file."""
        try:
            found = await asyncio.to_thread(self._look_for_damage)
        except (sqlite3.Error, OSError) as error:
            found = getattr(error, "strerror", None) or str(error)
        if found != SOUND:
            raise StoreError(
                f"{self._file} is damaged or cannot be read ({found}): stop what uses it, then restore a backup, or move it "
                f"away and a new one is made; {self._loss}"
            )
        return ""

    def _look_for_damage(self) -> str:
        until = time.monotonic() + CHECK_S
        with closing(open_for_reading(self._file)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
            try:
                (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                return SOUND
        return str(found).splitlines()[-1]
