"""Build the language models from the settings: connections, failover order, limits, prices, and models of report stages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import SecretStr

from modules.llm_platform.domain.dtos.llm_dtos import ConfiguredModel
from modules.llm_platform.domain.dtos.report_dtos import FINAL_PAGES
from modules.llm_platform.domain.llm.context_budget import SOURCES_BUDGET_TOKENS
from modules.llm_platform.domain.ports.llm import NOT_CONFIGURED, IContextWindow, ILLMProvider, ISlowToLoad
from modules.llm_platform.infrastructure.limits.daily_budget import ModelBudget
from modules.llm_platform.infrastructure.limits.upstream_guard import MODEL
from modules.llm_platform.infrastructure.limits.upstream_limits import MAX_CLOSED_S, RateLimiter
from modules.llm_platform.infrastructure.limits.upstream_states import MAX_REPORT_WAIT_S, RateLimiters, UpstreamStates
from modules.llm_platform.infrastructure.models.kinds import KINDS, LLMConnection, Variables
from modules.llm_platform.infrastructure.models.llm_router import LLMRouter
from modules.llm_platform.infrastructure.models.upstream_model import UpstreamModel
from modules.llm_platform.infrastructure.resources import Resources, is_loopback, reveal_secret
from shared.config import Settings, SettingsError
from shared.setting_types import LLMStage

ONLY_LOOPBACK = (
    "Offline mode: only language models on loopback are used. Set LLM_KIND=ollama or vllm with LLM_MODEL. "
    "Without a model, research quotes its sources (extractive)"
)
EXTRACTIVE_ONLY = (
    "no language model is configured: answers consist of quotes (set LLM_API_KEY and LLM_MODEL to get written answers)"
)
REPORT_LLM_RPS = 2.0  # Calls per second of one model if LLM_RPS is not set.
MAX_CONCURRENT_CALLS = 8
# These are the defaults for a local model. LOCAL_TIMEOUT_S limits the time until its first token, a research run and a RAG
# request. LOCAL_SOURCES_TOKENS limits the sources in the prompt of an answer: a CPU reads 20 to 100 tokens a second. Of this
# budget, `fit_to_question` gives a question that one search answers 240 or 400 tokens.
LOCAL_TIMEOUT_S = 600.0
LOCAL_SOURCES_TOKENS = 1500
# A slow model does not serve these stages: two read every result and page, and a small model repeats the question as a query.
FAST_STAGES: frozenset[LLMStage] = frozenset({"rank", "summarize", "queries"})
STAGES = get_args(LLMStage)

LLMAdapters = Mapping[str, ILLMProvider]
ModelBudgets = Mapping[str, ModelBudget]  # The models with a daily budget, by name.


def list_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    """Return the configured models in failover order (docs/reference/settings.md). Offline, return only those on loopback.

    Incomplete ones, such as a key without a model, are included. Their first call raises an error that names the missing
    setting.
    """
    offline = settings.LLM_PLATFORM_OFFLINE
    return tuple(
        connection
        for connection in list_all_connections(settings)
        if not offline or is_loopback(connection.address or "")
    )


def list_all_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    """Return the configured models in failover order, as if the platform were not offline."""
    connections = _read_listed_connections(settings) if settings.LLM_PROVIDERS else _read_single_connections(settings)
    return tuple(_make_names_unique(connections))


def _read_listed_connections(settings: Settings) -> Iterator[LLMConnection]:
    for provider in settings.LLM_PROVIDERS:
        yield _build_connection(settings, **dict(provider), variables=Variables.listed(provider.name))


def _read_single_connections(settings: Settings) -> Iterator[LLMConnection]:
    s = settings
    # An address or a model alone is a mistake, which the first call and doctor report.
    if s.LLM_API_KEY or s.LLM_BASE_URL or s.LLM_MODEL:
        yield _build_connection(
            s, s.LLM_KIND, s.LLM_KIND, s.LLM_MODEL, s.LLM_API_KEY, s.LLM_BASE_URL, variables=Variables()
        )
    if s.KIMI_API_KEY:
        yield _build_connection(s, "kimi", "kimi", s.KIMI_MODEL, s.KIMI_API_KEY, s.KIMI_BASE_URL)
    if s.AITUNNEL_API_KEY:
        yield _build_connection(s, "aitunnel", "aitunnel", s.AITUNNEL_MODEL, s.AITUNNEL_API_KEY, s.AITUNNEL_BASE_URL)
    # Without a deployment, the key may be for embeddings alone.
    if s.AZURE_OPENAI_API_KEY and (s.AZURE_OPENAI_DEPLOYMENT or s.EMBEDDER != "azure"):
        model, address, version = s.AZURE_OPENAI_DEPLOYMENT, s.AZURE_OPENAI_ENDPOINT, s.AZURE_OPENAI_API_VERSION
        yield _build_connection(s, "azure", "azure", model, s.AZURE_OPENAI_API_KEY, address, api_version=version)


def _build_connection(
    settings: Settings,
    name: str,
    kind: str,
    model: str | None,
    api_key: SecretStr | None = None,
    base_url: str | None = None,
    **more: Any,
) -> LLMConnection:
    """Return the connection of a model. `more` are other fields of LLMConnection."""
    # A gateway on loopback that wants a key may call models that cost money.
    is_local = not KINDS[kind].needs_key or (is_loopback(base_url or "") and not api_key)
    if is_local and "LLM_CONTEXT_TOKENS" in settings.model_fields_set and not more.get("context_tokens"):
        # Without the setting, a local service is asked for its context window.
        more["context_tokens"] = settings.LLM_CONTEXT_TOKENS
    return LLMConnection(
        name=name,
        kind=kind,
        model=model or "",
        base_url=base_url,
        api_key=reveal_secret(api_key),
        timeout=compute_first_token_timeout_s(settings, is_local),
        idle_timeout=settings.LLM_IDLE_TIMEOUT_S,
        temperature=settings.LLM_TEMPERATURE,
        is_local=is_local,
        user_agent=settings.KIMI_USER_AGENT if kind == "kimi" else None,
        **more,
    )


def _make_names_unique(connections: Iterable[LLMConnection]) -> Iterator[LLMConnection]:
    """Yield the connections with unique names: the second `kimi` becomes `kimi-2`, and so on."""
    seen: Counter[str] = Counter()
    for connection in connections:
        name = connection.name
        seen[name] += 1
        yield connection if seen[name] == 1 else replace(connection, name=f"{name}-{seen[name]}")


def compute_first_token_timeout_s(settings: Settings, is_local: bool) -> float:
    is_set = "LLM_TIMEOUT_S" in settings.model_fields_set
    return LOCAL_TIMEOUT_S if is_local and not is_set else settings.LLM_TIMEOUT_S


def compute_research_timeout_s(settings: Settings) -> float:
    """Return the timeout in seconds of a quick or deep answer, of `ask` and of a worker's request.

    Its default is longer if a model is local.
    """
    is_set = "RESEARCH_TIMEOUT_S" in settings.model_fields_set
    return LOCAL_TIMEOUT_S if has_local_model(settings) and not is_set else settings.RESEARCH_TIMEOUT_S


def has_local_model(settings: Settings, among: LLMAdapters | None = None) -> bool:
    return any(
        connection.is_local for connection in list_connections(settings) if among is None or connection.name in among
    )


def build_llm_adapters(settings: Settings, resources: Resources) -> LLMAdapters:
    connections = list_connections(settings)
    if not connections:
        return {}
    from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider

    adapters = {}
    for connection in connections:
        client = resources.client(connection.address or "", connection.timeout)
        adapters[connection.name] = OpenAIProvider(connection, client=client, redactor=resources.redactor)
    return adapters


def list_configured_models(adapters: LLMAdapters) -> tuple[ConfiguredModel, ...]:
    """Return the models that requests can select. Connections that name no model are left out."""
    return tuple(
        ConfiguredModel(name, model.model, getattr(model, "ignored_fields", ()), getattr(model, "is_complete", True))
        for name, model in adapters.items()
        if model.model
    )


@dataclass(frozen=True, slots=True)
class ModelPolicies:
    """The policies that all callers of a model share, by the name of the model.

    `waits_s` is the time that a caller waits for its turn with a model of bounded concurrency: as long as for an answer.
    """

    limiters: RateLimiters
    upstreams: UpstreamStates
    budgets: ModelBudgets
    waits_s: Mapping[str, float]

    def build_router(
        self,
        adapters: LLMAdapters,
        limiters: RateLimiters,
        *,
        max_wait_s: float = MODEL.max_wait_s,
        max_closed_s: float = MAX_CLOSED_S,
    ) -> LLMRouter:
        """Return a router over all models in order, each behind its guard."""
        has_retries = len(adapters) == 1  # Failover to another model is faster than a retry.
        models = []
        for name, adapter in adapters.items():
            guard = self.upstreams[name].guard(
                MODEL,
                limiters[name],
                has_retries=has_retries,
                max_wait_s=max(max_wait_s, self.waits_s.get(name, 0.0)),
                max_closed_s=max_closed_s,
                setting="LLM_RPS",
            )
            models.append(UpstreamModel(adapter, guard, self.budgets.get(name)))
        return LLMRouter(models)


def build_model_policies(
    settings: Settings, adapters: LLMAdapters, upstreams: UpstreamStates, budgets: ModelBudgets
) -> ModelPolicies:
    bounded = {connection.name: connection for connection in list_connections(settings) if connection.max_concurrent}
    limiters = {
        name: RateLimiter(settings.LLM_RPS, max_concurrent=bounded[name].max_concurrent, is_strict=True)
        if name in bounded
        else RateLimiter(settings.LLM_RPS or REPORT_LLM_RPS, max_concurrent=MAX_CONCURRENT_CALLS)
        for name in adapters
    }
    waits_s = {name: connection.timeout for name, connection in bounded.items()}
    return ModelPolicies(limiters, upstreams, budgets, waits_s)


def build_llm_provider(settings: Settings, adapters: LLMAdapters, policies: ModelPolicies) -> ILLMProvider | None:
    if not adapters:
        return None
    if settings.LLM_RPS is not None:
        return policies.build_router(adapters, policies.limiters)
    calls = {
        name: policies.limiters[name] if name in policies.waits_s else upstream.calls
        for name, upstream in policies.upstreams.items()
    }
    return policies.build_router(adapters, calls, max_closed_s=MODEL.max_pause_s)


def resolve_stages(settings: Settings) -> Mapping[LLMStage, str]:
    """Return the provider that LLM_STAGES names, by stage. Raises SettingsError if it is not configured."""
    connections = list_all_connections(settings)
    names = {connection.model: connection.name for connection in reversed(connections)} | {
        connection.name: connection.name for connection in connections
    }
    for stage, choice in settings.LLM_STAGES.items():
        if choice not in names:
            parts = (part for connection in connections for part in (connection.name, connection.model) if part)
            known = ", ".join(dict.fromkeys(parts))
            remedy = f"choose one of {known}" if known else "set LLM_API_KEY and LLM_MODEL, or remove LLM_STAGES"
            raise SettingsError(f"LLM_STAGES names {choice!r} for {stage}, which is not configured: {remedy}")
    return {stage: names[choice] for stage, choice in settings.LLM_STAGES.items()}


def explain_missing_llm(settings: Settings) -> str:
    """Return the error message for a chat if no model is configured."""
    return ONLY_LOOPBACK if settings.LLM_PLATFORM_OFFLINE else NOT_CONFIGURED


@dataclass(frozen=True, slots=True)
class LanguageModels:
    """The language models that a run may call: all configured ones, or the one that its request chooses.

    `llm` calls them in failover order. It is None if there are none.
    """

    settings: Settings
    adapters: LLMAdapters
    policies: ModelPolicies
    llm: ILLMProvider | None

    def select(self, name: str) -> LanguageModels:
        """Return the model of this name alone. It serves every stage, whatever LLM_STAGES says."""
        if len(self.adapters) == 1:
            return self
        settings = self.settings.model_copy(update={"LLM_STAGES": {}})
        adapters = {name: self.adapters[name]}
        return LanguageModels(settings, adapters, self.policies, build_llm_provider(settings, adapters, self.policies))

    @property
    def version(self) -> str:
        """The labels of the models, for keys of caches and stores."""
        return ",".join(getattr(adapter, "label", adapter.name) for adapter in self.adapters.values())

    async def context_tokens(self) -> int:
        """Return the smallest context window of the models, in tokens. A local service is asked for its window."""
        models = [model for model in self.adapters.values() if isinstance(model, IContextWindow)]
        sizes = await asyncio.gather(*(model.context_tokens() for model in models))
        usual = self.settings.LLM_CONTEXT_TOKENS
        return min([size or usual for size in sizes], default=usual)

    def begin_loading(self) -> None:
        """Begin to load the libraries of the models."""
        for model in self.adapters.values():
            if isinstance(model, ISlowToLoad):
                model.begin_loading()

    def sources_tokens(self) -> int:
        """Return the tokens of sources in the prompt of a short answer: fewer if a local model may have to read it."""
        usual = LOCAL_SOURCES_TOKENS if has_local_model(self.settings, self.adapters) else SOURCES_BUDGET_TOKENS
        return next((one.sources_tokens for one in self.settings.LLM_PROVIDERS if one.sources_tokens), usual)

    def section_tokens(self) -> int:
        """Return the tokens of sources for each section of a report, or 0 if one call writes all of it.

        A slow model writes sections.
        """
        return self.sources_tokens() if self._reads_slowly("write") else 0

    def plan_llm(self) -> ILLMProvider | None:
        """Return what plans the searches of a deep run and of its further rounds.

        A slow model does so only if LLM_STAGES names it.
        """
        is_left_out = self._reads_slowly("plan") and "plan" not in self.settings.LLM_STAGES
        return None if is_left_out else self.prefer("plan")

    def prefer(self, stage: LLMStage) -> ILLMProvider | None:
        """Return `llm`, which calls the model that LLM_STAGES names for this stage first."""
        first = resolve_stages(self.settings).get(stage)
        return self.llm.prefer(first) if first and isinstance(self.llm, LLMRouter) else self.llm

    def build_stage_llms(self) -> Mapping[LLMStage, ILLMProvider]:
        """Return the provider of each report stage that has one: the model in LLM_STAGES first, then the others in order.

        If `llm` is one of the adapters, it serves all of them.
        """
        stages = self.list_report_stages()
        if self.llm is None or any(self.llm is adapter for adapter in self.adapters.values()):
            return {stage: self.llm for stage in stages if self.llm}
        router = self.policies.build_router(self.adapters, self.policies.limiters, max_wait_s=MAX_REPORT_WAIT_S)
        first = {stage: name for stage, name in resolve_stages(self.settings).items() if name in self.adapters}
        routers = {name: router.prefer(name) for name in set(first.values())}
        return {stage: routers[first[stage]] if stage in first else router for stage in stages}

    def list_report_stages(self) -> Sequence[LLMStage]:
        """Return the stages of a report that a model serves.

        A slow model does not write queries, rate results or summarize pages. If a report is written from all pages that are
        read, no model summarizes them, because summaries only serve to choose among pages. Stages that LLM_STAGES names are
        always included.
        """
        if self.llm is None:
            return []
        left_out = {stage for stage in FAST_STAGES if self._reads_slowly(stage)}
        if self.settings.REPORT_PAGES <= FINAL_PAGES:
            left_out.add("summarize")
        return [stage for stage in STAGES if stage not in left_out or stage in self.settings.LLM_STAGES]

    def _reads_slowly(self, stage: LLMStage) -> bool:
        """Return whether the model that serves a stage first is slow."""
        connections = {connection.name: connection for connection in list_connections(self.settings)}
        first = resolve_stages(self.settings).get(stage) or next(iter(self.adapters), "")
        return first in connections and connections[first].reads_slowly

    def build_price(self) -> Callable[[int, int], float] | None:
        """Return a function for the US dollars of a call with the most expensive model, or None if a price is unknown."""
        known = {connection.name: connection for connection in list_connections(self.settings)}
        models = [
            known.get(name) or _build_connection(self.settings, name, "openai", model.model)
            for name, model in self.adapters.items()
        ]
        if any(model.cost_usd(1, 1) is None for model in models):
            return None
        return lambda prompt_tokens, completion_tokens: max(
            (model.cost_usd(prompt_tokens, completion_tokens) or 0.0 for model in models), default=0.0
        )
