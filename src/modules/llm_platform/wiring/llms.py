"""Language models: which ones the settings configure, in which order, and who serves each stage of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from pydantic import SecretStr

from modules.llm_platform.application.services.llm_service import NOT_CONFIGURED, LLMRegistry
from modules.llm_platform.domain.dtos.research_dtos import JudgedClaims
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.llm.kinds import KINDS, LLMConnection, Variables
from modules.llm_platform.infrastructure.policies.caching import CachedCitationJudge, CachedSynthesizer
from modules.llm_platform.infrastructure.policies.fallback_synthesizer import FallbackSynthesizer
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.rate_limits import (
    LONGEST_LLM_WAIT_S,
    RateLimiter,
    ThrottledLLM,
)
from modules.llm_platform.infrastructure.policies.retries import RetriedLLM
from modules.llm_platform.wiring.resources import Resources, is_loopback
from modules.llm_platform.wiring.search import (
    REPORT_WAIT_S,
)
from shared.config import LLMProviderSettings, LLMStage, Settings, SettingsError

if TYPE_CHECKING:
    pass


ONLY_LOOPBACK = (
    "Offline, only language models on loopback are asked: set LLM_KIND=ollama or vllm with LLM_BASE_URL; "
    "research works without one and quotes its sources (extractive)"
)
QUOTES_ONLY = (
    "no language model is configured: answers are made of quotes (set LLM_API_KEY and LLM_MODEL for written ones)"
)
REPORT_LLM_RPS = 2.0  # requirement MS9; calls a second of one model, where LLM_RPS sets no pace for all
CALLS_AT_ONCE = 8
STAGES = get_args(LLMStage)

LLMAdapters = Mapping[str, ILLMProvider]
Paces = Mapping[str, RateLimiter]  # by the name of the service


def llm_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    """The configured models in the order of failover (docs/reference/settings.md); offline, those on loopback.

    What is half configured (a key without a model) is there too: its first call says what is missing.
    """
    offline = settings.LLM_PLATFORM_OFFLINE
    return tuple(each for each in all_connections(settings) if not offline or is_loopback(each.address or ""))


def all_connections(settings: Settings) -> tuple[LLMConnection, ...]:
    if settings.LLM_PROVIDERS:
        return tuple(_with_own_names([_listed(each, settings) for each in settings.LLM_PROVIDERS]))
    return tuple(_with_own_names(list(_single_variables(settings))))


def _single_variables(settings: Settings) -> Iterator[LLMConnection]:
    s = settings
    keyless = not KINDS[s.LLM_KIND].needs_key and (s.LLM_BASE_URL or s.LLM_MODEL)
    if s.LLM_API_KEY or keyless:
        yield _connection(s, s.LLM_KIND, s.LLM_KIND, s.LLM_MODEL, s.LLM_API_KEY, s.LLM_BASE_URL, variables=Variables())
    if s.KIMI_API_KEY:
        yield _connection(s, "kimi", "kimi", s.KIMI_MODEL, s.KIMI_API_KEY, s.KIMI_BASE_URL)
    if s.AITUNNEL_API_KEY:
        yield _connection(s, "aitunnel", "aitunnel", s.AITUNNEL_MODEL, s.AITUNNEL_API_KEY, s.AITUNNEL_BASE_URL)
    if s.AZURE_OPENAI_API_KEY and (s.AZURE_OPENAI_DEPLOYMENT or s.EMBEDDER != "azure"):  # else the key is to embed with
        model, address, version = s.AZURE_OPENAI_DEPLOYMENT, s.AZURE_OPENAI_ENDPOINT, s.AZURE_OPENAI_API_VERSION
        yield _connection(s, "azure", "azure", model, s.AZURE_OPENAI_API_KEY, address, api_version=version)


def _listed(each: LLMProviderSettings, settings: Settings) -> LLMConnection:
    return _connection(
        settings,
        each.name,
        each.kind,
        each.model,
        each.api_key,
        each.base_url,
        price_in=each.price_in,
        price_out=each.price_out,
        context_tokens=each.context_tokens,
        api_version=each.api_version,
        variables=Variables.listed(each.name),
    )


def _connection(
    settings: Settings, name: str, kind: str, model: str | None, key: SecretStr | None, address: str | None, **more: Any
) -> LLMConnection:
    price = settings.LLM_PRICES.get(model or "")
    if price and more.get("price_in") is None and more.get("price_out") is None:
        more |= {"price_in": price.price_in, "price_out": price.price_out}
    return LLMConnection(
        name=name,
        kind=kind,
        model=model or "",
        base_url=address,
        api_key=key.get_secret_value() if key else "",
        timeout=settings.LLM_TIMEOUT_S,
        user_agent=settings.KIMI_USER_AGENT if kind == "kimi" else None,
        **more,
    )


def _with_own_names(connections: Sequence[LLMConnection]) -> Iterator[LLMConnection]:
    """Two of one kind are `kimi` and `kimi-2`: a name in an answer must mean one of them."""
    seen: Counter[str] = Counter()
    for each in connections:
        seen[each.name] += 1
        yield each if seen[each.name] == 1 else replace(each, name=f"{each.name}-{seen[each.name]}")


def build_llm_adapters(settings: Settings, resources: Resources) -> LLMAdapters:
    connections = llm_connections(settings)
    if not connections:
        return {}
    from modules.llm_platform.infrastructure.adapters.openai import OpenAIProvider

    return {
        connection.name: OpenAIProvider(
            connection,
            client=resources.client(connection.address or "", connection.timeout),
            redactor=resources.redactor,
        )
        for connection in connections
    }


def build_llm_rate_limiters(settings: Settings, adapters: LLMAdapters) -> Paces:
    """How fast each model is asked, whoever asks it."""
    return {name: RateLimiter(settings.LLM_RPS or REPORT_LLM_RPS, at_once=CALLS_AT_ONCE) for name in adapters}


def build_llm_provider(settings: Settings, adapters: LLMAdapters, paces: Paces) -> ILLMProvider | None:
    if not adapters:
        return None
    return _router(adapters, {} if settings.LLM_RPS is None else paces, LONGEST_LLM_WAIT_S)


def _router(adapters: LLMAdapters, paces: Paces, longest_wait_s: float) -> LLMRouter:
    """All models in their order, those that have a pace at their pace."""
    models: Sequence[ILLMProvider] = [
        ThrottledLLM(each, paces[name], longest_wait_s=longest_wait_s) if name in paces else each
        for name, each in adapters.items()
    ]
    # Where there are several, the next one answers sooner than a second try of the first.
    return LLMRouter(LLMRegistry(models if len(models) > 1 else [RetriedLLM(each) for each in models]))


def build_stage_llms(
    settings: Settings, adapters: LLMAdapters, paces: Paces, ordinary: ILLMProvider | None
) -> Mapping[LLMStage, ILLMProvider]:
    """Who serves each stage of a report: the model that LLM_STAGES names, then the others in their order.

    Empty without a model; `ordinary` itself for every stage where it stands in for all.
    """
    if ordinary is None:
        return {}
    if any(ordinary is adapter for adapter in adapters.values()):
        return dict.fromkeys(STAGES, ordinary)
    router = _router(adapters, paces, REPORT_WAIT_S)
    first = {stage: name for stage, name in stage_choices(settings).items() if name in adapters}
    routers = {name: router.preferring(name) for name in set(first.values())}
    return {stage: routers[first[stage]] if stage in first else router for stage in STAGES}


def stage_choices(settings: Settings) -> Mapping[LLMStage, str]:
    """The provider that LLM_STAGES wants to be asked first, by stage. SettingsError when it is not configured."""
    connections = all_connections(settings)
    names = {each.model: each.name for each in reversed(connections)} | {each.name: each.name for each in connections}
    for stage, wanted in settings.LLM_STAGES.items():
        if wanted not in names:
            known = ", ".join(dict.fromkeys(part for each in connections for part in (each.name, each.model) if part))
            raise SettingsError(
                f"LLM_STAGES wants {wanted!r} for {stage}, which is not configured: "
                + (f"choose one of {known}" if known else "set LLM_API_KEY with LLM_MODEL, or leave it out")
            )
    return {stage: names[wanted] for stage, wanted in settings.LLM_STAGES.items()}


def build_price(settings: Settings, adapters: LLMAdapters) -> Callable[[int, int], float] | None:
    """US dollars of a call by its tokens at the dearest model that may serve it; None where one's price is not known."""
    known = {each.name: each for each in llm_connections(settings)}
    models = [
        known.get(name) or _connection(settings, name, "openai", each.model, None, None)
        for name, each in adapters.items()
    ]
    if any(each.cost_usd(1, 1) is None for each in models):
        return None

    def price(prompt_tokens: int, completion_tokens: int) -> float:
        return max((each.cost_usd(prompt_tokens, completion_tokens) or 0.0 for each in models), default=0.0)

    return price


def missing_llm_message(settings: Settings) -> str:
    """What a chat says where no model is wired: offline, those that are configured elsewhere are left out."""
    return ONLY_LOOPBACK if settings.LLM_PLATFORM_OFFLINE else NOT_CONFIGURED


def build_synthesizer(
    settings: Settings, llm: ILLMProvider | None, adapters: LLMAdapters, extractive: ISynthesizer
) -> ISynthesizer:
    if llm is None:
        return extractive
    from modules.llm_platform.infrastructure.adapters.llm_synthesizer import LLMSynthesizer
    from modules.llm_platform.infrastructure.llm.prompts import PROMPT_VERSION

    contexts = [each.context or settings.LLM_CONTEXT_TOKENS for each in llm_connections(settings)]
    writer: ISynthesizer = LLMSynthesizer(llm, context_tokens=min(contexts, default=settings.LLM_CONTEXT_TOKENS))
    if settings.CACHE_TTL_S > 0:
        version = f"{PROMPT_VERSION}|{'|'.join(getattr(each, 'label', each.name) for each in adapters.values())}"
        writer = CachedSynthesizer(writer, MemoryCache(settings.CACHE_MAX_ENTRIES), settings.CACHE_TTL_S, version)
    return FallbackSynthesizer([writer, extractive])


CitationJudges = Callable[[ILLMProvider | None], ICitationJudge | None]


def build_citation_judges(context_tokens: int) -> CitationJudges:
    """Makes the judge that asks the given model; without one there is none."""
    from modules.llm_platform.application.research.verification import LLMCitationJudge

    return lambda llm: LLMCitationJudge(llm, context_tokens=context_tokens) if llm else None


def build_report_judge(settings: Settings, judges: CitationJudges) -> CitationJudges | None:
    return None if settings.CITATION_JUDGE == "off" else judges


def build_answer_judge(settings: Settings, judges: CitationJudges, llm: ILLMProvider | None) -> ICitationJudge | None:
    """Who verifies answers that are no reports; LLM_STAGES may name the model for it."""
    if settings.CITATION_JUDGE != "all":
        return None
    first = stage_choices(settings).get("judge")
    return judges(llm.preferring(first) if first and isinstance(llm, LLMRouter) else llm)


def build_research_judge(
    settings: Settings, judge: ICitationJudge | None, adapters: LLMAdapters
) -> ICitationJudge | None:
    """The same for researches, whose texts are cached: their verdicts are, too."""
    if judge is None or settings.CACHE_TTL_S <= 0:
        return judge
    cache: MemoryCache[JudgedClaims] = MemoryCache(settings.CACHE_MAX_ENTRIES)
    version = "|".join(getattr(each, "label", each.name) for each in adapters.values())
    return CachedCitationJudge(judge, cache, settings.CACHE_TTL_S, version)


def smallest_context_tokens(settings: Settings) -> int:
    """What the smallest model that may be asked holds."""
    contexts = [each.context or settings.LLM_CONTEXT_TOKENS for each in llm_connections(settings)]
    return min(contexts, default=settings.LLM_CONTEXT_TOKENS)
