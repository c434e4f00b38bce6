"""The spending of a day in a real redis-server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.fakes.spending_store import SpendingStoreContract
from tests.support.redis_server import RedisServer

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.redis_client import RedisClient
from modules.llm_platform.infrastructure.stores.spending.redis import RedisSpendingStore

pytestmark = pytest.mark.services


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


class TestRedisSpendingStore(SpendingStoreContract):
    @pytest.fixture
    async def store(self, server: RedisServer) -> AsyncIterator[ISpendingStore]:
        client = RedisClient(server.url)
        yield RedisSpendingStore(client)
        await client.aclose()

    @pytest.fixture
    async def second(self, server: RedisServer) -> AsyncIterator[ISpendingStore]:
        client = RedisClient(server.url)
        yield RedisSpendingStore(client)
        await client.aclose()

    async def test_redis_away_is_an_error(self, server: RedisServer, store: ISpendingStore) -> None:
        """The budget is then counted in the process alone."""
        server.kill()
        with pytest.raises(SpendingStoreError):
            await store.add("2026-01-31", {"all": 1.0}, {})
