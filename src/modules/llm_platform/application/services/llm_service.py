"""Language models as other modules and the doors use them."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from modules.llm_platform.application.services.llm_registry import NOT_CONFIGURED
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider

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
