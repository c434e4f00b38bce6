"""A scripted language model, and the promises that every `ILLMProvider` keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.domain.dtos.llm_dtos import (
    ChatMessage,
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
    Usage,
)
from modules.llm_platform.domain.exceptions import (
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMRequestError,
)
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.testing.patience import RETURNS_WITHIN_S


@dataclass(frozen=True)
class Death:
    """The model writes `text`, then the connection is gone. Asked for a whole answer it only fails."""

    text: str
    error: LLMException = field(default_factory=lambda: LLMConnectionError("the model died half-way"))


class FakeLLM(ILLMProvider):
    """Gives the scripted answers in turn, the last one for ever; keeps every request in `requests`.

    An answer is a text, a finished LLMResponse (for a `finish_reason` of your own), an exception to raise, or a Death.
    `delay_s` passes before each answer, `chunk_delay_s` after each streamed piece of `chunk_chars` characters.
    `running` counts the calls under way: 0 after a cancelled one, or something was left behind.
    """

    model: str

    def __init__(
        self,
        answers: Sequence[str | LLMResponse | Exception | Death] = ("A scripted answer.",),
        name: str = "fake",
        model: str = "fake-1",
        delay_s: float = 0.0,
        chunk_chars: int = 8,
        chunk_delay_s: float = 0.0,
    ) -> None:
        if not answers:
            raise ValueError("FakeLLM needs at least one answer")
        self.name, self.model = name, model
        self.requests: list[LLMRequest] = []
        self.running = 0
        self._answers = tuple(answers)
        self._delay_s, self._chunk_delay_s, self._chunk_chars = delay_s, chunk_delay_s, chunk_chars
        self._registry = LLMRegistry((self,))

    async def generate(self, request: LLMRequest) -> LLMResponse:
        answer = self._next(request)
        self.running += 1
        try:
            await asyncio.sleep(self._delay_s)
            if isinstance(answer, Death):
                raise self._dead(answer, request)
            return self._finished(answer, request)
        finally:
            self.running -= 1

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        answer = self._next(request)
        self.running += 1
        try:
            await asyncio.sleep(self._delay_s)
            finished = None if isinstance(answer, Death) else self._finished(answer, request)
            text = answer.text if isinstance(answer, Death) else finished.content if finished else ""
            for start in range(0, len(text), self._chunk_chars):
                yield LLMToken(text=text[start : start + self._chunk_chars])
                await asyncio.sleep(self._chunk_delay_s)
            if isinstance(answer, Death):
                raise self._dead(answer, request)
            if finished:
                yield finished
        finally:
            self.running -= 1

    async def ping(self) -> str:
        return "scripted"

    def _next(self, request: LLMRequest) -> str | LLMResponse | Exception | Death:
        self._registry.resolve(request)
        self.requests.append(request)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]

    def _finished(self, answer: str | LLMResponse | Exception, request: LLMRequest) -> LLMResponse:
        if isinstance(answer, Exception):
            raise _counted(answer, Spending(calls=1))
        if isinstance(answer, LLMResponse):
            return answer
        spent = _spending(request, answer)
        if not answer.strip():
            raise LLMProviderException("the model gave an empty answer", spent=spent)
        usage = Usage(prompt_tokens=spent.prompt_tokens, completion_tokens=spent.completion_tokens)
        return LLMResponse(content=answer, provider=self.name, model=self.model, usage=usage, spent=spent)

    def _dead(self, death: Death, request: LLMRequest) -> Exception:
        return _counted(death.error, _spending(request, death.text))


def _spending(request: LLMRequest, answer: str) -> Spending:
    prompt = sum(count_tokens(message.content) for message in request.messages)
    return Spending(calls=1, prompt_tokens=prompt, completion_tokens=count_tokens(answer))


def _counted(error: Exception, spent: Spending) -> Exception:
    """A scripted error costs a call, unless the script says what it cost."""
    if isinstance(error, LLMException) and error.spent == Spending():
        error.spent = spent
    return error


class LLMProviderContract:
    """Subclass it, give these fixtures, and the port's promises are checked.

    provider: answers with words · failing: cannot answer · slow: takes ten seconds or more to answer ·
    dying: streams a few words first and fails then (one that fails over may go on with another model).
    """

    async def test_an_answer_has_words_an_origin_and_a_count(self, provider: ILLMProvider) -> None:
        """The answer is not empty, names who wrote it, and one call is accounted with its tokens."""
        answer = await provider.generate(question())
        assert answer.content.strip()
        assert answer.provider
        assert answer.model
        assert answer.finish_reason
        assert answer.usage.prompt_tokens > 0
        assert answer.usage.completion_tokens > 0
        assert answer.spent.calls == 1
        assert answer.spent.tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens

    async def test_streamed_tokens_are_the_answer(self, provider: ILLMProvider) -> None:
        """A stream is tokens, then exactly one whole answer, whose content is those tokens joined."""
        parts = await collect(provider, question())
        assert all(isinstance(part, LLMToken) for part in parts[:-1])
        finished = parts[-1]
        assert isinstance(finished, LLMResponse)
        assert finished.content == "".join(part.text for part in parts[:-1] if isinstance(part, LLMToken))
        assert finished.content.strip()
        assert finished.spent.calls == 1

    async def test_side_by_side(self, provider: ILLMProvider) -> None:
        """One provider serves many requests at the same time."""
        answers = await asyncio.gather(*(provider.generate(question()) for _ in range(5)))
        assert all(answer.content.strip() for answer in answers)

    async def test_not_being_able_to_answer_is_an_error(self, failing: ILLMProvider) -> None:
        """A failure is an LLMException, never an empty answer, and the failed try is accounted."""
        error = await _error_of(failing.generate(question()))
        assert error.message
        assert error.spent.calls >= 1

    async def test_a_stream_fails_with_the_same_error(self, failing: ILLMProvider) -> None:
        """What `generate` raises, `stream` raises too, before any token."""
        whole = await _error_of(failing.generate(question()))
        streamed = await _error_of(collect(failing, question()))
        assert type(streamed) is type(whole)

    async def test_another_model_than_configured_is_the_callers_mistake(self, provider: ILLMProvider) -> None:
        """A model or provider that nobody configured is refused as such; it is never replaced without a word."""
        for wish in ({"model": "no-such-model"}, {"provider": "no-such-provider"}):
            error = await _error_of(provider.generate(question(**wish)))
            assert isinstance(error, LLMRequestError)
            assert "no-such" not in error.message

    async def test_dying_half_way_is_never_taken_for_an_answer(self, dying: ILLMProvider) -> None:
        """After words and a failure there is an error, or a reset and then a whole answer of the words since."""
        words: list[str] = []
        resets = 0
        try:
            async for part in dying.stream(question()):
                if isinstance(part, LLMToken):
                    words.append(part.text)
                elif isinstance(part, LLMReset):
                    assert words, "a reset before the first word voids nothing"
                    resets, words = resets + 1, []
                else:
                    assert resets, "half an answer was given as a whole one"
                    assert part.content == "".join(words)
                    return
        except LLMException as error:
            spent = error.spent
        assert words, "it is to fail after words"
        assert spent.calls >= 1

    async def test_cancelling_is_prompt(self, slow: ILLMProvider) -> None:
        """A cancelled call ends at once with CancelledError, plain or streamed."""
        calls: list[Awaitable[object]] = [slow.generate(question()), collect(slow, question())]
        for call in calls:
            task = asyncio.create_task(_run(call))
            await asyncio.sleep(0.05)
            assert not task.done()
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=RETURNS_WITHIN_S)
            assert done, "a cancelled call must return"
            assert task.cancelled()

    async def test_a_closed_stream_is_over(self, provider: ILLMProvider) -> None:
        """A reader may leave after the first word; the next request is served as ever."""
        async with aclosing(provider.stream(question())) as parts:  # type: ignore[type-var]
            first = await anext(parts)
        assert isinstance(first, LLMToken)
        assert (await provider.generate(question())).content


def question(text: str = "What is an event loop?", **wishes: str) -> LLMRequest:
    """A small request; `wishes` are its other fields."""
    return LLMRequest.model_validate({"messages": (ChatMessage(role="user", content=text),), **wishes})


async def collect(provider: ILLMProvider, request: LLMRequest) -> list[LLMStreamPart]:
    """Everything that a stream gives."""
    return [part async for part in provider.stream(request)]


async def _run(call: Awaitable[object]) -> object:
    return await call


async def _error_of(call: Awaitable[object]) -> LLMException:
    try:
        await call
    except LLMException as error:
        return error
    raise AssertionError("an LLMException was due")
