"""Plan the searches of a run: the question itself if it is shallow, up to three searches if it is deep (docs/reference/http.md).

A model writes the searches, and rules fill up the list. Without a model, or if it fails, rules write all of them. The
sub-questions of a report are planned in `report/planner.py`.
"""

from dataclasses import dataclass, replace
from functools import partial

from modules.llm_platform.application.research.events import Planned
from modules.llm_platform.application.research.find.plan_prompt import PLAN_VERSION, make_plan_request, parse_questions
from modules.llm_platform.application.research.find.round_queries import AskModel, RoundModel, ask_model, cache_model
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan, RoundAnswer
from modules.llm_platform.domain.exceptions import LLMException
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.research.decomposition import decompose_question
from modules.llm_platform.domain.research.question_selector import MAX_QUESTIONS, is_query, select_questions
from modules.llm_platform.domain.research.store_key import store_key

LATE_PLAN = "timeout: the model did not plan in time; the question was split without it"


@dataclass(frozen=True, slots=True)
class Plan:
    """Distinct questions to search, and what the plan cost.

    `by_model` is True if a model wrote at least one of them and its answer is complete.
    """

    questions: tuple[str, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()
    by_model: bool = False


@dataclass(frozen=True, slots=True)
class SearchPlanner:
    """Plans the searches of shallow and deep runs. Without `llm`, or if it is late, rules plan.

    - `plans` caches the searches of deep runs, and `round_answers` the queries of the model for further rounds, for `ttl_s`
      seconds. None and 0 seconds cache nothing.
    - `models` names the models that plan. It is part of the keys of both caches.
    """

    llm: ILLMProvider | None = None
    plans: ICache[ResearchPlan] | None = None
    round_answers: ICache[RoundAnswer] | None = None
    ttl_s: float = 0.0
    models: str = ""

    async def plan(self, run: Run, timeout_s: float) -> Plan:
        """Return the searches of the run, and emit them. The model gets `timeout_s` seconds.

        A shallow run searches for its question and emits nothing.
        """
        if run.request.depth == "shallow":
            return Plan((run.request.query,))
        if run.follow_up and run.follow_up.questions:
            planned = Plan(
                run.follow_up.questions
            )  # planned by the call that rewrote the follow-up question, so their cost is counted there
        else:
            planned = await self._plan_in_time(run.request.query, run.language, timeout_s)
        run.emit(Planned(request_id=run.request_id, questions=planned.questions))
        return planned

    async def _plan_in_time(self, question: str, language: str, timeout_s: float) -> Plan:
        """Return the plan of the model, or of the rules if the model is late."""
        try:
            async with deadline_in(timeout_s):
                return await self._find_or_make_plan(question, language)
        except TimeoutError:
            return replace(
                await plan(question, language, None),
                spent=Spending.of_unfinished_call(is_free=self.llm is None or self.llm.is_free),
                degraded=(Degraded(component="plan", reason=LATE_PLAN),),
            )

    async def _find_or_make_plan(self, question: str, language: str) -> Plan:
        """Return the cached plan of the question, or a new one. Only a complete plan of a model is cached."""
        if self.plans is None or self.llm is None or self.ttl_s <= 0:
            return await plan(question, language, self.llm)
        key = store_key(version=PLAN_VERSION, model=self.models or self.llm.name, language=language, deep=question)
        if cached := restore_plan(await self.plans.get(key), question, MAX_QUESTIONS):
            return Plan(cached.questions)
        made = await plan(question, language, self.llm)
        if made.by_model and not made.degraded:
            value = ResearchPlan(query=question, language=language, questions=made.questions, planner=self.llm.name)
            await self.plans.set(key, value, self.ttl_s)
        return made

    def make_round_model(self) -> RoundModel | None:
        """Return the model that adds queries to further rounds; None without a model."""
        if self.llm is None:
            return None
        ask: AskModel = partial(ask_model, self.llm)
        if self.round_answers is not None and self.ttl_s > 0:
            ask = cache_model(ask, self.round_answers, self.ttl_s, self.models or self.llm.name)
        return RoundModel(ask, self.llm.is_free)


@stage("plan")
async def plan(question: str, language: str, llm: ILLMProvider | None) -> Plan:
    """Return at most MAX_QUESTIONS searches. If the model fails, rules plan them, and `degraded` says why."""
    select = partial(select_questions, language=language, written=(question,))
    by_rules = decompose_question(question, language)
    if llm is None:
        return Plan(select(by_rules))
    try:
        answer = await llm.generate(make_plan_request(question, MAX_QUESTIONS))
    except LLMException as error:
        return Plan(select(by_rules), error.spent, (Degraded.of(f"plan/{llm.name}", error),))
    planned = select(parse_questions(answer.content, question, language))
    is_complete = bool(planned) and answer.finish_reason == "stop"
    return Plan(select([*planned, *by_rules]), answer.spent, answer.degraded, by_model=is_complete)


def restore_plan(stored: ResearchPlan | None, question: str, limit: int) -> ResearchPlan | None:
    """Return a stored plan with its first `limit` questions that may be searched for; None if there are none."""
    questions = tuple(text for text in stored.questions if is_query(text, (question,))) if stored else ()
    return stored.model_copy(update={"questions": questions[:limit]}) if stored and questions else None
