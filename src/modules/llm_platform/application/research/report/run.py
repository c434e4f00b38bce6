"""What a report is made with (`ReportTools`), and one report under way (`ReportRun`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from modules.llm_platform.application.research.budget import Budget, BudgetedLLM, Phase
from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.text.messages import messages_for

NO_MODEL = "none"  # in the key of what was made without one


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The operator's settings of a report: seconds, counts, tokens. `offline`: nothing beyond this machine is asked."""

    timeout_s: float = 900.0
    pages: int = 5
    queries_per_language: int = 1
    query_languages: tuple[str, ...] = ()
    read_early: bool = False
    results_per_search: int = 10
    max_tokens: int = 4096
    context_tokens: int = 32_000
    offline: bool = False


@dataclass(frozen=True, slots=True)
class ReportTools:
    """The parts that a report is made with.

    `llms` has a model for every stage, or is empty. `writer` makes the writer that asks the given model (None: there is
    none) within so many tokens of context. `judge` makes the judge of citations that asks the given model; None: citations
    are checked by their words alone. `labels` name, for the keys of the store, who serves "search", "read" and each
    stage. `price` is what a call costs in US dollars by its tokens, None where that is not known.
    """

    search: WebSearchService
    pages: PageService
    store: IResearchStore
    llms: Mapping[LLMStage, ILLMProvider]
    writer: Callable[[ILLMProvider | None, int], ISynthesizer]
    last_resort: ISynthesizer
    judge: Callable[[ILLMProvider | None], ICitationJudge | None] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    price: Callable[[int, int], float] | None = None
    options: ReportOptions = field(default_factory=ReportOptions)

    def label(self, part: str) -> str:
        return self.labels.get(part, NO_MODEL)

    def model_of(self, stage: LLMStage) -> str:
        """Who serves a stage, for people: its label without the digest of the address."""
        return self.label(stage).partition("@")[0]


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One report under way: what is asked, whom to tell, what may be spent, what is kept, and what went wrong so far."""

    order: ResearchContext
    tools: ReportTools
    budget: Budget
    shelf: CheckpointStore
    degraded: list[Degraded] = field(default_factory=list)

    @property
    def request(self) -> ResearchRequest:
        return self.order.request

    @property
    def request_id(self) -> str:
        return self.order.request_id

    @property
    def language(self) -> str:
        return self.order.language

    @property
    def options(self) -> ReportOptions:
        return self.tools.options

    def llm(self, stage: LLMStage, phase: Phase | None = None) -> ILLMProvider | None:
        """The model of a stage, within the budget, until the end of `phase` (by default the stage's); None where there is
        none.
        """
        model = self.tools.llms.get(stage)
        return BudgetedLLM(model, self.budget, stage, phase) if model else None

    def context_tokens(self, stage: LLMStage, max_tokens: int) -> int:
        """How long prompt and answer together may be: what the models hold, or what the budget still pays for."""
        room = self.budget.room(stage, max_tokens)
        return self.options.context_tokens if room is None else min(self.options.context_tokens, room + max_tokens)

    def tell(self, event: ResearchEvent) -> None:
        self.order.tell(event)

    def note(self, *degraded: Degraded) -> None:
        """Remember what went wrong."""
        self.degraded.extend(degraded)

    def note_stage(self, stage: LLMStage, degraded: Iterable[Degraded]) -> bool:
        """Remember what went wrong in a stage; whether the stage itself did its work, be it after a failover."""
        entries = tuple(degraded)
        self.note(*entries)
        return not any(entry.component.partition("/")[0] == stage for entry in entries)

    def stage_key(self, stage: LLMStage, version: str, **inputs: object) -> str:
        """The key of what the stage's model makes of these inputs."""
        return self.shelf.key(version, self.tools.label(stage), **inputs)


# What a report had to do without, as its text and its `degraded` say it.


LATE = "timeout:"  # how the reason begins where a stage did not come to its end
OF_THE_TIME = "max_seconds"  # what a model's reason names where its stage had no more time
LEFT_OUT = "budget: {calls} calls left out"
STOOD_IN = "stand_in: {count} of {all} results have a score that stands in for the model's"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Calls of a model that the limits refused, by stage; results that no model scored though there is one, of how many;
    whether something came to no end in its time.
    """

    left_out: Mapping[LLMStage, int]
    stood_in: int
    results: int
    late: bool

    @property
    def is_of_the_limits(self) -> bool:
        """Whether another run with more room would have more."""
        return bool(self.left_out) or self.late

    def degraded(self) -> tuple[Degraded, ...]:
        left_out = [Degraded(component=stage, reason=LEFT_OUT.format(calls=n)) for stage, n in self.left_out.items()]
        stood_in = Degraded(component="rank", reason=STOOD_IN.format(count=self.stood_in, all=self.results))
        return (*left_out, stood_in) if self.stood_in else tuple(left_out)

    def in_words(self, language: str) -> str:
        """A paragraph behind the text, empty where nothing is missing."""
        own = messages_for(language)
        said = []
        # Without a judge nothing is missing in the text: `degraded` says that the words decided.
        if missing := {stage: calls for stage, calls in self.left_out.items() if stage != "judge"}:
            what = ", ".join(f"{calls} × {stage}" for stage, calls in missing.items())
            said.append(own.left_out.replace("{what}", what))
        if self.late:
            said.append(own.late)
        if self.stood_in:
            said.append(own.stood_in.replace("{count}", str(self.stood_in)))
        return f"\n\n{' '.join(said)}" if said else ""


def is_late(degraded: Iterable[Degraded]) -> bool:
    """Whether one of these, but for the judge of citations, came to no end in its time."""
    return any(
        entry.reason.startswith(LATE) or OF_THE_TIME in entry.reason
        for entry in degraded
        if not entry.component.startswith("judge")
    )
