"""The contract of `ILLMProvider`, run by every adapter, policy and fake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.testing.waiting import error_of, is_cancelled_promptly


class LLMProviderContract:
    """Subclass it and add these fixtures, each an ILLMProvider.

    provider: returns a text · failing: raises an error · slow: takes at least ten seconds · dying: fails after it has
    streamed a few words (a provider with failover may continue with another model).
    """

    async def test_response_has_content_provider_and_usage(self, provider: ILLMProvider) -> None:
        """The content is not empty, provider and model are named, and one call is counted with its tokens."""
        answer = await provider.generate(question())
        assert answer.content.strip()
        assert answer.provider
        assert answer.model
        assert answer.finish_reason
        assert answer.usage.prompt_tokens > 0
        assert answer.usage.completion_tokens > 0
        assert answer.spent.calls == 1
        assert answer.spent.tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens

    async def test_stream_yields_tokens_then_the_response(self, provider: ILLMProvider) -> None:
        """A stream yields tokens, then one response whose content is the joined tokens."""
        parts = await collect(provider, question())
        assert all(isinstance(part, dtos.LLMToken) for part in parts[:-1])
        finished = parts[-1]
        assert isinstance(finished, dtos.LLMResponse)
        assert finished.content == "".join(part.text for part in parts[:-1] if isinstance(part, dtos.LLMToken))
        assert finished.content.strip()
        assert finished.spent.calls == 1

    async def test_calls_can_run_concurrently(self, provider: ILLMProvider) -> None:
        """One provider serves many requests at the same time."""
        answers = await asyncio.gather(*(provider.generate(question()) for _ in range(5)))
        assert all(answer.content.strip() for answer in answers)

    async def test_failure_raises_an_error(self, failing: ILLMProvider) -> None:
        """A failure is an LLMException, never an empty response, and the failed call is counted."""
        error = await _error_of(failing.generate(question()))
        assert error.message
        assert error.spent.calls >= 1

    async def test_stream_raises_the_same_error_before_any_token(self, failing: ILLMProvider) -> None:
        """`stream` raises the error of `generate` before it yields a token."""
        generated = await _error_of(failing.generate(question()))
        streamed = await _error_of(collect(failing, question()))
        assert type(streamed) is type(generated)

    async def test_unknown_model_or_provider_is_a_request_error(self, provider: ILLMProvider) -> None:
        """A model or provider that is not configured is refused, not replaced, and the message does not repeat its name."""
        for fields in ({"model": "no-such-model"}, {"provider": "no-such-provider"}):
            error = await _error_of(provider.generate(question(**fields)))
            assert isinstance(error, exceptions.LLMRequestError)
            assert "no-such" not in error.message

    async def test_broken_stream_is_never_a_response(self, dying: ILLMProvider) -> None:
        """After tokens and a failure there is an error, or a reset followed by a complete response."""
        words: list[str] = []
        resets = 0
        try:
            async for part in dying.stream(question()):
                if isinstance(part, dtos.LLMToken):
                    words.append(part.text)
                elif isinstance(part, dtos.LLMReset):
                    assert words, "a reset needs a token before it"
                    resets, words = resets + 1, []
                else:
                    assert resets, "a partial response was returned as complete"
                    assert part.content == "".join(words)
                    return
        except exceptions.LLMException as error:
            spent = error.spent
        assert words, "the stream must fail after a token"
        assert spent.calls >= 1

    async def test_cancelled_call_ends_promptly(self, slow: ILLMProvider) -> None:
        """A cancelled call ends with CancelledError, with and without streaming."""
        calls: list[Awaitable[object]] = [slow.generate(question()), collect(slow, question())]
        for call in calls:
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0.05)
            assert not task.done()
            assert await is_cancelled_promptly(task)

    async def test_stream_can_be_closed_early(self, provider: ILLMProvider) -> None:
        """A stream can be closed after the first token; the next request is served."""
        async with aclosing(provider.stream(question())) as parts:  # type: ignore[type-var]
            first = await anext(parts)
        assert isinstance(first, dtos.LLMToken)
        assert (await provider.generate(question())).content


def question(text: str = "What is an event loop?", **fields: str) -> dtos.LLMRequest:
    """Return a small request with other fields."""
    return dtos.LLMRequest.model_validate({"messages": (dtos.ChatMessage(role="user", content=text),), **fields})


async def collect(provider: ILLMProvider, request: dtos.LLMRequest) -> list[dtos.LLMStreamPart]:
    return [part async for part in provider.stream(request)]


async def _error_of(call: Awaitable[object]) -> exceptions.LLMException:
    return await error_of(call, exceptions.LLMException)
