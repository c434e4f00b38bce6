"""The port of the queue that hands background researches to the servers that share a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable


class IResearchQueue(ABC):
    """Hands out ids. The store has the researches and their leases, and decides which one is next, so that owners take turns:
    an id says only that there is work. One that is lost or comes twice does no harm, since workers also look into the store,
    and a lease is given once.
    """

    @abstractmethod
    async def put(self, job_id: str) -> None:
        """Hand the id to a worker. A failure is logged: the research is found in the store."""

    @abstractmethod
    async def run(self, handle: Callable[[str], Awaitable[None]], concurrency: int) -> None:
        """Call `handle` with ids until cancelled, `concurrency` at once. The id of a worker that vanished comes again."""
