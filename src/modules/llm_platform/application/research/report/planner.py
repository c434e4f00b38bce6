"""Plan the sub-questions of a report, and store the plans that a user reviews and accepts.

A model plans them. A decomposition by rules completes its list if necessary, and replaces the model if none is configured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from modules.llm_platform.application.research.report.run import NO_MODEL, ReportTools
from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.content_words import shares_content_word
from modules.llm_platform.domain.research.decomposition import aspect_questions, covers_every_part
from modules.llm_platform.domain.research.question_selector import QuestionSelector
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.domain.text.language import choose_language

PLAN_TIMEOUT_S = 60.0
DECOMPOSITION = "decomposition"
ACCEPTED_VERSION = "accepted"  # replaces a prompt version: an accepted plan is valid for every model
UNUSABLE = "llm_provider: its answer contained no sub-question; the question was split without it"
PARTIAL = "llm_provider: its only sub-question leaves out a part of the question; the question was split without it"


@dataclass(frozen=True, slots=True)
class SubQuestionTask:
    """The task to plan at most `limit` sub-questions of a question.

    The reader rejected the sub-questions in `other_than`. They are planned again only if there are no others. With
    `names_topic`, a sub-question of the model must have a content word of the question: a small model also asks "What is the
    subject of the question?".
    """

    question: str
    language: str
    limit: int
    other_than: Sequence[str] = ()
    names_topic: bool = False

    def admits(self, sub_question: str) -> bool:
        """Return whether a sub-question of the model may be part of the plan."""
        return not self.names_topic or shares_content_word(sub_question, self.question, self.language)


@stage("plan")
async def plan_sub_questions(task: SubQuestionTask, llm: ILLMProvider | None, *, emit: Callable[[str], None]) -> Plan:
    """Plan sub-questions, and emit each as soon as it is known.

    If the model fails, or plans no sub-question or only one that leaves out a part of the question, the decomposition
    completes the plan, and `degraded` says why.
    """
    selected = _make_selector(task, emit, taken=task.other_than)
    planned = await _ask_planner(llm, task, selected) if llm is not None else _ModelPlan()
    if not planned.is_complete:
        selected.add_all(aspect_questions(task.question, task.language))
    if not selected.items:
        selected = _make_selector(task, emit)
        selected.add_all(aspect_questions(task.question, task.language))
    return Plan(tuple(selected.items), planned.spent, planned.degraded)


def _make_selector(task: SubQuestionTask, emit: Callable[[str], None], taken: Sequence[str] = ()) -> QuestionSelector:
    return QuestionSelector(task.language, written=(task.question,), taken=taken, limit=task.limit, emit=emit)


@dataclass(frozen=True, slots=True)
class _ModelPlan:
    """What a model's plan cost and what failed. `is_complete` is True if it needs no sub-question of the decomposition."""

    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()
    is_complete: bool = False


async def _ask_planner(llm: ILLMProvider, task: SubQuestionTask, selected: QuestionSelector) -> _ModelPlan:
    """Add the sub-questions of the model to `selected`, each as soon as its line is complete."""
    component = f"plan/{llm.name}"
    question, language = task.question, task.language

    def add(sub_question: str) -> None:
        if task.admits(sub_question):
            selected.add(sub_question)

    try:
        request = make_sub_questions_request(question, language, task.limit, task.other_than)
        answer = await stream_list(llm, request, add)
    except LLMException as error:
        return _ModelPlan(error.spent, (Degraded.of(component, error),))
    for planned_line in parse_questions(answer.content, question, language):  # reads lines without the prefix too
        add(planned_line)
    planned = selected.items
    is_complete = len(planned) > 1 or any(
        task.other_than or covers_every_part(sub_question, question, language) for sub_question in planned
    )
    if is_complete:
        return _ModelPlan(answer.spent, answer.degraded, is_complete=True)
    unusable = Degraded(component=component, reason=PARTIAL if planned else UNUSABLE)
    return _ModelPlan(answer.spent, (*answer.degraded, unusable))


class Planner:
    """Makes plans for review, and stores the accepted ones."""

    def __init__(self, tools: ReportTools) -> None:
        self._tools = tools

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        """Return sub-questions for review. A stored plan is returned unless the request rejects sub-questions (`other_than`)."""
        language, tools = choose_language(request.query, request.language), self._tools
        checkpoints = self._open_checkpoints(request, fresh=bool(request.other_than))
        if stored := await load_plan(tools, checkpoints, request.query):
            return await self._add_estimate(stored.model_copy(update={"spent": NOTHING_SPENT}), request)
        made = await self._generate(request, language)
        plan = ResearchPlan(
            query=request.query,
            language=language,
            questions=made.questions,
            planner=name_planner(tools, made.degraded),
            degraded=made.degraded,
            spent=made.spent,
        )
        if all(entry.is_unusable_answer for entry in made.degraded):
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
        """Return the plan that was accepted last; None if there is none or it has expired."""
        checkpoints = self._open_checkpoints(request)
        return await checkpoints.get("search_queries", self._make_accepted_key(checkpoints, request), AcceptedPlan)

    async def _generate(self, request: PlanRequest, language: str) -> Plan:
        model = self._tools.llms.get("plan")
        options = self._tools.options
        task = SubQuestionTask(
            request.query, language, options.sub_questions, request.other_than, names_topic=bool(options.section_tokens)
        )
        try:
            async with deadline_in(PLAN_TIMEOUT_S):
                return await plan_sub_questions(task, model, emit=_ignore)
        except TimeoutError:
            plain = await plan_sub_questions(task, None, emit=_ignore)
            spent = Spending.of_unfinished_call(is_free=model is None or model.is_free)
            return Plan(plain.questions, spent, (Degraded(component="plan", reason=LATE_PLAN),))

    def _open_checkpoints(self, request: PlanRequest, *, fresh: bool = False) -> CheckpointStore:
        return self._tools.open_checkpoints(
            make_topic(request.query), choose_language(request.query, request.language), fresh=fresh
        )

    def _make_accepted_key(self, checkpoints: CheckpointStore, request: PlanRequest) -> str:
        return checkpoints.make_key(ACCEPTED_VERSION, "", query=request.query)


async def load_plan(tools: ReportTools, checkpoints: CheckpointStore, query: str) -> ResearchPlan | None:
    """Return the plan that a review or a report stored for this question; None if there is none."""
    stored = await checkpoints.get("search_queries", _make_plan_key(tools, checkpoints, query), ResearchPlan)
    return restore_plan(stored, query, tools.options.sub_questions)


async def store_plan(tools: ReportTools, checkpoints: CheckpointStore, plan: ResearchPlan) -> None:
    """Store a plan for `load_plan`."""
    await checkpoints.put("search_queries", _make_plan_key(tools, checkpoints, plan.query), plan)


def _make_plan_key(tools: ReportTools, checkpoints: CheckpointStore, query: str) -> str:
    count = tools.options.sub_questions
    return checkpoints.make_key(SUB_QUESTIONS_VERSION, tools.get_label("plan"), query=query, count=count)


def name_planner(tools: ReportTools, degraded: Sequence[Degraded]) -> str:
    """Return the label of the model that planned, or DECOMPOSITION."""
    by = tools.get_model_label("plan") if tools.llms.get("plan") and not degraded else NO_MODEL
    return DECOMPOSITION if by == NO_MODEL else by


def _ignore(question: str) -> None:
    """Ignore a sub-question, because all are returned together at the end."""
