"""What the caches returned to a request, so that its answer can be sent again while they would return the same.

The record is a context variable: tasks inherit it, and concurrent requests have their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel

from modules.llm_platform.domain.ports.cache import ICache


class CacheReads:
    """The values that were found, with their caches and keys. `is_complete`: nothing was missing, so nothing was made."""

    __slots__ = ("found", "is_complete")

    def __init__(self) -> None:
        self.found: list[tuple[ICache[Any], str, BaseModel]] = []
        self.is_complete = True

    def has(self, *types: type[BaseModel]) -> bool:
        """Return whether values of all these types were found, and nothing was missing."""
        return self.is_complete and all(any(isinstance(value, each) for _, _, value in self.found) for each in types)

    def add(self, other: CacheReads) -> None:
        """Add what another record has."""
        self.found += other.found
        self.is_complete = self.is_complete and other.is_complete

    async def are_current(self) -> bool:
        """Read the caches again; return whether they have the same values."""
        for cache, key, value in self.found:
            current = await cache.get(key)
            if current is not value and current != value:
                return False
        return True


_CURRENT: ContextVar[CacheReads | None] = ContextVar("cache_reads", default=None)


@contextmanager
def record_cache_reads() -> Iterator[CacheReads]:
    """Record the reads of this task and of the tasks that it starts from now on."""
    reads = CacheReads()
    token = _CURRENT.set(reads)
    try:
        yield reads
    finally:
        _CURRENT.reset(token)


def note_found(cache: ICache[Any], key: str, value: BaseModel) -> None:
    """Add a value that was found, if there is a record."""
    if (reads := _CURRENT.get()) is not None:
        reads.found.append((cache, key, value))


def note_missing() -> None:
    """Note in the record, if there is one, that something was not found in a cache."""
    if (reads := _CURRENT.get()) is not None:
        reads.is_complete = False


def note_reads(reads: CacheReads) -> None:
    """Add the reads of a call that was made for several requests, if there is a record."""
    if (current := _CURRENT.get()) is not None:
        current.add(reads)
