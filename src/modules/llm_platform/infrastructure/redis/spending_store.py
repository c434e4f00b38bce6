"""The spending of a day in Redis, which all replicas share."""

from collections.abc import Mapping
from typing import Final

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.redis import client as redis_client

TTL_S: Final = 2 * 86_400


class RedisSpendingStore(ISpendingStore):
    """One hash for each day, account to dollars; Redis removes it after two days."""

    def __init__(self, client: redis_client.RedisClient) -> None:
        self._client = client

    async def add(self, day: str, amounts: Mapping[str, float]) -> Mapping[str, float]:
        key = f"{redis_client.KEY_PREFIX}spending:{day}"

        async def send(redis: redis_client.RedisConnection) -> list[object]:
            async with redis.pipeline(transaction=True) as pipeline:
                for account, usd in amounts.items():
                    pipeline.hincrbyfloat(key, account, usd)
                pipeline.expire(key, TTL_S)
                replies: list[object] = await pipeline.execute()
            return replies

        try:
            replies = await self._client.call("PIPELINE", send)
            return {account: float(str(reply)) for account, reply in zip(amounts, replies, strict=False)}
        except (redis_client.RedisUnavailableError, redis_client.ForeignValueError, ValueError) as error:
            raise SpendingStoreError(f"the spending of the day is not in Redis: {error}") from error
