"""A cache in Redis that several processes share."""

import logging
from math import ceil
from typing import Final, Generic, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from modules.llm_platform.domain.ports.cache import ICache, Value
from modules.llm_platform.infrastructure import redis_client

log = logging.getLogger(__name__)

FORMAT_VERSION: Final = 1
MAX_VALUE_BYTES: Final = 4_000_000  # a longer value is neither stored nor read
MAX_TTL_S: Final = 366 * 86_400.0
LOCAL_TTL_S: Final = 30.0  # lifetime of a copy in this process; it may outlive its entry in Redis by this time


class StoredValue(BaseModel, Generic[Value]):
    """The JSON document of a key. Every other document is a miss."""

    version: Literal[1]
    type: str
    value: Value


class RedisCache(ICache[Value], Generic[Value]):
    """Stores values of `value_type` as JSON, with one command for a get and one for a set.

    `namespace` is part of the keys, so caches of different types or settings need different ones. While Redis is away, a get
    is a miss and a set does nothing. Entries have a lifetime, and Redis evicts them by its own `maxmemory`.
    """

    def __init__(self, client: redis_client.RedisClient, value_type: type[Value], namespace: str) -> None:
        self._client = client
        self._type_name = value_type.__name__
        self._document: type[StoredValue[Value]] = StoredValue[value_type]  # type: ignore[valid-type]
        self._prefix = f"{redis_client.KEY_PREFIX}cache:{namespace}:"

    async def get(self, key: str) -> Value | None:
        name = self._prefix + key
        try:
            # GETRANGE, because another program may have stored a value of any size under the key.
            data = await self._client.call("GETRANGE", lambda redis: redis.getrange(name, 0, MAX_VALUE_BYTES))
        except (redis_client.RedisUnavailableError, redis_client.ForeignValueError):
            return None
        return self._decode(data) if data else None

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        name = self._prefix + key
        data = self._encode(value) if ttl_s > 0 else None
        try:
            if data is None:
                await self._client.call("DEL", lambda redis: redis.delete(name))
            else:
                ttl_ms = ceil(min(ttl_s, MAX_TTL_S) * 1000)
                await self._client.call("SET", lambda redis: redis.set(name, data, px=ttl_ms))
        except (redis_client.RedisUnavailableError, redis_client.ForeignValueError):
            return

    def _encode(self, value: Value) -> bytes | None:
        """Return the JSON document, or None if the value has no JSON form or is too long."""
        try:
            text = value.model_dump_json(warnings=False).encode()
        except PydanticSerializationError:  # half a surrogate pair
            return None
        data = b'{"version":%d,"type":"%s","value":%s}' % (FORMAT_VERSION, self._type_name.encode(), text)
        return data if len(data) <= MAX_VALUE_BYTES else None

    def _decode(self, data: bytes | str) -> Value | None:
        try:
            document = self._document.model_validate_json(data)
        except ValidationError:
            log.warning("a value in Redis is damaged or of another version", extra={"type": self._type_name})
            return None
        return document.value if document.type == self._type_name else None


class LocalCopies(ICache[Value], Generic[Value]):
    """Keeps copies of the values of `shared` in `local` for LOCAL_TTL_S, so that getting one again costs no round trip."""

    def __init__(self, shared: ICache[Value], local: ICache[Value]) -> None:
        self._shared = shared
        self._local = local

    async def get(self, key: str) -> Value | None:
        value = await self._local.get(key)
        if value is None and (value := await self._shared.get(key)) is not None:
            await self._local.set(key, value, LOCAL_TTL_S)
        return value

    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        await self._local.set(key, value, min(ttl_s, LOCAL_TTL_S))
        await self._shared.set(key, value, ttl_s)
