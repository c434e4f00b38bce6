"""Reports under way: who asks for one that is being made already follows it, so that it is paid for once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace

from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.order import ResearchOrder
from modules.llm_platform.domain.dtos.research_dtos import Source

Ending = Callable[[ResearchOrder], Done]  # the last event, as one of those who asked gets it
Make = Callable[[ResearchOrder, Sequence[ResearchEvent]], Awaitable[Ending]]  # with what was told so far, which grows


class SharedReports:
    """The reports that one process makes, by all that decides what becomes of them."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _SharedReport] = {}

    async def follow(self, key: Hashable, order: ResearchOrder, make: Make) -> Ending:
        """Tell `order` all events but the last of the report with this key, from its first on, whoever began it.

        Raises what the report ended with, for all who follow it: the same would happen again. It goes on as long as one
        of them is there, and is stopped when the last one leaves.
        """
        shared = self._under_way.get(key)
        if shared is None:
            shared = self._under_way[key] = _SharedReport(order, make)
            shared.task.add_done_callback(lambda _: self._forget(key, shared))
        try:
            return await shared.followed_by(order)
        finally:
            if not shared.followers:
                self._forget(key, shared)  # nobody shall join what is being stopped
                await shared.stop()

    async def aclose(self) -> None:
        """Stop all of them."""
        for shared in [*self._under_way.values()]:
            await shared.stop()

    def _forget(self, key: Hashable, shared: _SharedReport) -> None:
        if self._under_way.get(key) is shared:
            del self._under_way[key]


class _SharedReport:
    """One report, made in a task that belongs to nobody who asked; its ledger is that of the first."""

    def __init__(self, first: ResearchOrder, make: Make) -> None:
        self.followers: list[ResearchOrder] = []
        self._told: list[ResearchEvent] = []
        self._sources: tuple[Source, ...] | None = None
        self.task = asyncio.create_task(self._made(replace(first, tell=self._tell, hold=self._hold), make))
        self.task.add_done_callback(_look_at)

    async def followed_by(self, order: ResearchOrder) -> Ending:
        for event in self._told:
            _tell(order, event)
        self.followers.append(order)
        try:
            if self._sources is not None:
                await order.hold(self._sources)
            await asyncio.wait([self.task])
        finally:
            self.followers = [each for each in self.followers if each is not order]
        return self.task.result()

    async def stop(self) -> None:
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])

    async def _made(self, order: ResearchOrder, make: Make) -> Ending:
        return await make(order, self._told)

    def _tell(self, event: ResearchEvent) -> None:
        self._told.append(event)
        for order in self.followers:
            _tell(order, event)

    async def _hold(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources
        for order in self.followers:
            await order.hold(sources)


def _tell(order: ResearchOrder, event: ResearchEvent) -> None:
    """Under the id of who asked."""
    own = event.request_id == order.request_id
    order.tell(event if own else event.model_copy(update={"request_id": order.request_id}))


def _look_at(task: asyncio.Task[Ending]) -> None:
    """So that a failure which nobody waited for leaves no complaint behind."""
    if not task.cancelled():
        task.exception()
