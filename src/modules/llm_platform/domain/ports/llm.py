"""The port of language models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart


class ILLMProvider(ABC):
    """A language model, or several behind one name, as this context sees it."""

    name: str = "custom"  # in `provider`, `degraded`, logs and metrics
    model: str | None = None  # what a request may ask for by name; None where several stand behind one name

    @abstractmethod
    async def generate(self, request: LLMRequest) -> LLMResponse:
        """The whole answer: text that is not empty, reasoning blocks removed.

        Raises an LLMException of `domain.exceptions` and nothing else; its `spent` counts what the failed try cost.
        Cancelling is safe at any point and closes the connection.
        """

    @abstractmethod
    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        """The same answer piece by piece: LLMToken…, then one LLMResponse whose content is the tokens joined.

        After an LLMReset the tokens so far are void and another model begins. Errors as in `generate`, at any point.
        Closing the iterator closes the connection.
        """


@runtime_checkable
class IWarmUp(Protocol):
    """The small second port of a model whose first request is slow: its client library takes half a second to load."""

    async def warm_up(self) -> None:
        """Load now what the first request will need, while the caller waits for something else. Raises nothing."""
