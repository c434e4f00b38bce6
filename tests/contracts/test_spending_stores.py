"""SQLite as a spending store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.spending_store import SpendingStoreContract

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.stores.spending.sqlite import SqliteSpendingStore


class TestSqliteSpendingStore(SpendingStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ISpendingStore:
        return SqliteSpendingStore(tmp_path / "data" / "spending.sqlite3")

    @pytest.fixture
    def second(self, tmp_path: Path) -> ISpendingStore:
        return SqliteSpendingStore(tmp_path / "data" / "spending.sqlite3")


async def test_damaged_file_is_an_error(tmp_path: Path) -> None:
    """It names the file, not its content."""
    file = tmp_path / "spending.sqlite3"
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(SpendingStoreError, match=r"spending\.sqlite3 in the data folder"):
        await SqliteSpendingStore(file).add("2026-01-31", {"all": 1.0}, {})


async def test_file_belongs_to_its_owner(tmp_path: Path) -> None:
    """Only the owner can read the labels of the API keys."""
    file = tmp_path / "data" / "spending.sqlite3"
    await SqliteSpendingStore(file).add("2026-01-31", {"all": 1.0}, {})
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
