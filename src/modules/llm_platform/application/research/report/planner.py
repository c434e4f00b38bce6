"""Plans of reports, for a person to look at, and what the person made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from modules.llm_platform.application.research.context import OWN_LANGUAGE
from modules.llm_platform.application.research.plan import LATE_PLAN, PLAN_VERSION, Plan, sub_questions
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.run import NO_MODEL, ReportTools
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.store_key import topic_of
from modules.llm_platform.domain.text.language import detect

PLAN_TIMEOUT_S = 60.0
DECOMPOSITION = "decomposition"
ACCEPTED = "accepted"  # in the place of a prompt's version: a person agreed, whichever model had proposed it


class Planner:
    """Makes plans with the tools of the reports."""

    def __init__(self, tools: ReportTools) -> None:
        self._tools = tools

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        """Sub-questions for a person to look at; taken from the store unless others are wanted."""
        language, tools = _language(request), self._tools
        shelf = self._shelf(request, fresh=bool(request.other_than))
        key = shelf.key(PLAN_VERSION, tools.label("plan"), query=request.query)
        if kept := await shelf.get("search_queries", key, ResearchPlan):
            return kept.model_copy(update={"spent": NOTHING_SPENT})
        made, degraded = await self._made(request, language)
        by = tools.model_of("plan") if tools.llms.get("plan") and not degraded else NO_MODEL
        plan = ResearchPlan(
            query=request.query,
            language=language,
            questions=made.questions,
            planner=DECOMPOSITION if by == NO_MODEL else by,
            degraded=degraded,
            spent=made.spent,
        )
        if not degraded:
            await shelf.put("search_queries", key, plan)
        return plan

    async def accept(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Remember that a person wants these sub-questions."""
        shelf = self._shelf(request)
        plan = AcceptedPlan(query=request.query, questions=tuple(questions), accepted_at=datetime.now(UTC))
        await shelf.put("search_queries", self._accepted_key(shelf, request), plan)

    async def accepted(self, request: PlanRequest) -> AcceptedPlan | None:
        """What a person wanted last; None where nobody was asked, or it is too long ago."""
        shelf = self._shelf(request)
        return await shelf.get("search_queries", self._accepted_key(shelf, request), AcceptedPlan)

    async def _made(self, request: PlanRequest, language: str) -> tuple[Plan, tuple[Degraded, ...]]:
        model = self._tools.llms.get("plan")
        others = request.other_than
        try:
            async with asyncio.timeout(PLAN_TIMEOUT_S):
                made = await sub_questions(request.query, language, model, other_than=others, tell=_nobody_listens)
        except TimeoutError:
            plain = await sub_questions(request.query, language, None, other_than=others, tell=_nobody_listens)
            # It may have written, but nobody will ever tell how much.
            late = Plan(plain.questions, Spending(calls=1, cost_usd=None))
            return late, (Degraded(component="plan", reason=LATE_PLAN),)
        return made, made.degraded

    def _shelf(self, request: PlanRequest, *, fresh: bool = False) -> CheckpointStore:
        return CheckpointStore(self._tools.store, topic_of(request.query), _language(request), fresh=fresh)

    def _accepted_key(self, shelf: CheckpointStore, request: PlanRequest) -> str:
        return shelf.key(ACCEPTED, "", query=request.query)


def _language(request: PlanRequest) -> str:
    return request.language or detect(request.query) or OWN_LANGUAGE


def _nobody_listens(question: str) -> None:
    """A plan for a person is shown whole."""
