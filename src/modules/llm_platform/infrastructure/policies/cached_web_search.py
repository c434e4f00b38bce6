"""The same search is asked once: what was found is kept for a while (interface.md, CACHE_TTL_S)."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.cache import ICache
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
