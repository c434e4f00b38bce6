"""Reports for the research service: from the store where one is finished, else made and kept (requirement MS8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.pipeline import make_report
from modules.llm_platform.application.research.report.planner import Planner
from modules.llm_platform.application.research.report.replay import (
    find_stored_report,
    mark_finished,
    report_key,
    store_report,
)
from modules.llm_platform.application.research.report.run import ReportRun, ReportTools
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse, Source
from modules.llm_platform.domain.exceptions import PriceUnknownError
from modules.llm_platform.domain.store_key import topic_of

# Reports under way: who asks for one that is being made already follows it, so that it is paid for once.


Ending = Callable[[ResearchContext], Done]  # the last event, as one of those who asked gets it
Make = Callable[[ResearchContext, Sequence[ResearchEvent]], Awaitable[Ending]]  # with what was told so far, which grows


class ReportSingleFlight:
    """The reports that one process makes, by all that decides what becomes of them."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _ReportFlight] = {}

    async def follow(self, key: Hashable, order: ResearchContext, make: Make) -> Ending:
        """Tell `order` all events but the last of the report with this key, from its first on, whoever began it.

        Raises what the report ended with, for all who follow it: the same would happen again. It goes on as long as one
        of them is there, and is stopped when the last one leaves.
        """
        shared = self._under_way.get(key)
        if shared is None:
            shared = self._under_way[key] = _ReportFlight(order, make)
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

    def _forget(self, key: Hashable, shared: _ReportFlight) -> None:
        if self._under_way.get(key) is shared:
            del self._under_way[key]


class _ReportFlight:
    """One report, made in a task that belongs to nobody who asked; its ledger is that of the first."""

    def __init__(self, first: ResearchContext, make: Make) -> None:
        self.followers: list[ResearchContext] = []
        self._told: list[ResearchEvent] = []
        self._sources: tuple[Source, ...] | None = None
        self.task = asyncio.create_task(self._made(replace(first, tell=self._tell, hold=self._hold), make))
        self.task.add_done_callback(_look_at)

    async def followed_by(self, order: ResearchContext) -> Ending:
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

    async def _made(self, order: ResearchContext, make: Make) -> Ending:
        return await make(order, self._told)

    def _tell(self, event: ResearchEvent) -> None:
        self._told.append(event)
        for order in self.followers:
            _tell(order, event)

    async def _hold(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources
        for order in self.followers:
            await order.hold(sources)


def _tell(order: ResearchContext, event: ResearchEvent) -> None:
    """Under the id of who asked."""
    own = event.request_id == order.request_id
    order.tell(event if own else event.model_copy(update={"request_id": order.request_id}))


def _look_at(task: asyncio.Task[Ending]) -> None:
    """So that a failure which nobody waited for leaves no complaint behind."""
    if not task.cancelled():
        task.exception()


log = logging.getLogger(__name__)


class Reporter:
    """Makes reports with one set of tools. The first report has the store cleaned, beside its own work."""

    def __init__(self, tools: ReportTools) -> None:
        self.planner = Planner(tools)
        self._tools = tools
        self._shared = ReportSingleFlight()
        self._cleaning: asyncio.Task[None] | None = None

    def check(self, request: ResearchRequest) -> None:
        """Raises PriceUnknownError for a limit that could not be kept; before anything is begun."""
        if request.max_cost_usd is not None and self._tools.llms and self._tools.price is None:
            raise PriceUnknownError

    async def report(self, order: ResearchContext) -> None:
        """Tell all events of the report but the first, Done last. One that is being made with the same limits is shared.

        Raises the AppException that left nothing to write from.
        """
        if self._cleaning is None:
            self._cleaning = asyncio.create_task(StoreService(self._tools.store).clean_quietly())
        request = order.request
        shelf = CheckpointStore(self._tools.store, topic_of(request.query), order.language, fresh=request.fresh)
        key = report_key(shelf, self._tools, request)

        async def make(shared: ResearchContext, told: Sequence[ResearchEvent]) -> Ending:
            return await self._stored(shared, shelf, key) or await self._made(shared, told, shelf, key)

        limits = (request.max_llm_calls, request.max_cost_usd, request.max_seconds)
        ending = await self._shared.follow((key, request.fresh, limits), order, make)
        order.tell(ending(order))

    async def aclose(self) -> None:
        """Stop what is still under way."""
        await self._shared.aclose()
        if self._cleaning and not self._cleaning.done():
            self._cleaning.cancel()
            await asyncio.wait([self._cleaning])

    async def _stored(self, order: ResearchContext, shelf: CheckpointStore, key: str) -> Ending | None:
        finished = await find_stored_report(
            shelf, key, order.request, order.language, offline=self._tools.options.offline
        )
        if finished is None:
            return None
        log.info("research from the store", extra={"depth": "report", "latency_ms": _latency_ms(order)})
        await order.hold(finished.sources)
        for event in finished.told_again(order.request_id):
            order.tell(event)
        return _ending(finished.answer_again)

    async def _made(
        self, order: ResearchContext, told: Sequence[ResearchEvent], shelf: CheckpointStore, key: str
    ) -> Ending:
        # Made with all that was found: whoever asks for the report next may want the results too.
        whole = replace(order, request=order.request.model_copy(update={"omit_raw": False}))
        made = await make_report(ReportRun(order=whole, tools=self._tools, budget=self._budget(order), shelf=shelf))
        metadata = made.response.metadata.model_copy(update={"sent_to": order.ledger.sent()})
        response = made.response.model_copy(update={"metadata": metadata})
        if made.lasting:
            events = (*told, Done(request_id=order.request_id, response=response))
            await store_report(shelf, key, order.request, order.language, events=events, sources=made.sources)
        elif made.whole:
            await mark_finished(shelf, key)
        log.info(
            "research done",
            extra={"depth": "report", "sources": len(made.sources), "latency_ms": metadata.latency_ms},
        )
        return _ending(response)

    def _budget(self, order: ResearchContext) -> Budget:
        asked = order.request
        seconds = min(self._tools.options.timeout_s, asked.max_seconds or self._tools.options.timeout_s)
        return Budget(
            max_llm_calls=asked.max_llm_calls,
            max_cost_usd=asked.max_cost_usd,
            deadline=order.began + seconds,
            price=self._tools.price,
        )


def _ending(response: ResearchResponse) -> Ending:
    """The answer for each who asked: under the own id, with or without the results, and the time that it took for them."""

    def done(order: ResearchContext) -> Done:
        own = {"request_id": order.request_id, "latency_ms": _latency_ms(order)}
        metadata = response.metadata.model_copy(update=own)
        raw = None if order.request.omit_raw else response.raw_results
        answer = response.model_copy(update={"metadata": metadata, "raw_results": raw})
        return Done(request_id=order.request_id, response=answer)

    return done


def _latency_ms(order: ResearchContext) -> int:
    return round((asyncio.get_running_loop().time() - order.began) * 1000)
