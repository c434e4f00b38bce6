"""Plans of reports that a user reviews before the report is made, and the plans that users accepted."""

from collections.abc import Sequence
from datetime import UTC, datetime

from modules.llm_platform.application.research.plan import (
    LATE_PLAN,
    SUB_QUESTIONS_VERSION,
    Plan,
    sub_questions,
    usable_plan,
)
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.estimate import estimate_report
from modules.llm_platform.application.research.report.run import NO_MODEL, ReportTools
from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.research.store_key import topic_of
from modules.llm_platform.domain.text.language import language_of

PLAN_TIMEOUT_S = 60.0
DECOMPOSITION = "decomposition"
ACCEPTED_VERSION = "accepted"  # replaces a prompt version: an accepted plan is valid for every model


class Planner:
    """Makes, stores and finds plans."""

    def __init__(self, tools: ReportTools) -> None:
        self._tools = tools

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        """Sub-questions for review, from the store unless the request rejects some (`other_than`)."""
        language, tools = language_of(request.query, request.language), self._tools
        checkpoints = self._checkpoints(request, fresh=bool(request.other_than))
        if stored := await stored_plan(tools, checkpoints, request.query):
            return await self._with_estimate(stored.model_copy(update={"spent": NOTHING_SPENT}), request)
        made, degraded = await self._generate(request, language)
        plan = ResearchPlan(
            query=request.query,
            language=language,
            questions=made.questions,
            planner=planner_of(tools, degraded),
            degraded=degraded,
            spent=made.spent,
        )
        if all(entry.is_unusable_answer for entry in degraded):
            await store_plan(tools, checkpoints, plan)
        return await self._with_estimate(plan, request)

    async def _with_estimate(self, plan: ResearchPlan, request: PlanRequest) -> ResearchPlan:
        tools = await self._tools.with_context()
        return plan.model_copy(update={"estimate": estimate_report(tools, request, plan.language, plan.questions)})

    async def accept(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Store these sub-questions as the accepted plan."""
        checkpoints = self._checkpoints(request)
        plan = AcceptedPlan(query=request.query, questions=tuple(questions), accepted_at=datetime.now(UTC))
        await checkpoints.put("search_queries", self._accepted_key(checkpoints, request), plan)

    async def accepted(self, request: PlanRequest) -> AcceptedPlan | None:
        """Return the plan that was accepted last; None when there is none or it has expired."""
        checkpoints = self._checkpoints(request)
        return await checkpoints.get("search_queries", self._accepted_key(checkpoints, request), AcceptedPlan)

    async def _generate(self, request: PlanRequest, language: str) -> tuple[Plan, tuple[Degraded, ...]]:
        model = self._tools.llms.get("plan")
        rejected = request.other_than
        try:
            async with deadline_in(PLAN_TIMEOUT_S):
                made = await sub_questions(request.query, language, model, other_than=rejected, emit=_ignore)
        except TimeoutError:
            plain = await sub_questions(request.query, language, None, other_than=rejected, emit=_ignore)
            # The call may have cost something, but its usage is unknown.
            late = Plan(plain.questions, Spending(calls=1, cost_usd=None))
            return late, (Degraded(component="plan", reason=LATE_PLAN),)
        return made, made.degraded

    def _checkpoints(self, request: PlanRequest, *, fresh: bool = False) -> CheckpointStore:
        return self._tools.checkpoints(topic_of(request.query), language_of(request.query, request.language), fresh=fresh)

    def _accepted_key(self, checkpoints: CheckpointStore, request: PlanRequest) -> str:
        return checkpoints.key(ACCEPTED_VERSION, "", query=request.query)


async def stored_plan(tools: ReportTools, checkpoints: CheckpointStore, query: str) -> ResearchPlan | None:
    """Return the sub-questions that were planned for this question before, for a review or in a report; None without any."""
    return usable_plan(await checkpoints.get("search_queries", _plan_key(tools, checkpoints, query), ResearchPlan), query)


async def store_plan(tools: ReportTools, checkpoints: CheckpointStore, plan: ResearchPlan) -> None:
    """Store a plan for `stored_plan`."""
    await checkpoints.put("search_queries", _plan_key(tools, checkpoints, plan.query), plan)


def _plan_key(tools: ReportTools, checkpoints: CheckpointStore, query: str) -> str:
    return checkpoints.key(SUB_QUESTIONS_VERSION, tools.label("plan"), query=query)


def planner_of(tools: ReportTools, degraded: Sequence[Degraded]) -> str:
    """Return the model that planned, or DECOMPOSITION."""
    by = tools.model_of("plan") if tools.llms.get("plan") and not degraded else NO_MODEL
    return DECOMPOSITION if by == NO_MODEL else by


def _ignore(question: str) -> None:
    """Sub-questions are returned together, not streamed."""
