"""Store the spending of a day in Redis, which all replicas share if there is no PostgreSQL."""

import logging
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from modules.llm_platform.domain.exceptions import SpendingStoreError
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure import redis_client

log = logging.getLogger(__name__)

DAYS_REMOVED: Final = 7  # days removed before the one that is counted
FOREIGN_VALUE: Final = (
    "the spending of the day is not in Redis, because {key} has a value of another program: remove this key, "
    "or give Redis to the platform alone"
)
EVICTED: Final = "set maxmemory-policy of Redis to volatile-lru, which evicts no key without an expiry"

# KEYS: the hash of the day, and those of the days before. ARGV: for each account its name, the amount, and the sum that the
# caller has seen. Returns whether a sum was lost, and the sums. A call that only reads writes nothing, so a full Redis
# answers it.
SCRIPT: Final = """
local answer = {0}
for position = 1, #ARGV, 3 do
    local account, amount, seen = ARGV[position], ARGV[position + 1], ARGV[position + 2]
    local sum = redis.call("HGET", KEYS[1], account) or "0"
    if tonumber(sum) < tonumber(seen) then
        answer[1] = 1
        sum = seen
        redis.call("HSET", KEYS[1], account, sum)
    end
    if tonumber(amount) ~= 0 then
        sum = redis.call("HINCRBYFLOAT", KEYS[1], account, amount)
        redis.call("PERSIST", KEYS[1])
        redis.call("DEL", unpack(KEYS, 2))
    end
    answer[#answer + 1] = sum
end
return answer
"""


class RedisSpendingStore(ISpendingStore):
    """Spending in Redis, with a hash of dollars by account for each day.

    A hash has no expiry, so that `volatile-lru` does not evict it. The calls of the next days remove it.
    """

    def __init__(self, client: redis_client.RedisClient) -> None:
        self._client = client

    async def add(self, day: str, amounts: Mapping[str, float], seen: Mapping[str, float]) -> Mapping[str, float]:
        days = [date.fromisoformat(day) - timedelta(days=age) for age in range(DAYS_REMOVED + 1)]
        keys = [f"{redis_client.KEY_PREFIX}spending:{past_day.isoformat()}" for past_day in days]
        arguments = [
            part for account, usd in amounts.items() for part in (account, repr(usd), repr(seen.get(account, 0.0)))
        ]

        async def run(redis: redis_client.RedisConnection) -> Sequence[Any]:
            answer: Sequence[Any] = await redis.eval(SCRIPT, len(keys), *keys, *arguments)
            return answer

        try:
            has_lost, *sums = await self._client.call("EVAL", run)
            if has_lost:
                log.warning(
                    "Redis lost today's spending; it was restored to the amount that this process last saw",
                    extra={"remedy": EVICTED},
                )
            return {account: float(usd) for account, usd in zip(amounts, sums, strict=True)}
        except redis_client.RedisUnavailableError as error:
            raise SpendingStoreError(f"the spending of the day is not in Redis: {error}") from error
        except (redis_client.ForeignValueError, ValueError):
            # The error of `float` quotes the value, so it is not the cause of the error that is raised.
            raise SpendingStoreError(FOREIGN_VALUE.format(key=keys[0])) from None
