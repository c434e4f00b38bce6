"""The port of language models, and the registry of those that are configured."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol, runtime_checkable

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMConnectionError, LLMRequestError

NOT_CONFIGURED: Final = (
    "No language model is set up: set LLM_API_KEY with LLM_MODEL, or KIMI_API_KEY; "
    "research works without one and quotes its sources (extractive)"
)

BROKEN_OFF: Final = "{name} stopped in the middle of the answer: try again"


class ILLMProvider(ABC):
    """A language model, or several behind one name."""

    name: str = "custom"  # shown in `provider`, `degraded`, logs and metrics
    model: str | None = None  # what a request may ask for by name; None where several are behind one name
    is_free: bool = False  # True if every call costs nothing

    @abstractmethod
    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        """Yield the answer as a stream: LLMToken…, then one LLMResponse whose content is the tokens joined.

        The content has no reasoning blocks; it is empty only beside tool calls. After an LLMReset the tokens so far are void:
        another model starts, or the same one again. Raises an LLMException of `domain.exceptions` and nothing else, at any
        point; its `spent` is the cost of the failed call. Cancelling is safe at any point and closes the connection, as
        closing the iterator does.
        """

    async def generate(self, request: LLMRequest) -> LLMResponse:
        """Return the complete answer: the end of the stream."""
        last: LLMStreamPart | None = None
        async with aclosing(self.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
            async for part in parts:
                last = part  # the stream is drained, so that wrappers of the call record success
        if isinstance(last, LLMResponse):
            return last
        raise LLMConnectionError(BROKEN_OFF.format(name=self.name))


@runtime_checkable
class IContextWindow(Protocol):
    """A model that knows the size of its context window."""

    async def context_tokens(self) -> int | None:
        """Return the number of tokens of prompt and answer together; None if it is unknown."""


@runtime_checkable
class ISlowToLoad(Protocol):
    """A model whose library takes long to load."""

    def begin_loading(self) -> None:
        """Load the library in the background, once. The first call waits for it, and raises the error of a missing one."""


ContextTokens = Callable[[], Awaitable[int]]  # the smallest context window of the models that may be called


async def resolve_context(tokens: int | ContextTokens) -> int:
    """Return the number, requested from the service where only that knows it."""
    return tokens if isinstance(tokens, int) else await tokens()


class LLMRegistry:
    """The configured models in failover order, each with a unique name."""

    def __init__(self, providers: Sequence[ILLMProvider]) -> None:
        """Raises ValueError if two providers have the same name."""
        names = [provider.name for provider in providers]
        if len(set(names)) < len(names):
            raise ValueError(f"language models need unique names: {', '.join(names)}")
        self._providers = tuple(providers)

    @property
    def providers(self) -> tuple[ILLMProvider, ...]:
        return self._providers

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(provider.name for provider in self._providers)

    def resolve(self, request: LLMRequest) -> tuple[ILLMProvider, ...]:
        """Return the models that may serve the request, in failover order; never empty.

        Raises LLMConfigError without any model, LLMRequestError if the request names one that is not configured.
        """
        if not self._providers:
            raise LLMConfigError(NOT_CONFIGURED)
        if request.provider is None and request.model is None:
            return self._providers
        candidates = [p for p in self._providers if request.provider in (None, p.name)]
        if not candidates:
            message = f"provider is not configured: choose one of {', '.join(self.names)}"
            raise LLMRequestError(message, field="provider")
        matching = tuple(p for p in candidates if request.model in (None, p.model))
        if not matching:
            models = dict.fromkeys(p.model for p in candidates if p.model)
            message = f"model is not configured: choose one of {', '.join(models) or 'none, leave it out'}"
            raise LLMRequestError(message, field="model")
        return matching
