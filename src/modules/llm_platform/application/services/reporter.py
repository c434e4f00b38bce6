"""Reports for the research service: from the store where one is finished, else made and kept (mind-search.md §8)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from modules.llm_platform.application.research.budget import Budget
from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.finished import find_finished, keep_finished
from modules.llm_platform.application.research.order import OWN_LANGUAGE, ResearchOrder
from modules.llm_platform.application.research.plan import LATE_PLAN, PLAN_VERSION, sub_questions
from modules.llm_platform.application.research.report import make_report
from modules.llm_platform.application.research.report_run import NO_MODEL, ReportRun, ReportTools
from modules.llm_platform.application.research.shelf import Shelf
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.exceptions import PriceUnknownError
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.store_key import topic_of

log = logging.getLogger(__name__)

PLAN_TIMEOUT_S = 60.0
DECOMPOSITION = "decomposition"


class Reporter:
    """Makes reports with one set of tools. The first report has the store cleaned, beside its own work."""

    def __init__(self, tools: ReportTools) -> None:
        self._tools = tools
        self._cleaning: asyncio.Task[None] | None = None

    def check(self, request: ResearchRequest) -> None:
        """Raises PriceUnknownError for a limit that could not be kept; before anything is begun."""
        if request.max_cost_usd is not None and self._tools.llms and self._tools.price is None:
            raise PriceUnknownError

    async def report(self, order: ResearchOrder) -> None:
        """Tell all events of the report but the first, Done last.

        Raises the AppException that left nothing to write from.
        """
        if self._cleaning is None:
            self._cleaning = asyncio.create_task(StoreService(self._tools.store).clean_quietly())
        request, tools, language = order.request, self._tools, order.language
        shelf = Shelf(tools.store, topic_of(request.query), language, fresh=request.fresh)
        if finished := await find_finished(shelf, tools, request, language):
            latency_ms = round((asyncio.get_running_loop().time() - order.began) * 1000)
            log.info("research from the store", extra={"depth": "report", "latency_ms": latency_ms})
            await order.hold(finished.sources)
            for event in finished.told_again(request, order.request_id, latency_ms):
                order.tell(event)
            return
        told: list[ResearchEvent] = []

        def tell(event: ResearchEvent) -> None:
            told.append(event)
            order.tell(event)

        # Made with all that was found: whoever asks for the report next may want the results too.
        whole = replace(order, tell=tell, request=request.model_copy(update={"omit_raw": False}))
        made = await make_report(ReportRun(order=whole, tools=tools, budget=self._budget(order), shelf=shelf))
        metadata = made.response.metadata.model_copy(update={"sent_to": order.ledger.sent()})
        response = made.response.model_copy(update={"metadata": metadata})
        if made.lasting:
            done = Done(request_id=order.request_id, response=response)
            await keep_finished(shelf, tools, request, language, events=(*told, done), sources=made.sources)
        log.info(
            "research done",
            extra={"depth": "report", "sources": len(made.sources), "latency_ms": metadata.latency_ms},
        )
        if request.omit_raw:
            response = response.model_copy(update={"raw_results": None})
        order.tell(Done(request_id=order.request_id, response=response))

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        """Sub-questions for a person to look at; taken from the store unless others are wanted."""
        tools = self._tools
        language = request.language or detect(request.query) or OWN_LANGUAGE
        shelf = Shelf(tools.store, topic_of(request.query), language, fresh=bool(request.other_than))
        key = shelf.key(PLAN_VERSION, tools.label("plan"), query=request.query)
        if kept := await shelf.get("search_queries", key, ResearchPlan):
            return kept
        model = tools.llms.get("plan")
        degraded: tuple[Degraded, ...] = ()
        try:
            async with asyncio.timeout(PLAN_TIMEOUT_S):
                made = await sub_questions(
                    request.query, language, model, other_than=request.other_than, tell=_nobody_listens
                )
            degraded = made.degraded
        except TimeoutError:
            made = await sub_questions(request.query, language, None, other_than=request.other_than, tell=_nobody_listens)
            degraded = (Degraded(component="plan", reason=LATE_PLAN),)
        by = tools.model_of("plan") if model and not degraded else NO_MODEL
        plan = ResearchPlan(
            query=request.query,
            language=language,
            questions=made.questions,
            planner=DECOMPOSITION if by == NO_MODEL else by,
            degraded=degraded,
        )
        if not degraded:
            await shelf.put("search_queries", key, plan)
        return plan

    async def aclose(self) -> None:
        """Stop what is still under way beside the reports."""
        if self._cleaning and not self._cleaning.done():
            self._cleaning.cancel()
            await asyncio.wait([self._cleaning])

    def _budget(self, order: ResearchOrder) -> Budget:
        asked = order.request
        seconds = min(self._tools.options.timeout_s, asked.max_seconds or self._tools.options.timeout_s)
        return Budget(
            max_llm_calls=asked.max_llm_calls,
            max_cost_usd=asked.max_cost_usd,
            deadline=order.began + seconds,
            price=self._tools.price,
        )


def _nobody_listens(question: str) -> None:
    """A plan for a person is shown whole."""
