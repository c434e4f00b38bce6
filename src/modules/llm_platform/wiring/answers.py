"""Build what answers questions: for all configured models, for a chosen model, and for the files of a request."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from hashlib import sha256

from modules.llm_platform.application.research.find.plan import SearchPlanner
from modules.llm_platform.application.research.find.read_pages import ReadOptions
from modules.llm_platform.application.research.follow_up import UNDERSTAND_TIMEOUT_S, FollowUps
from modules.llm_platform.application.research.pipelines import ResearchPipelines, ResearchVariants
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.quick_tools import QuickTools, ResearchOptions
from modules.llm_platform.application.research.report.reporter import Reporter
from modules.llm_platform.application.research.report.run import ReportOptions, ReportTools
from modules.llm_platform.application.research.structured_output import StructuredOutput
from modules.llm_platform.domain.dtos.citation_dtos import StoredVerdicts
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan, RoundAnswer
from modules.llm_platform.domain.dtos.request_dtos import StoredTurns
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.research_job_store import IResearchJobStore
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.cache.from_settings import SharedState
from modules.llm_platform.infrastructure.models.from_settings.chat_models import (
    LanguageModels,
    compute_first_token_timeout_s,
    compute_research_timeout_s,
    has_local_model,
    list_configured_models,
    list_connections,
    resolve_stages,
)
from modules.llm_platform.infrastructure.models.single_flight import SingleFlightLLM
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.infrastructure.search.from_settings.chain import SearchAdapters
from modules.llm_platform.infrastructure.search.from_settings.providers import list_search_addresses
from modules.llm_platform.infrastructure.stores.research_runs.disk import NoResearchStore
from modules.llm_platform.wiring.writers import (
    BuildJudge,
    BuildSynthesizer,
    BuildWriter,
    build_research_judge,
    choose_judged_answers,
)
from shared.config import Settings

REPORT_TIMEOUT_S = 900.0  # unless RESEARCH_TIMEOUT_S is set
REPORT_LENGTH_FACTOR = 2  # factor of LLM_MAX_TOKENS
DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTools:
    """What all research runs share, whatever models they call.

    - `search` and `pages` serve shallow and deep answers, `report_search` and `report_pages` serve reports.
    - `fallback` writes without a model.
    - `build_writer`, `build_synthesizer` and `build_judge` return a part that calls the models of a run.
    - `verdicts` caches the verdicts of the judges of shallow and deep answers.
    - `support_model` decides what the word comparison leaves in doubt.
    """

    resources: Resources
    shared: SharedState
    search_adapters: SearchAdapters
    search: IWebSearchProvider
    report_search: IWebSearchProvider
    pages: IPageReader | None
    report_pages: IPageReader
    store: IResearchStore
    jobs: IResearchJobStore | None
    fallback: ISynthesizer
    build_writer: BuildWriter
    build_synthesizer: BuildSynthesizer
    build_judge: BuildJudge
    verdicts: ICache[StoredVerdicts]
    support_model: ISupportModel | None


def build_answers(tools: AnswerTools, models: LanguageModels, *, is_stored: bool = True) -> ResearchPipelines:
    """Return the pipelines of runs that call these models. If not `is_stored`, they put nothing into caches and stores."""
    price = models.build_price()
    reporter = Reporter(_build_report_tools(tools, models, is_stored=is_stored))
    follow_ups = FollowUps(
        tools.shared.cache("turns", StoredTurns),
        tools.jobs,
        llm=_share_calls(models.llm),
        price=price,
        timeout_s=compute_follow_up_timeout_s(models.settings),
    )
    llm = models.prefer("output")
    output = None
    if llm is not None:
        output = StructuredOutput(
            llm, context_tokens=models.context_tokens, price=price, support_model=tools.support_model
        )
    quick = QuickResearch(_build_quick_tools(tools, models, models.settings.CACHE_TTL_S if is_stored else 0.0))
    return ResearchPipelines(quick, tools.resources.closing(reporter), follow_ups, output)


def _share_calls(llm: ILLMProvider | None) -> ILLMProvider | None:
    """Return a provider that sends equal simultaneous calls only once."""
    return SingleFlightLLM(llm) if llm else None


def _build_quick_tools(tools: AnswerTools, models: LanguageModels, cache_ttl_s: float) -> QuickTools:
    return QuickTools(
        search=tools.search,
        writer=tools.build_synthesizer(models, cache_ttl_s),
        fallback=tools.fallback,
        planner=SearchPlanner(
            _share_calls(models.plan_llm()),
            plans=tools.shared.cache("plans", ResearchPlan),
            round_answers=tools.shared.cache("rounds", RoundAnswer),
            ttl_s=cache_ttl_s,
            models=models.version,
        ),
        pages=tools.pages,
        judge=build_research_judge(tools.build_judge, tools.verdicts, models, cache_ttl_s),
        support_model=tools.support_model,
        has_llm=models.llm is not None,
        options=build_research_options(models.settings),
        load_models=models.begin_loading,
    )


def _build_report_tools(tools: AnswerTools, models: LanguageModels, *, is_stored: bool) -> ReportTools:
    settings = models.settings
    options = replace(build_report_options(settings), section_tokens=models.section_tokens())
    is_judged = choose_judged_answers(settings, models.adapters) != "off"
    return ReportTools(
        search=tools.report_search,
        pages=tools.report_pages,
        store=tools.store if is_stored else NoResearchStore(),
        llms=models.build_stage_llms(),
        writer=_build_report_writer(tools, options.section_tokens),
        fallback=tools.fallback,
        judge=partial(tools.build_judge, context_tokens=models.context_tokens) if is_judged else None,
        support_model=tools.support_model,
        labels=label_stages(models, tools.search_adapters),
        price=models.build_price(),
        options=options,
        context=models.context_tokens,
        metrics=tools.resources.metrics,
        # Servers share a lock only if they share a store, or else they could not read each other's reports.
        lock=tools.shared.lock("report", options.timeout_s) if settings.DATABASE_URL else NO_KEY_LOCK,
    )


def _build_report_writer(tools: AnswerTools, section_tokens: int) -> Callable[[ILLMProvider | None, int], ISynthesizer]:
    """Return the function that builds the writer of reports, or of one section of them."""
    return partial(tools.build_writer, sources_tokens=section_tokens) if section_tokens else tools.build_writer


def build_variants(tools: AnswerTools, models: LanguageModels, usual: ResearchPipelines) -> ResearchVariants:
    """Return the pipelines of runs with a chosen model, and of runs over files, which put nothing into caches and stores."""
    names = {model.full_name: model.provider for model in list_configured_models(models.adapters) if model.is_complete}

    @cache
    def make(model: str | None, is_unstored: bool) -> ResearchPipelines:
        chosen = models if model is None else models.select(names[model])
        if chosen is models and not is_unstored:
            return usual
        return build_answers(tools, chosen, is_stored=not is_unstored)

    return ResearchVariants(tuple(names), make)


def compute_follow_up_timeout_s(settings: Settings) -> float:
    """Return the limit in seconds for a model to understand a follow-up question. A local one has its first-token limit."""
    return compute_first_token_timeout_s(settings, is_local=True) if has_local_model(settings) else UNDERSTAND_TIMEOUT_S


def build_research_options(settings: Settings) -> ResearchOptions:
    return ResearchOptions(
        timeout_s=compute_research_timeout_s(settings),
        results_per_search=settings.SEARCH_MAX_RESULTS,
        max_tokens=settings.LLM_MAX_TOKENS,
        reading=ReadOptions(settings.READ_PAGES, settings.READ_S),
        judges_supported=settings.CITATION_JUDGE == "all",
        model_ends_rounds=not has_local_model(settings),
    )


def build_report_options(settings: Settings) -> ReportOptions:
    """Return the options of reports: REPORT_PAGES is `pages`, and so is each other setting REPORT_… with an option's name."""
    has_timeout = "RESEARCH_TIMEOUT_S" in settings.model_fields_set
    settings_of_options = {f"REPORT_{option.name.upper()}": option.name for option in fields(ReportOptions)}
    named = {
        option: getattr(settings, name) for name, option in settings_of_options.items() if name in Settings.model_fields
    }
    return ReportOptions(
        **named,
        timeout_s=settings.RESEARCH_TIMEOUT_S if has_timeout else REPORT_TIMEOUT_S,
        query_languages=settings.QUERY_LANGUAGES,
        results_per_search=settings.SEARCH_MAX_RESULTS,
        max_tokens=REPORT_LENGTH_FACTOR * settings.LLM_MAX_TOKENS,
        context_tokens=settings.LLM_CONTEXT_TOKENS,
        offline=settings.LLM_PLATFORM_OFFLINE,
        model_ends_rounds=not has_local_model(settings),
    )


def label_stages(models: LanguageModels, search: SearchAdapters) -> Mapping[str, str]:
    """Return the provider of each step and stage for store keys, so that another provider or model has other entries."""
    settings = models.settings
    addresses = _digest(list_search_addresses(settings))
    labels = {"search": f"{','.join(search)}@{addresses}", "read": ",".join(settings.READERS)}
    if models.adapters:
        addresses = _digest(connection.address or "" for connection in list_connections(settings))
        version, choices = f"{models.version}@{addresses}", resolve_stages(settings)
        labels |= {
            stage: "/".join(filter(None, (choices.get(stage), version))) for stage in models.list_report_stages()
        }
    return labels


def _digest(parts: Iterable[str]) -> str:
    return sha256("|".join(parts).encode()).hexdigest()[:DIGEST_CHARS]
