"""The parts that every report uses (`ReportTools`), and the state of one running report (`ReportRun`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Self

from modules.llm_platform.application.research.budget import Budget, Phase, Price
from modules.llm_platform.application.research.budgeted_llm import BudgetedLLM
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.store_dtos import Topic
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.llm import ContextTokens, ILLMProvider
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.research.question_selector import MAX_QUESTIONS
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.messages import get_messages

SECONDS_PASSED = "max_seconds passed before anything was found: raise it, or leave it out"
NO_MODEL = "none"  # label in store keys where no model is used


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The operator's settings of a report, in seconds, counts and tokens.

    The setting REPORT_PAGES is the option `pages`: a setting `REPORT_…` sets the option of its name, if there is one. An option
    is part of the key of a stored report unless `EXCLUDED_OPTIONS` names it.
    """

    timeout_s: float = 900.0
    pages: int = 5
    sub_questions: int = MAX_QUESTIONS
    query_languages: tuple[str, ...] = ()
    results_per_search: int = 10
    max_tokens: int = 4096
    context_tokens: int = 32_000  # `ReportTools.context` replaces it, if there is one
    offline: bool = False
    model_ends_rounds: bool = False  # the further rounds end when the model says that nothing is missing
    section_tokens: int = 0  # tokens of sources for each section; if 0, one call writes the whole report


@dataclass(frozen=True, slots=True)
class ReportTools:
    """The parts that every report uses.

    - `llms` maps a stage to its model. Rules replace a missing model.
    - `writer` builds a writer for a model (or None) and a context size in tokens.
    - `judge` builds a citation judge for a model. If it is None, only words are compared.
    - `support_model` decides what the word comparison leaves in doubt. If it is None, the word comparison decides.
    - `labels` name the provider of "search", "read" and each stage in store keys.
    - `price` returns the cost of a call; None if prices are unknown.
    - `lock` lets one of several processes with the same store make a report.
    """

    search: IWebSearchProvider
    pages: IPageReader
    store: IResearchStore
    llms: Mapping[LLMStage, ILLMProvider]
    writer: Callable[[ILLMProvider | None, int], ISynthesizer]
    fallback: ISynthesizer
    judge: Callable[[ILLMProvider | None], ICitationJudge | None] | None = None
    support_model: ISupportModel | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    price: Price | None = None
    options: ReportOptions = field(default_factory=ReportOptions)
    context: ContextTokens | None = None
    metrics: IMetrics = NO_METRICS
    lock: IKeyLock = NO_KEY_LOCK

    def open_checkpoints(self, topic: Topic, language: str, *, fresh: bool) -> CheckpointStore:
        return CheckpointStore(self.store, topic, language, fresh=fresh, metrics=self.metrics)

    async def with_context(self) -> ReportTools:
        """Return the tools with the current context window of the models. An answer gets at most half of the window."""
        if self.context is None:
            return self
        tokens = await self.context()
        max_tokens = min(self.options.max_tokens, tokens // 2)
        return replace(self, options=replace(self.options, context_tokens=tokens, max_tokens=max_tokens))

    def get_label(self, part: str) -> str:
        return self.labels.get(part, NO_MODEL)

    def get_model_label(self, stage: LLMStage) -> str:
        """Return the label of a stage for display, without the digest of the address."""
        return self.get_label(stage).partition("@")[0]


@dataclass(slots=True, kw_only=True)
class ReportRun(Run):
    """A run that makes a report, with its tools, budget and checkpoints, and the degradations so far."""

    tools: ReportTools
    budget: Budget
    checkpoints: CheckpointStore
    degraded: list[Degraded] = field(default_factory=list)
    quoted_sections: int = 0  # quotes have taken the place of these, because the model failed
    reads: Counter[str] = field(default_factory=Counter)  # fields of ReadCounts

    @classmethod
    def of(cls, run: Run, *, tools: ReportTools, budget: Budget, checkpoints: CheckpointStore) -> Self:
        shared = {known.name: getattr(run, known.name) for known in fields(Run)}
        return cls(**shared, tools=tools, budget=budget, checkpoints=checkpoints)

    @property
    def options(self) -> ReportOptions:
        return self.tools.options

    @property
    def writes_sections(self) -> bool:
        """True if a model writes the report, each section in a call of its own."""
        return bool(self.options.section_tokens) and "write" in self.tools.llms

    def make_timeout_error(self) -> ResearchTimeoutError:
        """Return the error of a run that found nothing in time. It names the limit that ended the run."""
        seconds = self.request.max_seconds
        is_own_limit = seconds is not None and seconds < self.options.timeout_s
        return ResearchTimeoutError(SECONDS_PASSED if is_own_limit else None)

    def get_llm(self, stage: LLMStage, phase: Phase | None = None) -> ILLMProvider | None:
        """Return the stage's model within the budget and the deadline of `phase`; None without a model.

        The phase is the stage's own by default.
        """
        model = self.tools.llms.get(stage)
        return BudgetedLLM(model, self.budget, stage, phase) if model else None

    def compute_context_tokens(self, stage: LLMStage, max_tokens: int, calls: int = 1) -> int:
        """Return how many tokens prompt and answer of each call may have together.

        That is the models' context, or less if the budget is too small for the calls. `max_tokens` limits all answers together.
        """
        room = self.budget.set_aside_prompt_tokens(stage, max_tokens)
        tokens = self.options.context_tokens
        return tokens if room is None else min(tokens, (room + max_tokens) // calls)

    def add_degraded(self, *degraded: Degraded) -> None:
        self.degraded.extend(degraded)

    def record_stage(self, stage: LLMStage, degraded: Iterable[Degraded]) -> bool:
        """Add the entries, and return whether the result of the stage may be stored.

        It may not if the model of the stage gave no answer. A failover to another model is not a reason. If an answer could not
        be used, the result of the rules is stored, because asking the model again costs again.
        """
        entries = tuple(degraded)
        self.add_degraded(*entries)
        return all(entry.component.partition("/")[0] != stage or entry.is_unusable_answer for entry in entries)

    def make_stage_key(self, stage: LLMStage, version: str, **inputs: object) -> str:
        """Return the store key of what the stage's model makes of these inputs."""
        return self.checkpoints.make_key(version, self.tools.get_label(stage), **inputs)


LEFT_OUT = "budget: {calls} left out"
DEFAULTED = "stand_in: {count} of {results} {have} no score from the model"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What a report lacks.

    - `refused_calls` counts the model calls of each stage that the limits refused.
    - `defaulted` of the `results` have no score from the model.
    - `late` is True if a stage ran out of time.
    - `fewer_rounds` is True if a limit of the request, or its caller, ended the further rounds.
    """

    refused_calls: Mapping[LLMStage, int]
    defaulted: int
    results: int
    late: bool
    fewer_rounds: bool = False

    @property
    def is_caused_by_limits(self) -> bool:
        """True if a run with higher limits would contain more."""
        return bool(self.refused_calls) or self.late or self.fewer_rounds

    def list_degraded(self) -> tuple[Degraded, ...]:
        refused = [
            Degraded(component=stage, reason=LEFT_OUT.format(calls=format_count(calls, "call")))
            for stage, calls in self.refused_calls.items()
        ]
        if not self.defaulted:
            return tuple(refused)
        have, results = "has" if self.defaulted == 1 else "have", format_count(self.results, "result")
        reason = DEFAULTED.format(count=self.defaulted, results=results, have=have)
        return (*refused, Degraded(component="rank", reason=reason))

    def write_message(self, language: str) -> str:
        """Return a paragraph to append to the text; empty if no stage ran out of time. `list_degraded` has the details."""
        return f"\n\n{get_messages(language).late}" if self.late else ""


def is_timed_out(degraded: Iterable[Degraded]) -> bool:
    """Return whether a stage ran out of time; the citation judge does not count."""
    return any(entry.is_timeout for entry in degraded if not entry.component.startswith("judge"))
