"""A fake language model."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.ports.llm import ILLMProvider, LLMRegistry
from modules.llm_platform.domain.text.tokens import count_tokens


@dataclass(frozen=True)
class BrokenStream:
    """A stream of `text` that ends with `error`."""

    text: str
    error: exceptions.LLMException = field(
        default_factory=lambda: exceptions.LLMConnectionError("the connection to the model was lost")
    )


class FakeLLM(ILLMProvider):
    """Returns the scripted answers in turn, and repeats the last one.

    An answer is a text, an LLMResponse (to set its `finish_reason`), an exception to raise, or a BrokenStream.

    - `delay_s` is the time in seconds before each answer.
    - `chunk_delay_s` is the time in seconds after each streamed chunk of `chunk_chars` characters.
    - `requests` has all requests in their order.
    - `running` is the number of running calls, which must be 0 after a cancelled call.
    """

    model: str

    def __init__(
        self,
        answers: Sequence[str | dtos.LLMResponse | Exception | BrokenStream] = ("A scripted answer.",),
        name: str = "fake",
        model: str = "fake-1",
        delay_s: float = 0.0,
        chunk_chars: int = 8,
        chunk_delay_s: float = 0.0,
    ) -> None:
        if not answers:
            raise ValueError("FakeLLM needs at least one answer")
        self.name, self.model = name, model
        self.requests: list[dtos.LLMRequest] = []
        self.running = 0
        self._answers = tuple(answers)
        self._delay_s, self._chunk_delay_s, self._chunk_chars = delay_s, chunk_delay_s, chunk_chars
        self._registry = LLMRegistry((self,))

    async def stream(self, request: dtos.LLMRequest) -> AsyncIterator[dtos.LLMStreamPart]:
        answer = self._next(request)
        self.running += 1
        try:
            await asyncio.sleep(self._delay_s)
            finished = None if isinstance(answer, BrokenStream) else self._response(answer, request)
            text = answer.text if isinstance(answer, BrokenStream) else finished.content if finished else ""
            for start in range(0, len(text), self._chunk_chars):
                yield dtos.LLMToken(text=text[start : start + self._chunk_chars])
                await asyncio.sleep(self._chunk_delay_s)
            if isinstance(answer, BrokenStream):
                raise _with_spending(answer.error, _spending(request, answer.text))
            if finished:
                yield finished
        finally:
            self.running -= 1

    async def ping(self) -> str:
        return "scripted"

    def _next(self, request: dtos.LLMRequest) -> str | dtos.LLMResponse | Exception | BrokenStream:
        self._registry.resolve(request)
        self.requests.append(request)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]

    def _response(self, answer: str | dtos.LLMResponse | Exception, request: dtos.LLMRequest) -> dtos.LLMResponse:
        if isinstance(answer, Exception):
            raise _with_spending(answer, dtos.Spending(calls=1))
        if isinstance(answer, dtos.LLMResponse):
            return answer
        spent = _spending(request, answer)
        if not answer.strip():
            raise exceptions.LLMProviderException("the model gave an empty answer", spent=spent)
        usage = dtos.Usage(prompt_tokens=spent.prompt_tokens, completion_tokens=spent.completion_tokens)
        return dtos.LLMResponse(content=answer, provider=self.name, model=self.model, usage=usage, spent=spent)


def _spending(request: dtos.LLMRequest, answer: str) -> dtos.Spending:
    prompt = sum(count_tokens(message.content) for message in request.messages)
    return dtos.Spending(calls=1, prompt_tokens=prompt, completion_tokens=count_tokens(answer))


def _with_spending(error: Exception, spent: dtos.Spending) -> Exception:
    """Set the spending of an error to one call unless the script sets it."""
    if isinstance(error, exceptions.LLMException) and error.spent == dtos.Spending():
        error.spent = spent
    return error
