"""Keep what a writer wrote: the same question over the same sources is not paid for twice (research-bridge.md §3.3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.research_dtos import Source, Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer, report_arguments


class CachedSynthesizer(ISynthesizer):
    """A writer that remembers for `ttl_s` seconds; 0 remembers nothing and costs nothing.

    The key holds all that shapes the text: question, sub-questions, sources with their numbers and texts, language, limit,
    wishes, the writer's name and versions; `version` stands for what the caller knows of it (prompt version, model). Only a
    text that came to its own end, from a writer with nothing degraded, is kept. A hit spends nothing.
    """

    def __init__(self, writer: ISynthesizer, cache: ICache[Synthesis], ttl_s: float, version: str) -> None:
        self.name = writer.name
        self.version = writer.version
        self.writes_reports = writer.writes_reports
        self._writer = writer
        self._cache = cache
        self._ttl_s = ttl_s
        self._version = version

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
        if self._ttl_s <= 0:
            return await self._ask(question, sources, language, max_tokens, instructions, questions)
        key = self._key(question, sources, language, max_tokens, instructions, questions)
        if hit := await self._recall(key):
            return hit
        written = await self._ask(question, sources, language, max_tokens, instructions, questions)
        await self._keep(key, written)
        return written

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
        key = None
        if self._ttl_s > 0:
            key = self._key(question, sources, language, max_tokens, instructions, questions)
            if hit := await self._recall(key):
                yield SynthesisToken(text=hit.text)
                yield hit
                return
        parts = self._writer.stream(
            question,
            sources,
            language,
            max_tokens=max_tokens,
            instructions=instructions,
            **report_arguments(self._writer, questions),
        )
        async with aclosing(parts) as stream:  # type: ignore[type-var]  # every implementation is an async generator
            async for part in stream:
                if key is not None and isinstance(part, Synthesis):
                    await self._keep(key, part)
                yield part

    async def _ask(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        max_tokens: int,
        instructions: str | None,
        questions: Sequence[str],
    ) -> Synthesis:
        return await self._writer.synthesize(
            question,
            sources,
            language,
            max_tokens=max_tokens,
            instructions=instructions,
            **report_arguments(self._writer, questions),
        )

    async def _recall(self, key: str) -> Synthesis | None:
        kept = await self._cache.get(key)
        return kept.model_copy(update={"cached": True, "spent": Spending()}) if kept else None

    async def _keep(self, key: str, written: Synthesis) -> None:
        if written.finish_reason == "stop" and not written.degraded:
            await self._cache.set(key, written, self._ttl_s)

    def _key(
        self,
        question: str,
        sources: Sequence[Source],
        language: str,
        max_tokens: int,
        instructions: str | None,
        questions: Sequence[str],
    ) -> str:
        shown = [(source.index, source.url, source.title, source.published, _digest(source.text)) for source in sources]
        asked = (question, tuple(questions), shown, language, max_tokens, instructions)
        asked_of = (self._version, self.version, self.name)
        return "synthesis:" + _digest(json.dumps((asked, asked_of), ensure_ascii=True, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
