"""A language model within the budget of a report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.application.research.budget import Budget, Phase, Reservation
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, LLMToken, Spending
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.exceptions import LLMException, LLMTimeoutError
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.text.tokens import count_tokens

DEFAULT_MAX_ANSWER_TOKENS: Final = 4096  # used where dollars are limited and the request sets no bound
MESSAGE_TOKENS: Final = 8  # tokens that a service adds to each message
# Degraded.is_timeout looks for "max_seconds"
LATE = "the time for {stage} ran out: raise max_seconds or RESEARCH_TIMEOUT_S"


class BudgetedLLM(ILLMProvider):
    """A language model that keeps one stage of a report within the budget.

    Each call reserves its maximum first, ends with `phase` (default: the phase of its stage) and is always settled.
    A refused call raises LLMBudgetError and costs nothing.
    """

    def __init__(self, llm: ILLMProvider, budget: Budget, stage: LLMStage, phase: Phase | None = None) -> None:
        self.name = llm.name
        self.model = llm.model
        self.is_free = llm.is_free
        self._llm = llm
        self._budget = budget
        self._stage = stage
        self._phase: Phase = phase or stage

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        """Stream as the port says. Only the wait for the model is limited in time, not the reader's use of a part."""
        request, reservation = await self._reserve(request)
        until = self._budget.compute_phase_end(self._phase)
        with self._open_account(reservation, request) as account:
            async with aclosing(self._llm.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
                while (part := await _receive_part(parts, until)) is not None:
                    account.add(part)
                    yield part

    async def _reserve(self, request: LLMRequest) -> tuple[LLMRequest, Reservation]:
        """Return the request with the bounds of the budget, and its reservation."""
        bounds: dict[str, int] = {}
        tokens = 0
        if self._budget.is_priced:
            tokens = estimate_prompt_tokens(request)
            bounds["max_tokens"] = request.max_tokens or DEFAULT_MAX_ANSWER_TOKENS
        reservation = await self._budget.reserve(self._stage, tokens, bounds.get("max_tokens", 0), self._phase)
        if self._budget.is_limited:
            bounds["max_tries"] = min(reservation.tries, request.max_tries or reservation.tries)
        return request.model_copy(update=bounds) if bounds else request, reservation

    @contextmanager
    def _open_account(self, reservation: Reservation, request: LLMRequest) -> Iterator[_CallAccount]:
        account = _CallAccount(self._budget, request)
        try:
            yield account
        except TimeoutError:
            raise LLMTimeoutError(LATE.format(stage=self._stage), spent=account.estimate_spending()) from None
        except LLMException as error:
            account.spent = error.spent
            raise
        finally:
            interrupted = account.spent is None
            self._budget.settle(reservation, account.spent or account.estimate_spending(), interrupted=interrupted)


async def _receive_part(parts: AsyncIterator[LLMStreamPart], until: float) -> LLMStreamPart | None:
    """Return the next part, None at the end. Raises TimeoutError from `until` (event loop time) on."""
    if asyncio.get_running_loop().time() >= until:
        raise TimeoutError
    async with deadline_at(until):
        return await anext(parts, None)


@dataclass(slots=True)
class _CallAccount:
    """The reported cost of one call, and an estimate for a call that was interrupted."""

    budget: Budget
    request: LLMRequest
    spent: Spending | None = None
    tokens: list[str] = field(default_factory=list)

    def add(self, part: LLMStreamPart) -> None:
        if isinstance(part, LLMToken):
            self.tokens.append(part.text)
        elif isinstance(part, LLMResponse):
            # A caller's own provider may report no spending: its call still counts as one.
            usage = part.usage
            self.spent = (
                part.spent if part.spent.calls else self._price_call(usage.prompt_tokens, usage.completion_tokens)
            )

    def estimate_spending(self) -> Spending:
        """Return one call with its prompt and the tokens received so far."""
        return self._price_call(estimate_prompt_tokens(self.request), count_tokens("".join(self.tokens)))

    def _price_call(self, prompt_tokens: int, completion_tokens: int) -> Spending:
        cost = self.budget.compute_cost(prompt_tokens, completion_tokens)
        return Spending(calls=1, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost_usd=cost)


def estimate_prompt_tokens(request: LLMRequest) -> int:
    """Return an estimate of the tokens of a prompt."""
    return sum(count_tokens(message.content) + MESSAGE_TOKENS for message in request.messages)
