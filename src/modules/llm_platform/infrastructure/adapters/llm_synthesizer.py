"""Let a language model write the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.dtos.research_dtos import (
    Source,
    Synthesis,
    SynthesisPart,
    SynthesisReset,
    SynthesisToken,
)
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.text.messages import messages_for
from modules.llm_platform.infrastructure.llm.prompts import (
    PROMPT_VERSION,
    REPORT_PROMPT_VERSION,
    NoAnswerReader,
    Prompt,
    build_prompt,
    build_report_prompt,
)
from shared.exceptions import AppException

DEFAULT_CONTEXT_TOKENS = 32_000
INLINE_CHARS = 150_000  # of all sources together: about 10 ms of packing; more goes to a thread


class LLMSynthesizer(ISynthesizer):
    """Numbered sources as fenced data, the rules of requirements RB8 to RB11 around them, one call of the model.

    `llm` may be a router: its resets and what it spent are passed on. `context_tokens` is how much the smallest model behind
    it holds, prompt and answer together. Raises what the port of models raises.
    """

    version = f"{PROMPT_VERSION}.{REPORT_PROMPT_VERSION}"
    writes_reports = True

    def __init__(self, llm: ILLMProvider, *, context_tokens: int = DEFAULT_CONTEXT_TOKENS, name: str = "llm") -> None:
        self.name = name
        self._llm = llm
        self._context_tokens = context_tokens

    async def synthesize(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> Synthesis:
        if not sources:
            return self._nothing_found(language)
        prompt = await self._prompt(question, sources, language, max_tokens, instructions, questions)
        response = await self._llm.generate(_request(prompt))
        reader = NoAnswerReader()
        text = reader.feed(response.content) + reader.finish()
        return _synthesis(response, text or messages_for(language).not_answered, reader.answered, prompt)

    async def stream(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        instructions: str | None = None,
        questions: Sequence[str] = (),
    ) -> AsyncIterator[SynthesisPart]:
        if not sources:
            nothing = self._nothing_found(language)
            yield SynthesisToken(text=nothing.text)
            yield nothing
            return
        prompt = await self._prompt(question, sources, language, max_tokens, instructions, questions)
        reader, written = NoAnswerReader(), ""
        response: LLMResponse | None = None
        async with aclosing(self._llm.stream(_request(prompt))) as parts:  # type: ignore[type-var]  # an async generator
            async for part in parts:
                if isinstance(part, LLMToken):
                    if text := reader.feed(part.text):
                        written += text
                        yield SynthesisToken(text=text)
                elif isinstance(part, LLMReset):
                    reader, written = NoAnswerReader(), ""
                    yield SynthesisReset(reason=_reason(part.error))
                else:
                    response = part
        if response is None:
            raise LLMProviderException("The language model's stream ended without an answer: ask another model")
        if rest := reader.finish() or ("" if written else messages_for(language).not_answered):
            written += rest
            yield SynthesisToken(text=rest)
        yield _synthesis(response, written, reader.answered, prompt)

    async def _prompt(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        max_tokens: int,
        instructions: str | None,
        questions: Sequence[str],
    ) -> Prompt:
        build = partial(
            partial(build_report_prompt, question, questions) if questions else partial(build_prompt, question),
            sources,
            language,
            max_tokens=max_tokens,
            instructions=instructions,
            context_tokens=self._context_tokens,
        )
        if sum(len(source.text) for source in sources) <= INLINE_CHARS:
            return build()
        return await asyncio.to_thread(build)

    def _nothing_found(self, language: str) -> Synthesis:
        return Synthesis(text=messages_for(language).nothing_found, synthesizer=self.name, answered=False)


def _request(prompt: Prompt) -> LLMRequest:
    return LLMRequest(messages=prompt.messages, max_tokens=prompt.max_tokens, holds="page text")


def _synthesis(response: LLMResponse, text: str, answered: bool, prompt: Prompt) -> Synthesis:
    return Synthesis(
        text=text,
        synthesizer=f"{response.provider}/{response.model}",
        answered=answered,
        truncated_tokens=prompt.truncated_tokens,
        finish_reason=response.finish_reason,
        spent=response.spent,
        degraded=response.degraded,
    )


def _reason(error: Exception) -> str:
    """Why the text is void, without a word of the other side's where the error is not one of ours."""
    return f"{error.code}: {error.message}" if isinstance(error, AppException) else type(error).__name__
