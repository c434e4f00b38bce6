"""The port of caches."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from pydantic import BaseModel

Value = TypeVar("Value", bound=BaseModel)


class ICache(ABC, Generic[Value]):
    """A bounded store of one type of frozen values that may forget at any time."""

    @abstractmethod
    async def get(self, key: str) -> Value | None:
        """Return the value, or None if it was never set, has expired or was evicted."""

    @abstractmethod
    async def set(self, key: str, value: Value, ttl_s: float) -> None:
        """Store the value for `ttl_s` seconds; 0 or less stores nothing."""
