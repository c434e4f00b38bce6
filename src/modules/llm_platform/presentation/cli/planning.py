"""The plan of a report before it begins: printed for `--plan-only`, gone over by the person at a terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from modules.llm_platform.application.research.plan import sub_questions
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.ledger import Ledger, opened
from modules.llm_platform.domain.own_words import FALLBACK_LANGUAGE
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import run
from modules.llm_platform.presentation.cli.output_file import Delivery
from modules.llm_platform.presentation.cli.wiring import Wiring
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.application.services.research_service import ResearchService

Result = TypeVar("Result")

GIVEN = "given"  # who made the plan of `--plan`
DECOMPOSITION = "decomposition"  # who made the plan where no model may be asked


@dataclass(frozen=True, slots=True)
class GoneOver:
    """The sub-questions that a person wants, what was sent out to think of them, and what that cost."""

    questions: tuple[str, ...]
    sent: tuple[Sent, ...]
    spent: Spending = NOTHING_SPENT

    def left(self, request: ResearchRequest) -> dict[str, Any]:
        """What is left of the limits: while planning nobody but models is asked."""
        calls, dollars = request.max_llm_calls, request.max_cost_usd
        return {
            "max_llm_calls": None if calls is None else max(0, calls - _requests(self.sent)),
            "max_cost_usd": None if dollars is None else max(0.0, dollars - (self.spent.cost_usd or 0.0)),
        }

    def added_to(self, response: ResearchResponse) -> ResearchResponse:
        """The answer, whose ledger and account know of the planning too."""
        sums: dict[tuple[str, str, str | None], Sent] = {}
        for each in (*response.metadata.sent_to, *self.sent):
            key = (each.host, each.kind, each.via)
            held = sums.get(key)
            more = {"requests": held.requests + each.requests, "bytes": held.bytes + each.bytes} if held else {}
            sums[key] = each.model_copy(update=more)
        meta, spent = response.metadata, self.spent
        unknown = meta.cost_usd is None or spent.cost_usd is None
        account = {
            "sent_to": tuple(sorted(sums.values(), key=lambda each: (each.host, each.kind, each.via or ""))),
            "llm_calls": meta.llm_calls + spent.calls,
            "tokens_used": meta.tokens_used + spent.tokens,
            "cost_usd": None if unknown else (meta.cost_usd or 0.0) + (spent.cost_usd or 0.0),
        }
        return response.model_copy(update={"metadata": meta.model_copy(update=account)})


def is_gone_over(
    console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, delivery: Delivery
) -> bool:
    """Whether a person is there to look at the plan of a report, none was given, and there is anything to look into with
    it: where nothing can be searched or read, a report can only come out of the store, with the plan that it has there.
    """
    wanted = request.plan is None and delivery.ask and not delivery.as_json
    return wanted and console.answers and bool(request.urls or wiring.search_order(settings))


def gone_over(console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest) -> GoneOver:
    """The sub-questions that the person wants. The platform is closed while they think: nothing is held open for that."""
    from modules.llm_platform.presentation.cli.plan_editor import PlanEditor

    with opened() as ledger:
        planning = _Planning(console, wiring, settings, request, ledger)
        shown = planning.accepted_before() or planning.made().questions
        questions = PlanEditor(console, shown, planning.made).run()
    return GoneOver(questions, ledger.sent(), planning.spent)


async def keep(platform: LLMPlatform, request: ResearchRequest) -> None:
    """Have the platform remember the plan that the person accepted, before anything is spent on it."""
    await platform.research.accept_plan(_plan_request(request), request.plan or ())


def show(console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, *, as_json: bool) -> None:
    """Print the plan, so that it can be kept as a file for `--plan`."""
    plan = _given(request) if request.plan else _Planning(console, wiring, settings, request, Ledger()).made()
    if as_json:
        from modules.llm_platform.presentation.cli.as_json import plan_json

        console.verbatim(plan_json(plan))
    else:
        console.lines(Line(question) for question in plan.questions)


@dataclass(slots=True)
class _Planning:
    """The platform's plans for one request, and what they cost so far; what went otherwise is told on standard error."""

    console: Console
    wiring: Wiring
    settings: Settings
    request: ResearchRequest
    ledger: Ledger
    spent: Spending = NOTHING_SPENT

    def accepted_before(self) -> tuple[str, ...]:
        """What the person accepted when the same was asked before, a report that was killed meanwhile included."""
        if self.request.fresh:
            return ()
        plan = run(self._asked(lambda research: research.accepted_plan(_plan_request(self.request))))
        if plan is None:
            return ()
        when = plan.accepted_at.astimezone().strftime("%Y-%m-%d %H:%M")
        self.console.warn(f"This is the plan that you accepted on {when}; n makes a new one.")
        return plan.questions

    def made(self, other_than: tuple[str, ...] = ()) -> ResearchPlan:
        """A plan by the platform. No model is asked once the calls or the dollars of the request are used up."""
        from modules.llm_platform.presentation.cli.for_people import notes

        self.console.step("planning …")
        asked = _plan_request(self.request, other_than)
        if self._is_used_up:
            return run(_taken_apart(asked))
        plan = run(self._asked(lambda research: research.plan(asked)))
        self.spent += plan.spent
        for note in notes(None, plan.degraded):
            self.console.warn(note)
        return plan

    @property
    def _is_used_up(self) -> bool:
        calls, dollars = self.request.max_llm_calls, self.request.max_cost_usd
        no_calls = calls is not None and _requests(self.ledger.sent()) >= calls
        return no_calls or (dollars is not None and (self.spent.cost_usd or 0.0) >= dollars)

    async def _asked(self, work: Callable[[ResearchService], Awaitable[Result]]) -> Result:
        async with self.wiring.build_platform(self.settings) as platform:
            return await work(platform.research)


async def _taken_apart(asked: PlanRequest) -> ResearchPlan:
    """What the platform would answer without a model."""
    language = _language(asked)
    plan = await sub_questions(asked.query, language, None, other_than=asked.other_than, tell=_nobody_listens)
    return ResearchPlan(query=asked.query, language=language, questions=plan.questions, planner=DECOMPOSITION)


def _plan_request(request: ResearchRequest, other_than: tuple[str, ...] = ()) -> PlanRequest:
    return PlanRequest(query=request.query, language=request.language, other_than=other_than)


def _given(request: ResearchRequest) -> ResearchPlan:
    """The plan of `--plan`, as the report would take it."""
    return ResearchPlan(query=request.query, language=_language(request), questions=request.plan or (), planner=GIVEN)


def _language(asked: PlanRequest | ResearchRequest) -> str:
    return asked.language or detect(asked.query) or FALLBACK_LANGUAGE


def _requests(sent: tuple[Sent, ...]) -> int:
    return sum(each.requests for each in sent)


def _nobody_listens(question: str) -> None:
    """A plan for a person is shown whole."""
