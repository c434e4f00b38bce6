"""The stores of failed requests keep the port's promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest
from modules.llm_platform.infrastructure.sqlite.failed_request_store import SqliteFailedRequestStore
from modules.llm_platform.testing import FailedRequestStoreContract, MemoryFailedRequestStore
from modules.llm_platform.testing.failed_request_store import MAX_BYTES, TTL_DAYS
from modules.llm_platform.testing.outcome_store import Elapse


@pytest.fixture
def now() -> list[float]:
    return [1_000_000.0]


@pytest.fixture
def elapse(now: list[float]) -> Elapse:
    async def elapse(seconds: float) -> None:
        now[0] += seconds

    return elapse


class TestMemoryFailedRequestStore(FailedRequestStoreContract):
    """In one process, on a clock of its own."""

    @pytest.fixture
    def failed(self, now: list[float]) -> MemoryFailedRequestStore:
        return MemoryFailedRequestStore(clock=lambda: now[0])


class TestSqliteFailedRequestStore(FailedRequestStoreContract):
    """In a folder that does not exist yet, on a clock of its own."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "data" / "failed.sqlite3"

    @pytest.fixture
    def failed(self, file: Path, now: list[float]) -> SqliteFailedRequestStore:
        return SqliteFailedRequestStore(file, MAX_BYTES, TTL_DAYS, lambda: now[0])

    async def test_file_is_private_and_forgets(self, failed: SqliteFailedRequestStore, file: Path) -> None:
        """It is made by the first request, only the owner reads it, and a removed request leaves no bytes in it."""
        assert await failed.list() == []
        assert await failed.clean() == 0
        assert not file.exists()
        await failed.put(FailedRequest("search", "a", "", b"a very private question"))
        assert file.stat().st_mode & 0o077 == 0
        assert b"a very private question" in file.read_bytes()
        await failed.remove(await failed.list())
        assert b"a very private question" not in file.read_bytes()
