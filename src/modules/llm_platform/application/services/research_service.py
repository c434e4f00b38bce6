"""A question in, a cited answer out (requirements RB1, RB2 and RB15; docs/reference/http.md)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from modules.llm_platform.application.problem import problem
from modules.llm_platform.application.research.context import ResearchContext, Tell, language_of
from modules.llm_platform.application.research.events import (
    Done,
    Failed,
    ResearchEvent,
    Started,
)
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.report.reporter import Reporter
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import (
    HeldSource,
    HeldSources,
    ResearchRequest,
    ResearchResponse,
    Source,
)
from modules.llm_platform.domain.egress_log import open_egress_log
from modules.llm_platform.domain.exceptions import SourceNotHeldError
from modules.llm_platform.domain.ports.cache import ICache
from shared.exceptions import AppException

log = logging.getLogger(__name__)

HELD_FOR_S = 3600.0  # how long the texts behind an answer's quotes can be asked for


class ResearchService:
    """Researches a question: `stream` tells what happens as it happens, `research` folds the same stream into its answer."""

    def __init__(self, answerer: QuickResearch, reporter: Reporter, held: ICache[HeldSources]) -> None:
        self._answerer = answerer
        self._reporter = reporter
        self._held = held

    async def research(self, request: ResearchRequest, *, request_id: str | None = None) -> ResearchResponse:
        """The answer. Raises the AppException that left nothing to answer from."""
        async with aclosing(self._events(request, request_id or new_request_id(), streamed=False)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.response
        raise AssertionError("a research ends with done or an error")

    async def stream(
        self, request: ResearchRequest, *, request_id: str | None = None
    ) -> AsyncGenerator[ResearchEvent, None]:
        """Started first, Done or Failed last. Closing the iterator stops the research and closes its connections.

        What is wrong with the request itself is raised before the first event.
        """
        request_id = request_id or new_request_id()
        started = False
        async with aclosing(self._events(request, request_id, streamed=True)) as events:
            try:
                async for event in events:
                    started = True
                    yield event
            except AppException as error:
                if not started:
                    raise
                instance = f"/research/{request_id}"
                yield Failed(request_id=request_id, problem=problem(error, instance=instance, request_id=request_id))

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        """The sub-questions of a report, for a person to look at: what was changed of them goes into `plan` of a request."""
        return await self._reporter.planner.plan(request)

    async def accept_plan(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Remember, for `STORE_TTL_DAYS`, that a person wants a report on these sub-questions."""
        await self._reporter.planner.accept(request, questions)

    async def accepted_plan(self, request: PlanRequest) -> AcceptedPlan | None:
        """The sub-questions that a person accepted last for this question in this language; None where there are none."""
        return await self._reporter.planner.accepted(request)

    async def source(self, request_id: str, index: int) -> HeldSource:
        """The stored text of one source of a research that ended a while ago; SourceNotHeldError when it is gone."""
        held = await self._held.get(request_id)
        found = held.find(index) if held else None
        if found is None:
            raise SourceNotHeldError
        return found

    async def _events(
        self, request: ResearchRequest, request_id: str, *, streamed: bool
    ) -> AsyncGenerator[ResearchEvent, None]:
        told: asyncio.Queue[ResearchEvent | None] = asyncio.Queue()
        task = asyncio.create_task(self._carry_out(request, request_id, told.put_nowait, streamed=streamed))
        task.add_done_callback(lambda done: _end(done, told))
        try:
            while (event := await told.get()) is not None:
                yield event
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _carry_out(self, request: ResearchRequest, request_id: str, tell: Tell, *, streamed: bool) -> None:
        async def hold(sources: tuple[Source, ...]) -> None:
            await self._held.set(request_id, HeldSources(sources=sources), HELD_FOR_S)

        began = asyncio.get_running_loop().time()
        self._reporter.check(request)
        tell(Started(request_id=request_id))
        with open_egress_log() as ledger:
            order = ResearchContext(
                request=request,
                request_id=request_id,
                detected=language_of(request),
                tell=tell,
                hold=hold,
                streamed=streamed,
                began=began,
                ledger=ledger,
            )
            await (self._reporter.report(order) if request.depth == "report" else self._answerer.answer(order))


def _end(task: asyncio.Task[None], told: asyncio.Queue[ResearchEvent | None]) -> None:
    if not task.cancelled():
        task.exception()  # looked at here, so that a reader who has gone leaves no complaint behind
    told.put_nowait(None)


def new_request_id() -> str:
    """An identifier that nobody can guess: the texts behind an answer are asked for by it."""
    return uuid.uuid4().hex
