"""Build the parts that write, plan and judge, with language models or without one."""

from collections.abc import Callable
from typing import Literal

from modules.llm_platform.application.research.budget import Price
from modules.llm_platform.application.research.follow_up import UNDERSTAND_TIMEOUT_S
from modules.llm_platform.application.research.structured_output import StructuredOutput
from modules.llm_platform.application.research.writers.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.research_dtos import StoredVerdicts, Synthesis
from modules.llm_platform.domain.llm.context_budget import SOURCES_BUDGET_TOKENS
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ContextTokens, ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.infrastructure.cache.from_settings import SharedState
from modules.llm_platform.infrastructure.models.from_settings.chat_models import (
    LLMAdapters,
    compute_first_token_timeout_s,
    compute_research_timeout_s,
    has_local_model,
    llm_connections,
    model_version,
    sources_budget_tokens,
    stage_choices,
)
from modules.llm_platform.infrastructure.models.llm_router import LLMRouter
from modules.llm_platform.infrastructure.models.single_flight import SingleFlightLLM
from shared.config import Settings


def compute_follow_up_timeout_s(settings: Settings) -> float:
    """Return the limit in seconds for a model to understand a follow-up question. A local one has its first-token limit."""
    return compute_first_token_timeout_s(settings, is_local=True) if has_local_model(settings) else UNDERSTAND_TIMEOUT_S


def build_planner(llm: ILLMProvider | None) -> ILLMProvider | None:
    """Return the model that plans a deep research run. Equal plans at the same time are one call."""
    return SingleFlightLLM(llm) if llm else None


def build_writer(
    extractive: ISynthesizer,
    llm: ILLMProvider | None,
    context_tokens: int | ContextTokens,
    sources_tokens: int = SOURCES_BUDGET_TOKENS,
) -> ISynthesizer:
    """Return the synthesizer of a model, or the extractive one without a model."""
    if llm is None:
        return extractive
    from modules.llm_platform.application.research.writers.llm_synthesizer import LLMSynthesizer

    return LLMSynthesizer(llm, context_tokens=context_tokens, sources_tokens=sources_tokens)


def build_synthesizer(
    settings: Settings,
    llm: ILLMProvider | None,
    adapters: LLMAdapters,
    extractive: ISynthesizer,
    context_tokens: ContextTokens,
    shared: SharedState,
) -> ISynthesizer:
    if llm is None:
        return extractive
    room = sources_budget_tokens(settings, adapters)
    writer = build_writer(extractive, llm, context_tokens, room)
    cache, lock = shared.cache("synthesis", Synthesis), shared.lock("synthesis", compute_research_timeout_s(settings))
    version = f"{model_version(adapters)}/{room}"
    return SharedSynthesizer(writer, cache, settings.CACHE_TTL_S, version, lock)


CitationJudges = Callable[[ILLMProvider | None], ICitationJudge | None]


def build_citation_judges(context_tokens: ContextTokens) -> CitationJudges:
    """Return a function that builds the judge for a model."""
    from modules.llm_platform.application.research.verification import LLMCitationJudge

    return lambda llm: LLMCitationJudge(llm, context_tokens=context_tokens) if llm else None


def build_report_judge(settings: Settings, judges: CitationJudges, adapters: LLMAdapters) -> CitationJudges | None:
    return None if choose_judged_answers(settings, adapters) == "off" else judges


def choose_judged_answers(
    settings: Settings, among: LLMAdapters | None = None
) -> Literal["off", "report", "auto", "all"]:
    """Return the kind of answers that a model judges.

    `auto` resolves to `off` if the judging model is local, because small models give worse verdicts than word comparison and
    take long on a CPU. `among` names the models of the run. None means all.
    """
    if settings.CITATION_JUDGE != "auto":
        return settings.CITATION_JUDGE
    connections = {
        connection.name: connection
        for connection in llm_connections(settings)
        if among is None or connection.name in among
    }
    judge = connections.get(stage_choices(settings).get("judge") or next(iter(connections), ""))
    return "off" if judge is not None and judge.is_local else "auto"


def build_answer_judge(settings: Settings, judges: CitationJudges, llm: ILLMProvider | None) -> ICitationJudge | None:
    """Return the judge of answers from documents and from given context."""
    return build_judge(settings, judges, llm) if choose_judged_answers(settings) == "all" else None


def build_judge(settings: Settings, judges: CitationJudges, llm: ILLMProvider | None) -> ICitationJudge | None:
    """Return the judge, whether it is turned on or not. LLM_STAGES may name its model."""
    first = stage_choices(settings).get("judge")
    return judges(llm.preferring(first) if first and isinstance(llm, LLMRouter) else llm)


def build_research_judge(
    settings: Settings, judges: CitationJudges, llm: ILLMProvider | None, adapters: LLMAdapters, shared: SharedState
) -> ICitationJudge | None:
    """Return the judge of quick and deep answers, with a cache, because their texts are cached as well."""
    judge = build_judge(settings, judges, llm) if choose_judged_answers(settings, adapters) in ("auto", "all") else None
    if judge is None or settings.CACHE_TTL_S <= 0:
        return judge
    from modules.llm_platform.application.research.verification import CachedCitationJudge

    return CachedCitationJudge(
        judge, shared.cache("verdicts", StoredVerdicts), settings.CACHE_TTL_S, model_version(adapters)
    )


def build_output(
    settings: Settings, llm: ILLMProvider | None, context_tokens: ContextTokens, price: Price | None
) -> StructuredOutput | None:
    """Return the part that fills the schema of a request, or None without a model. LLM_STAGES may name its model."""
    if llm is None:
        return None
    first = stage_choices(settings).get("output")
    chosen = llm.preferring(first) if first and isinstance(llm, LLMRouter) else llm
    return StructuredOutput(chosen, context_tokens=context_tokens, price=price)
