"""Language models behind the guards of their services."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMStreamPart, Spending
from modules.llm_platform.domain.exceptions import LLMConnectionError, LLMException
from modules.llm_platform.domain.ports.llm import BROKEN_OFF, ILLMProvider
from modules.llm_platform.domain.ports.tracing import NO_SPAN, ISpan, run_within
from modules.llm_platform.domain.telemetry.metrics import LLM_COST, LLM_TOKENS
from modules.llm_platform.domain.telemetry.spans import COMPLETION_TOKENS, COST, MODEL, PROMPT_TOKENS
from modules.llm_platform.infrastructure.limits.daily_budget import ModelBudget
from modules.llm_platform.infrastructure.limits.upstream_guard import Attempt, UpstreamGuard


class UpstreamModel(ILLMProvider):
    """A language model behind its guard, and within its daily budget if it has one. A stream occupies its slot until its end.

    If the guard has retries, a lost connection, a 5xx or a rate limit with a short wait gets a second try. Tokens of the first
    try are then void (LLMReset). There is no second try after a timeout or a used-up quota, without `max_tries` left, or if
    the pause would outlast the deadline.
    """

    def __init__(self, provider: ILLMProvider, guard: UpstreamGuard, budget: ModelBudget | None = None) -> None:
        self.name = provider.name
        self.model = provider.model
        self.is_free = provider.is_free
        self.circuit = guard.circuit
        self._provider = provider
        self._guard = guard
        self._budget = budget

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        attempt, has_begun = Attempt(self._guard, is_stream=True), False
        self._guard.record_call()
        try:
            async with aclosing(self._try(attempt, request)) as parts:
                async for part in parts:
                    has_begun = True
                    yield part
            return
        except LLMException as error:
            no_tries_left = request.max_tries is not None and error.spent.calls >= request.max_tries
            pause_s = None if no_tries_left else self._guard.retry_pause_s(error, attempt)
            if pause_s is None:
                raise
            first_error = error
        if has_begun:
            yield LLMReset(error=first_error)
        await self._guard.sleep(pause_s)
        try:
            async with aclosing(self._try(Attempt(self._guard, is_stream=True), request)) as parts:
                async for part in parts:
                    yield part.after(first_error.spent, ()) if isinstance(part, LLMResponse) else part
        except LLMException as error:
            error.spent = first_error.spent + error.spent
            raise error from first_error

    async def _try(self, attempt: Attempt, request: LLMRequest) -> AsyncGenerator[LLMStreamPart]:
        """Yield the stream of one call. Raises LLMConnectionError when it ends without an answer."""
        has_answer = False
        async with self._budget.call(request) if self._budget else nullcontext() as account, attempt:
            stream = self._provider.stream(request)
            if attempt.span is not NO_SPAN:
                stream = run_within(attempt.span, stream)
            try:
                async with aclosing(stream) as parts:  # type: ignore[type-var]
                    async for part in parts:
                        attempt.succeed()  # a long stream must not delay the others until its end
                        if account:
                            account.add(part)
                        if has_answer := isinstance(part, LLMResponse):
                            self._count(attempt.span, part.spent)
                        yield part
                if not has_answer:
                    raise LLMConnectionError(BROKEN_OFF.format(name=self.name))
            except LLMException as error:
                self._count(attempt.span, error.spent)
                raise

    def _count(self, span: ISpan, spent: Spending) -> None:
        """Count tokens and cost. A failed call may have cost something, too."""
        model, metrics = self.model or "", self._guard.metrics
        if span is not NO_SPAN:
            span.set(MODEL, model)
            span.set(PROMPT_TOKENS, spent.prompt_tokens)
            span.set(COMPLETION_TOKENS, spent.completion_tokens)
            if spent.cost_usd is not None:
                span.set(COST, spent.cost_usd)
        metrics.count(LLM_TOKENS, self.name, model, "prompt", by=spent.prompt_tokens)
        metrics.count(LLM_TOKENS, self.name, model, "completion", by=spent.completion_tokens)
        if spent.cost_usd is not None:
            metrics.count(LLM_COST, self.name, model, by=spent.cost_usd)
