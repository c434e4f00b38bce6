"""The spending of a day in a Redis whose values another program has changed. services/ has a real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.infrastructure.redis_client import ForeignValueError, RedisClient, RedisConnection
from modules.llm_platform.infrastructure.stores.spending.redis import RedisSpendingStore

STORED = b"0x1F of somebody"


class ChangedRedis(RedisClient):
    """A Redis that answers with a given value, or raises an error."""

    def __init__(self, answer: list[Any] | Exception) -> None:
        super().__init__("redis://127.0.0.1:9")
        self._answer = answer

    async def call(self, operation: str, command: Callable[[RedisConnection], Awaitable[Any]]) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("answer", [[0, STORED], ForeignValueError()], ids=["no number", "another type"])
async def test_a_foreign_value_is_named_by_its_key(answer: list[Any] | Exception) -> None:
    """The error, which the log gets, has the key and the remedy. It does not repeat the value, which may be a secret."""
    client = ChangedRedis(answer)
    with pytest.raises(SpendingStoreError) as caught:
        await RedisSpendingStore(client).add("2026-01-31", {"all": 0.0}, {})
    await client.aclose()
    assert "llm-platform:spending:2026-01-31 has a value of another program: remove this key" in caught.value.message
    assert STORED.decode() not in caught.value.message
