"""The stores of failed requests fulfil the contract of the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.failed_request_store import MAX_BYTES, TTL_DAYS, FailedRequestStoreContract, MemoryFailedRequestStore
from tests.support.clock import Clock

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest
from modules.llm_platform.infrastructure.stores.database.operations import Operation, Result
from modules.llm_platform.infrastructure.stores.failed_requests.sql import SqlFailedRequestStore
from modules.llm_platform.infrastructure.stores.failed_requests.sqlite import SqliteFailedRequestStore


class StatementLog(SqlFailedRequestStore):
    """Runs no statement, and lists them."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, TTL_DAYS)
        self.statements: list[str] = []

    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        work = make()
        try:
            while True:
                self.statements.append(next(work).sql)
        except StopIteration as end:
            result: Result = end.value
            return result


async def test_sizes_are_rarely_summed() -> None:
    """The store is trimmed at the first request of a process, and then after each hundredth of the limit."""
    store = StatementLog(1_000_000)
    for number in range(100):
        await store.put(FailedRequest("search", f"{number}", "", b"x" * 900))
    assert sum("sum(size)" in statement for statement in store.statements) == 10


class TestMemoryFailedRequestStore(FailedRequestStoreContract):
    """A store in one process with a manual clock."""

    @pytest.fixture
    def failed(self, clock: Clock) -> MemoryFailedRequestStore:
        return MemoryFailedRequestStore(clock=clock)


class TestSqliteFailedRequestStore(FailedRequestStoreContract):
    """A store in a new folder with a manual clock."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "data" / "failed.sqlite3"

    @pytest.fixture
    def failed(self, file: Path, clock: Clock) -> SqliteFailedRequestStore:
        return SqliteFailedRequestStore(file, MAX_BYTES, TTL_DAYS, clock)

    async def test_file_is_private_and_forgets(self, failed: SqliteFailedRequestStore, file: Path) -> None:
        """The first request creates the file, which only the owner can read. A removed request leaves no bytes in it."""
        assert await failed.list() == []
        assert await failed.clean() == 0
        assert not file.exists()
        await failed.put(FailedRequest("search", "a", "", b"a very private question"))
        assert file.stat().st_mode & 0o077 == 0
        assert b"a very private question" in file.read_bytes()
        await failed.remove(await failed.list())
        assert b"a very private question" not in file.read_bytes()
