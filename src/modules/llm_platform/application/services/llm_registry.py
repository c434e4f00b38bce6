"""Which language models there are, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Sequence

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMRequestError
from modules.llm_platform.domain.ports.llm import ILLMProvider

NOT_CONFIGURED = (
    "No language model is set up: set LLM_API_KEY with LLM_MODEL, or KIMI_API_KEY; "
    "research works without one and quotes its sources (extractive)"
)


class LLMRegistry:
    """The configured models, first choice first, each under a name of its own."""

    def __init__(self, providers: Sequence[ILLMProvider]) -> None:
        """Raises ValueError when two providers bear one name: a request could not tell them apart."""
        names = [provider.name for provider in providers]
        if len(set(names)) < len(names):
            raise ValueError(f"language models need names of their own: {', '.join(names)}")
        self._providers = tuple(providers)

    @property
    def providers(self) -> tuple[ILLMProvider, ...]:
        return self._providers

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(provider.name for provider in self._providers)

    def resolve(self, request: LLMRequest) -> tuple[ILLMProvider, ...]:
        """Those that may serve the request, first choice first; never empty.

        Raises LLMConfigError when there is none at all, LLMRequestError when it asks for one that is not configured.
        """
        if not self._providers:
            raise LLMConfigError(NOT_CONFIGURED)
        if request.provider is None and request.model is None:
            return self._providers
        named = [p for p in self._providers if request.provider in (None, p.name)]
        if not named:
            raise LLMRequestError(f"provider is not configured: choose one of {', '.join(self.names)}")
        fitting = tuple(p for p in named if request.model in (None, p.model))
        if not fitting:
            models = dict.fromkeys(p.model for p in named if p.model)
            raise LLMRequestError(f"model is not configured: choose one of {', '.join(models) or 'none, leave it out'}")
        return fitting
