"""Reports for the research service: from the store where one is finished, else made and kept (mind-search.md §8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.finished import (
    find_finished,
    keep_finished,
    mark_finished,
    report_key,
)
from modules.llm_platform.application.research.order import ResearchOrder
from modules.llm_platform.application.research.report import make_report
from modules.llm_platform.application.research.report_run import ReportRun, ReportTools
from modules.llm_platform.application.research.shared_reports import Ending, SharedReports
from modules.llm_platform.application.research.shelf import Shelf
from modules.llm_platform.application.services.planner import Planner
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse
from modules.llm_platform.domain.exceptions import PriceUnknownError
from modules.llm_platform.domain.store_key import topic_of

log = logging.getLogger(__name__)


class Reporter:
    """Makes reports with one set of tools. The first report has the store cleaned, beside its own work."""

    def __init__(self, tools: ReportTools) -> None:
        self.planner = Planner(tools)
        self._tools = tools
        self._shared = SharedReports()
        self._cleaning: asyncio.Task[None] | None = None

    def check(self, request: ResearchRequest) -> None:
        """Raises PriceUnknownError for a limit that could not be kept; before anything is begun."""
        if request.max_cost_usd is not None and self._tools.llms and self._tools.price is None:
            raise PriceUnknownError

    async def report(self, order: ResearchOrder) -> None:
        """Tell all events of the report but the first, Done last. One that is being made with the same limits is shared.

        Raises the AppException that left nothing to write from.
        """
        if self._cleaning is None:
            self._cleaning = asyncio.create_task(StoreService(self._tools.store).clean_quietly())
        request = order.request
        shelf = Shelf(self._tools.store, topic_of(request.query), order.language, fresh=request.fresh)
        key = report_key(shelf, self._tools, request)

        async def make(shared: ResearchOrder, told: Sequence[ResearchEvent]) -> Ending:
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

    async def _stored(self, order: ResearchOrder, shelf: Shelf, key: str) -> Ending | None:
        finished = await find_finished(shelf, key, order.request, order.language, offline=self._tools.options.offline)
        if finished is None:
            return None
        log.info("research from the store", extra={"depth": "report", "latency_ms": _latency_ms(order)})
        await order.hold(finished.sources)
        for event in finished.told_again(order.request_id):
            order.tell(event)
        return _ending(finished.answer_again)

    async def _made(self, order: ResearchOrder, told: Sequence[ResearchEvent], shelf: Shelf, key: str) -> Ending:
        # Made with all that was found: whoever asks for the report next may want the results too.
        whole = replace(order, request=order.request.model_copy(update={"omit_raw": False}))
        made = await make_report(ReportRun(order=whole, tools=self._tools, budget=self._budget(order), shelf=shelf))
        metadata = made.response.metadata.model_copy(update={"sent_to": order.ledger.sent()})
        response = made.response.model_copy(update={"metadata": metadata})
        if made.lasting:
            events = (*told, Done(request_id=order.request_id, response=response))
            await keep_finished(shelf, key, order.request, order.language, events=events, sources=made.sources)
        elif made.whole:
            await mark_finished(shelf, key)
        log.info(
            "research done",
            extra={"depth": "report", "sources": len(made.sources), "latency_ms": metadata.latency_ms},
        )
        return _ending(response)

    def _budget(self, order: ResearchOrder) -> Budget:
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

    def done(order: ResearchOrder) -> Done:
        own = {"request_id": order.request_id, "latency_ms": _latency_ms(order)}
        metadata = response.metadata.model_copy(update=own)
        raw = None if order.request.omit_raw else response.raw_results
        answer = response.model_copy(update={"metadata": metadata, "raw_results": raw})
        return Done(request_id=order.request_id, response=answer)

    return done


def _latency_ms(order: ResearchOrder) -> int:
    return round((asyncio.get_running_loop().time() - order.began) * 1000)
