"""The plan of a report before it begins: printed for `--plan-only`, gone over by the person at a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from modules.llm_platform.application.research.plan import sub_questions
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

GIVEN = "given"  # who made the plan of `--plan`
DECOMPOSITION = "decomposition"  # who made the plan where no model may be asked


@dataclass(frozen=True, slots=True)
class GoneOver:
    """The sub-questions that a person wants, and what was sent out to think of them."""

    questions: tuple[str, ...]
    sent: tuple[Sent, ...]

    def left(self, max_llm_calls: int | None) -> int | None:
        """What is left of this limit: while planning nobody but models is asked."""
        return None if max_llm_calls is None else max(0, max_llm_calls - _requests(self.sent))

    def added_to(self, response: ResearchResponse) -> ResearchResponse:
        """The answer, whose ledger knows of the planning too."""
        sums: dict[tuple[str, str], Sent] = {}
        for each in (*response.metadata.sent_to, *self.sent):
            held = sums.get((each.host, each.kind))
            more = {"requests": held.requests + each.requests, "bytes": held.bytes + each.bytes} if held else {}
            sums[each.host, each.kind] = each.model_copy(update=more)
        sent = tuple(sums[key] for key in sorted(sums))
        return response.model_copy(update={"metadata": response.metadata.model_copy(update={"sent_to": sent})})


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

        def plans(other_than: tuple[str, ...]) -> ResearchPlan:
            return _made(console, wiring, settings, request, ledger, other_than)

        questions = PlanEditor(console, plans(()).questions, plans).run()
    return GoneOver(questions, ledger.sent())


def show(console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, *, as_json: bool) -> None:
    """Print the plan, so that it can be kept as a file for `--plan`."""
    plan = _given(request) if request.plan else _made(console, wiring, settings, request, Ledger())
    if as_json:
        from modules.llm_platform.presentation.cli.as_json import plan_json

        console.verbatim(plan_json(plan))
    else:
        console.lines(Line(question) for question in plan.questions)


def _made(
    console: Console,
    wiring: Wiring,
    settings: Settings,
    request: ResearchRequest,
    ledger: Ledger,
    other_than: tuple[str, ...] = (),
) -> ResearchPlan:
    """The platform's plan; what went otherwise is told on standard error. No model is asked once `max_llm_calls` are made."""
    from modules.llm_platform.presentation.cli.for_people import notes

    console.step("planning …")
    asked = PlanRequest(query=request.query, language=request.language, other_than=other_than)
    if request.max_llm_calls is not None and _requests(ledger.sent()) >= request.max_llm_calls:
        return run(_taken_apart(asked))
    plan = run(_plan(wiring, settings, asked))
    for note in notes(None, plan.degraded):
        console.warn(note)
    return plan


async def _plan(wiring: Wiring, settings: Settings, asked: PlanRequest) -> ResearchPlan:
    async with wiring.build_platform(settings) as platform:
        return await platform.research.plan(asked)


async def _taken_apart(asked: PlanRequest) -> ResearchPlan:
    """What the platform would answer without a model."""
    language = _language(asked)
    plan = await sub_questions(asked.query, language, None, other_than=asked.other_than, tell=_nobody_listens)
    return ResearchPlan(query=asked.query, language=language, questions=plan.questions, planner=DECOMPOSITION)


def _given(request: ResearchRequest) -> ResearchPlan:
    """The plan of `--plan`, as the report would take it."""
    return ResearchPlan(query=request.query, language=_language(request), questions=request.plan or (), planner=GIVEN)


def _language(asked: PlanRequest | ResearchRequest) -> str:
    return asked.language or detect(asked.query) or FALLBACK_LANGUAGE


def _requests(sent: tuple[Sent, ...]) -> int:
    return sum(each.requests for each in sent)


def _nobody_listens(question: str) -> None:
    """A plan for a person is shown whole."""
