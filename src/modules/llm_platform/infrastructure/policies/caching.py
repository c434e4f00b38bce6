"""The same search is asked once: what was found is kept for a while (docs/reference/settings.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import (
    CitedClaim,
    JudgedClaims,
    Source,
    Synthesis,
    SynthesisPart,
    SynthesisToken,
)
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer, report_arguments
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider

DEGRADED_TTL_S: Final = 60.0  # whoever was missing may be back soon
EMPTY_TTL_S: Final = 300.0
DOCUMENTS: Final = "documents"  # files change, and reading them is as fast as a cache


class CachedWebSearch(IWebSearchProvider):
    """Answers of `provider`, kept for `ttl_s` seconds. Failures are not kept, nor are answers of documents."""

    def __init__(self, provider: IWebSearchProvider, cache: ICache[WebSearchResponse], ttl_s: float) -> None:
        self.name = provider.name
        self._provider = provider
        self._cache = cache
        self._ttl_s = ttl_s

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        if self.name == DOCUMENTS:
            return await self._provider.search(request)
        key = key_of(self.name, request)
        hit = await self._cache.get(key)
        if hit is not None:
            return hit
        answer = await self._provider.search(request)
        if answer.provider != DOCUMENTS:
            # Marked when it is kept, so that a hit is handed out without a copy.
            await self._cache.set(key, answer.model_copy(update={"cached": True}), self._ttl_of(answer))
        return answer

    def _ttl_of(self, answer: WebSearchResponse) -> float:
        if answer.degraded:
            return min(self._ttl_s, DEGRADED_TTL_S)
        return self._ttl_s if answer.results else min(self._ttl_s, EMPTY_TTL_S)


def key_of(provider: str, request: WebSearchRequest) -> str:
    """A digest of everything that changes the answer: who is asked, how the query is read, and every field.

    The order of engines, source kinds and domains changes nothing, so it is taken out.
    """
    fields = request.model_dump()
    for name in ("engines", "sources", "domains"):
        fields[name] = sorted(set(fields[name]))
    text = json.dumps([provider, type(request).__name__, fields], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# Keep what a writer wrote: the same question over the same sources is not paid for twice (requirements RB8 to RB11).


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


# Keep what a judge said: an answer that comes from the cache is not judged, and paid for, again.


class CachedCitationJudge(ICitationJudge):
    """A judge that remembers for `ttl_s` seconds. The key holds the question, the claims with their quotes, and the judge's
    version; `version` stands for what the caller knows of it (the models). What held no verdict is not kept.
    """

    def __init__(self, judge: ICitationJudge, cache: ICache[JudgedClaims], ttl_s: float, version: str = "") -> None:
        self.name = judge.name
        self.version = judge.version
        self._judge = judge
        self._cache = cache
        self._ttl_s = ttl_s
        self._version = version

    async def judge(self, question: str, claims: Sequence[CitedClaim]) -> JudgedClaims:
        key = self._key(question, claims)
        if kept := await self._cache.get(key):
            return kept
        said = await self._judge.judge(question, claims)
        if any(said.verdicts):
            kept = said.model_copy(update={"spent": NOTHING_SPENT, "degraded": ()})
            await self._cache.set(key, kept, self._ttl_s)
        return said

    def _key(self, question: str, claims: Sequence[CitedClaim]) -> str:
        shown = [(each.claim, each.quote, each.title) for each in claims]
        asked = json.dumps((question, shown, self.version, self.name, self._version), separators=(",", ":"))
        return "judged:" + hashlib.sha256(asked.encode()).hexdigest()
