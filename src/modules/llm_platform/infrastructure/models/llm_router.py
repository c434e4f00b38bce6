"""Failover over the configured models: one that failed is called after the others for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMStreamPart, Spending
from modules.llm_platform.domain.exceptions import LLMException, LLMRequestError
from modules.llm_platform.domain.llm.failures import Failures
from modules.llm_platform.domain.ports.llm import ILLMProvider, LLMRegistry
from modules.llm_platform.infrastructure.models.upstream_model import UpstreamModel


class LLMRouter(ILLMProvider):
    """Calls the models in order until one answers.

    An LLMRequestError is raised at once, because the request is wrong for every model. A model that failed is skipped for a
    while (`CircuitBreaker.avoided`) unless no other one is left. A request's `max_tries` bounds the calls to all models
    together. The answer lists earlier failures in `degraded` and includes their cost in `spent`.
    """

    name = "llm"

    def __init__(self, models: Sequence[UpstreamModel]) -> None:
        self._models = tuple(models)
        self.is_free = all(model.is_free for model in self._models)
        self._registry = LLMRegistry(models)
        self._circuits = {model.name: model.circuit for model in models}

    def prefer(self, name: str) -> LLMRouter:
        """Return a router over the same models with that one first."""
        return LLMRouter(sorted(self._models, key=lambda model: model.name != name))

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        failures = Failures()
        candidates = self._list_candidates(request)
        for number, (model, skipped) in enumerate(candidates, 1):
            remaining = _limit_tries(request, failures.spent)
            if remaining is None:
                break
            has_tokens = False  # becomes true with the first token of this model
            try:
                async with aclosing(model.stream(remaining)) as parts:  # type: ignore[type-var]
                    async for part in parts:
                        has_tokens = not isinstance(part, LLMReset)
                        yield failures.add_to_answer(part, skipped) if isinstance(part, LLMResponse) else part
                return
            except LLMRequestError as error:
                error.spent = failures.spent + error.spent
                raise
            except LLMException as error:
                failure = error
            failures.add(model.name, failure)
            if has_tokens and number < len(candidates) and _limit_tries(request, failures.spent):
                yield LLMReset(error=failure)
        if len(failures.errors) == 1:
            raise failure
        # Raise the last error with the messages and the cost of all.
        messages = list(dict.fromkeys(error.message for error in failures.errors))
        message = messages[0] if len(messages) == 1 else "every model failed: " + "; ".join(messages)
        raise type(failure)(message, retry_after_s=failure.retry_after_s, spent=failures.spent)

    def _list_candidates(self, request: LLMRequest) -> list[tuple[ILLMProvider, tuple[Degraded, ...]]]:
        """Return the models that may serve the request, models without a recent failure first.

        Each model without a recent failure has the failures of the skipped models that precede it in the configured order.
        """
        models = self._registry.resolve(request)
        causes = {model.name: cause for model in models if (cause := self._circuits[model.name].avoided)}
        available = [
            (model, tuple(causes[earlier.name] for earlier in models[:position] if earlier.name in causes))
            for position, model in enumerate(models)
            if model.name not in causes
        ]
        return [*available, *((model, ()) for model in models if model.name in causes)]


def _limit_tries(request: LLMRequest, spent: Spending) -> LLMRequest | None:
    """Return the request with the rest of its `max_tries`, or None if no try is left. A failure without a call uses no try."""
    if request.max_tries is None or not spent.calls:
        return request
    left = request.max_tries - spent.calls
    return request.model_copy(update={"max_tries": left}) if left > 0 else None
