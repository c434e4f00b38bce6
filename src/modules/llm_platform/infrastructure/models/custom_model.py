"""A language model that a caller brings, which may raise and yield anything."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

from modules.llm_platform.domain.concurrency.stray_cancellation import fail_on_stray_cancellation
from modules.llm_platform.domain.dtos.llm_dtos import (
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
)
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from shared.exceptions import AppException

log = logging.getLogger(__name__)

UNEXPECTED_ERROR: Final = "The language model {name} raised an unexpected error: see the log"
WRONG_PART: Final = "stream() yields LLMToken, LLMReset and LLMResponse, and no {type}"
# The methods of IContextWindow, ISlowToLoad and IHealthProbe. Since Python 3.12, isinstance only sees attributes of the object.
OPTIONAL: Final = ("context_tokens", "begin_loading", "ping")


class CustomModel(ILLMProvider):
    """Raises an LLMException instead of any other error, so that a run continues without the model. All else passes through."""

    def __init__(self, model: ILLMProvider) -> None:
        self.name = model.name
        self.model = model.model
        self.is_free = model.is_free
        self._own = model
        for optional in OPTIONAL:
            if hasattr(model, optional):
                setattr(self, optional, getattr(model, optional))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        with self._translate_errors():
            async with aclosing(self._own.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
                async for part in parts:
                    if not isinstance(part, LLMToken | LLMReset | LLMResponse):
                        raise TypeError(WRONG_PART.format(type=type(part).__name__))
                    yield part

    async def generate(self, request: LLMRequest) -> LLMResponse:
        with self._translate_errors():
            return await self._own.generate(request)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with fail_on_stray_cancellation():
                yield
        except AppException:
            raise
        except Exception as error:
            log.exception("language model failed", extra={"provider": self.name, "error": type(error).__name__})
            raise LLMProviderException(UNEXPECTED_ERROR.format(name=self.name), spent=Spending(calls=1)) from error
