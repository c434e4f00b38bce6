"""Keep what a judge said: an answer that comes from the cache is not judged, and paid for, again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.research_dtos import CitedClaim, JudgedClaims
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge


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
