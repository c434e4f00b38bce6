"""Language models as other modules and the doors use them."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMException, LLMRequestError
from modules.llm_platform.domain.ports.llm import ILLMProvider

# Which language models there are, in the order in which they are asked.


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


logger = logging.getLogger(__name__)


class LLMService:
    """Asks the configured models and writes down how long it took and what it cost; never what was said."""

    def __init__(self, provider: ILLMProvider | None, missing: str = NOT_CONFIGURED) -> None:
        """Without a provider every call raises LLMConfigError with the words of `missing`, which name what to set."""
        self._provider = provider
        self._missing = missing

    async def generate(self, request: LLMRequest) -> LLMResponse:
        """The whole answer; an LLMException when no model could give one."""
        provider = self._configured()
        began = time.perf_counter()
        try:
            answer = await provider.generate(request)
        except LLMException as error:
            _log_failure(error, began)
            raise
        _log_answer(answer, began)
        return answer

    async def stream(self, request: LLMRequest) -> AsyncGenerator[LLMToken | LLMResponse]:
        """Tokens, then the whole answer.

        Who reads a chat cannot take words back: where a model dies after its first word, its error is raised and no
        other model begins.
        """
        provider = self._configured()
        began = time.perf_counter()
        try:
            async with aclosing(provider.stream(request)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    if isinstance(part, LLMReset):
                        raise part.error
                    if isinstance(part, LLMResponse):
                        _log_answer(part, began)
                    yield part
        except LLMException as error:
            _log_failure(error, began)
            raise

    def _configured(self) -> ILLMProvider:
        if self._provider is None:
            raise LLMConfigError(self._missing)
        return self._provider


def _log_answer(answer: LLMResponse, began: float) -> None:
    logger.info(
        "language model answered",
        extra={
            "provider": answer.provider,
            "model": answer.model,
            "duration_ms": _ms_since(began),
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
            "finish_reason": answer.finish_reason,
            "llm_calls": answer.spent.calls,
            "cost_usd": answer.spent.cost_usd,
            "degraded": len(answer.degraded),
        },
    )


def _log_failure(error: LLMException, began: float) -> None:
    logger.warning(
        "language model failed",
        extra={
            "code": error.code,
            "reason": error.message,
            "duration_ms": _ms_since(began),
            "llm_calls": error.spent.calls,
            "tokens": error.spent.tokens,
        },
    )


def _ms_since(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)
