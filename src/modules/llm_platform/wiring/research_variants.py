"""The parts of research runs with a chosen model, and of those over files of their requests."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from dependency_injector import providers

from modules.llm_platform.application.research.parts import ResearchParts, ResearchVariants
from modules.llm_platform.infrastructure.models.from_settings.chat_models import LLMAdapters
from shared.config import Settings

NewContainer = Callable[[Settings], Any]

# What a run with a chosen model, or over files, has of its own; all else, such as limits, caches and stores, is shared.
ALWAYS_OWN = ("settings", "llm_adapters")
MODEL_PARTS = frozenset(
    (
        *("context_tokens", "llm_provider", "synthesizer", "stage_llms", "citation_judges", "report_tools", "reporter"),
        "research_judge",
        *("price", "planner", "quick_research", "follow_ups", "output", "research_parts"),
    )
)


UNSTORED = {"CACHE_TTL_S": 0.0, "STORE_TTL_DAYS": 0}  # settings of a run over files of its request


def build_variants(container: Any, new_container: NewContainer) -> ResearchVariants:
    """Return the parts of research runs with a chosen model, and of those that put nothing into caches and stores."""
    models = {model.full_name: model.provider for model in container.llm().models if model.is_complete}

    @cache
    def make(model: str | None, is_unstored: bool) -> ResearchParts:
        adapters: LLMAdapters = container.llm_adapters()
        changes: dict[str, Any] = dict(UNSTORED) if is_unstored else {}
        if model is not None and len(adapters) > 1:
            adapters = {models[model]: adapters[models[model]]}
            changes["LLM_STAGES"] = {}
        return _build_parts(container, new_container, adapters, changes)

    return ResearchVariants(tuple(models), make)


def _build_parts(
    container: Any, new_container: NewContainer, adapters: LLMAdapters, changes: Mapping[str, Any]
) -> ResearchParts:
    """Return the parts of research runs that call these models only, with some settings changed."""
    if not changes:
        found: ResearchParts = container.research_parts()
        return found
    own = {*ALWAYS_OWN, *(["research_store"] if "STORE_TTL_DAYS" in changes else [])}
    variant = new_container(container.settings().model_copy(update=changes))
    for name, provider in container.providers.items():
        if name not in own and (name not in MODEL_PARTS or provider.overridden):
            getattr(variant, name).override(provider)
    variant.llm_adapters.override(providers.Object(adapters))
    parts: ResearchParts = variant.research_parts()
    return parts
