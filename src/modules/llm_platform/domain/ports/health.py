"""The small second port of whatever can be asked how it is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class IHealthProbe(Protocol):
    """An adapter that can tell cheaply, and without spending money, whether its upstream would serve us."""

    name: str

    async def ping(self) -> str:
        """A word about the upstream when it is well; raises an AppException, with cause and remedy, when it is not."""
