"""The sub-questions of a report: planned, stored, proposed to a user for review, and accepted.

A model plans them; a decomposition by rules completes its list, and replaces it if no model is configured.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from modules.llm_platform.application.research.find.plan import LATE_PLAN, Plan, restore_plan
from modules.llm_platform.application.research.find.plan_prompt import (
    SUB_QUESTIONS_VERSION,
    make_sub_questions_request,
    parse_questions,
)
from modules.llm_platform.application.research.model_output.lists import stream_list
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.estimate import estimate_report
from modules.llm_platform.application.research.report.run import NO_MODEL, ReportOptions, ReportTools
from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.decomposition import aspect_questions, covers_every_part
from modules.llm_platform.domain.research.question_selector import QuestionSelector
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.domain.text.language import choose_language

PLAN_TIMEOUT_S = 60.0
DECOMPOSITION = "decomposition"
ACCEPTED_VERSION = "accepted"  # replaces a prompt version: an accepted plan is valid for every model
UNUSABLE = "llm_provider: its answer contained no sub-question; the question was split without it"
PARTIAL = "llm_provider: its only sub-question leaves out a part of the question; the question was split without it"


@stage("plan")
async def plan_sub_questions(
    question: str,
    language: str,
    llm: ILLMProvider | None,
    options: ReportOptions,
    *,
    other_than: Sequence[str] = (),
    emit: Callable[[str], None],
) -> Plan:
    """Plan at most `options.sub_questions` sub-questions, and emit each as soon as it is known.

    A model may plan fewer. If it plans none, breaks off, or plans one that leaves out a part of the question, the
    decomposition completes the plan, and `degraded` says why. Sub-questions in `other_than` were rejected and are left out,
    unless nothing else is left.
    """
    limit = options.sub_questions
    selected = QuestionSelector(language, written=(question,), taken=other_than, limit=limit, emit=emit)
    degraded: tuple[Degraded, ...] = ()
    spent, is_complete = NOTHING_SPENT, False
    if llm is not None:
        try:
            request = make_sub_questions_request(question, language, limit, other_than)
            answer = await stream_list(llm, request, selected.add)
        except LLMException as error:
            spent, degraded = error.spent, (Degraded.of(f"plan/{llm.name}", error),)
        else:
            spent, degraded = answer.spent, answer.degraded
            selected.add_all(parse_questions(answer.content, question, language))  # reads lines without the prefix too
            planned = selected.items
            is_complete = len(planned) > 1 or any(
                other_than or covers_every_part(sub_question, question, language) for sub_question in planned
            )
            if not is_complete:
                reason = PARTIAL if planned else UNUSABLE
                degraded = (*degraded, Degraded(component=f"plan/{llm.name}", reason=reason))
    if not is_complete:
        selected.add_all(aspect_questions(question, language))
    if not selected.items:  # all of them were rejected before
        selected = QuestionSelector(language, written=(question,), limit=limit, emit=emit)
        selected.add_all(aspect_questions(question, language))
    return Plan(tuple(selected.items), spent, degraded)


class Planner:
    """Plans for review: made, stored, accepted and found again."""

    def __init__(self, tools: ReportTools) -> None:
        self._tools = tools

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        """Return sub-questions for review, from the store unless the request rejects some (`other_than`)."""
        language, tools = choose_language(request.query, request.language), self._tools
        checkpoints = self._open_checkpoints(request, fresh=bool(request.other_than))
        if stored := await load_plan(tools, checkpoints, request.query):
            return await self._add_estimate(stored.model_copy(update={"spent": NOTHING_SPENT}), request)
        made, degraded = await self._generate(request, language)
        plan = ResearchPlan(
            query=request.query,
            language=language,
            questions=made.questions,
            planner=name_planner(tools, degraded),
            degraded=degraded,
            spent=made.spent,
        )
        if all(entry.is_unusable_answer for entry in degraded):
            await store_plan(tools, checkpoints, plan)
        return await self._add_estimate(plan, request)

    async def _add_estimate(self, plan: ResearchPlan, request: PlanRequest) -> ResearchPlan:
        tools = await self._tools.with_context()
        return plan.model_copy(update={"estimate": estimate_report(tools, request, plan.language, plan.questions)})

    async def accept(self, request: PlanRequest, questions: Sequence[str]) -> None:
        """Store these sub-questions as the accepted plan."""
        checkpoints = self._open_checkpoints(request)
        plan = AcceptedPlan(query=request.query, questions=tuple(questions), accepted_at=datetime.now(UTC))
        await checkpoints.put("search_queries", self._make_accepted_key(checkpoints, request), plan)

    async def load_accepted(self, request: PlanRequest) -> AcceptedPlan | None:
        """Return the plan that was accepted last; None when there is none or it has expired."""
        checkpoints = self._open_checkpoints(request)
        return await checkpoints.get("search_queries", self._make_accepted_key(checkpoints, request), AcceptedPlan)

    async def _generate(self, request: PlanRequest, language: str) -> tuple[Plan, tuple[Degraded, ...]]:
        model, options = self._tools.llms.get("plan"), self._tools.options
        rejected = request.other_than
        try:
            async with deadline_in(PLAN_TIMEOUT_S):
                made = await plan_sub_questions(
                    request.query, language, model, options, other_than=rejected, emit=_ignore
                )
        except TimeoutError:
            plain = await plan_sub_questions(request.query, language, None, options, other_than=rejected, emit=_ignore)
            late = Plan(plain.questions, Spending.of_unfinished_call(is_free=model is None or model.is_free))
            return late, (Degraded(component="plan", reason=LATE_PLAN),)
        return made, made.degraded

    def _open_checkpoints(self, request: PlanRequest, *, fresh: bool = False) -> CheckpointStore:
        return self._tools.checkpoints(
            make_topic(request.query), choose_language(request.query, request.language), fresh=fresh
        )

    def _make_accepted_key(self, checkpoints: CheckpointStore, request: PlanRequest) -> str:
        return checkpoints.key(ACCEPTED_VERSION, "", query=request.query)


async def load_plan(tools: ReportTools, checkpoints: CheckpointStore, query: str) -> ResearchPlan | None:
    """Return the sub-questions that were planned for this question before, for a review or in a report; None without any."""
    stored = await checkpoints.get("search_queries", _make_plan_key(tools, checkpoints, query), ResearchPlan)
    return restore_plan(stored, query, tools.options.sub_questions)


async def store_plan(tools: ReportTools, checkpoints: CheckpointStore, plan: ResearchPlan) -> None:
    """Store a plan for `load_plan`."""
    await checkpoints.put("search_queries", _make_plan_key(tools, checkpoints, plan.query), plan)


def _make_plan_key(tools: ReportTools, checkpoints: CheckpointStore, query: str) -> str:
    count = tools.options.sub_questions
    return checkpoints.key(SUB_QUESTIONS_VERSION, tools.label("plan"), query=query, count=count)


def name_planner(tools: ReportTools, degraded: Sequence[Degraded]) -> str:
    """Return the model that planned, or DECOMPOSITION."""
    by = tools.get_model_label("plan") if tools.llms.get("plan") and not degraded else NO_MODEL
    return DECOMPOSITION if by == NO_MODEL else by


def _ignore(question: str) -> None:
    """Ignore a sub-question: all are returned together."""
