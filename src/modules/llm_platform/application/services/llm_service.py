"""Calls the language models, and logs what each call took."""

import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from modules.llm_platform.application.research.follow_up import make_owner_key
from modules.llm_platform.domain.dtos.llm_dtos import (
    MAX_KEPT_CHARS,
    ChatMessage,
    ConfiguredModel,
    KeptTurns,
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMToken,
)
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMException, PreviousResearchNotFoundError
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.llm import NOT_CONFIGURED, ILLMProvider

KEPT_TURNS_S: Final = 3600.0

logger = logging.getLogger(__name__)


class LLMService:
    """Calls the configured models and logs duration and cost of each call; never prompts or answers."""

    def __init__(
        self,
        provider: ILLMProvider | None,
        missing: str = NOT_CONFIGURED,
        models: Sequence[ConfiguredModel] = (),
        turns: ICache[KeptTurns] | None = None,
        replacements: Mapping[str, str] | None = None,
    ) -> None:
        """Create the service. If `provider` is None, every call raises LLMConfigError with the message `missing`.

        - `models` are the models that a request can select, in failover order.
        - `turns` stores conversations; None stores none.
        - `replacements` maps patterns of other vendors' model names to configured models. The first matching pattern counts.
        """
        self._provider = provider
        self.models = tuple(models)
        self._missing = missing
        self._turns = turns
        self.replacements = dict(replacements or {})

    async def generate(self, request: LLMRequest) -> LLMResponse:
        """Return the complete answer. Raises an LLMException if no model answers."""
        provider = self._require_provider()
        began = time.perf_counter()
        try:
            answer = await provider.generate(_use_own_temperature(request))
        except LLMException as error:
            _log_failure(error, began)
            raise
        _log_answer(answer, began)
        return answer

    async def stream(self, request: LLMRequest) -> AsyncGenerator[LLMToken | LLMResponse]:
        """Yield the tokens, then the complete answer.

        A chat client cannot take tokens back: if a model fails after its first token, its error is raised, and no other model
        is called.
        """
        provider = self._require_provider()
        began = time.perf_counter()
        try:
            async with aclosing(provider.stream(_use_own_temperature(request))) as parts:  # type: ignore[type-var]
                async for part in parts:
                    if isinstance(part, LLMReset):
                        raise part.error
                    if isinstance(part, LLMResponse):
                        _log_answer(part, began)
                    yield part
        except LLMException as error:
            _log_failure(error, began)
            raise

    async def keep_turns(self, owner: str, response_id: str, turns: tuple[ChatMessage, ...]) -> None:
        """Store a conversation for a request that continues it, unless its JSON is longer than MAX_KEPT_CHARS."""
        kept = KeptTurns(turns=turns)
        if self._turns is not None and len(kept.model_dump_json()) <= MAX_KEPT_CHARS:
            await self._turns.set(make_owner_key(owner, response_id), kept, KEPT_TURNS_S)

    async def load_kept_turns(self, owner: str, response_id: str) -> tuple[ChatMessage, ...]:
        """Return the turns up to this answer. Raises PreviousResearchNotFoundError."""
        kept = await self._turns.get(make_owner_key(owner, response_id)) if self._turns is not None else None
        if kept is None:
            raise PreviousResearchNotFoundError
        return kept.turns

    def _require_provider(self) -> ILLMProvider:
        if self._provider is None:
            raise LLMConfigError(self._missing)
        return self._provider


def _use_own_temperature(request: LLMRequest) -> LLMRequest:
    """Leave the temperature to the service unless the request sets one. Our default only suits the prompts of stages."""
    return request if "temperature" in request.model_fields_set else request.model_copy(update={"temperature": None})


def _log_answer(answer: LLMResponse, began: float) -> None:
    logger.info(
        "language model answered",
        extra={
            "provider": answer.provider,
            "model": answer.model,
            "duration_ms": _measure_ms(began),
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
            "duration_ms": _measure_ms(began),
            "llm_calls": error.spent.calls,
            "tokens": error.spent.tokens,
        },
    )


def _measure_ms(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)
