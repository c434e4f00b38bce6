"""Rank what a search found, a batch in one call, each address once in all runs of a topic (mind-search.md §3)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from modules.llm_platform.application.research.events import Kept, Ranked
from modules.llm_platform.application.research.ground import Ground
from modules.llm_platform.application.research.rank import RANK_VERSION, rank
from modules.llm_platform.application.research.report_run import ReportRun
from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.report_dtos import Candidate, RankedBatch, Score
from modules.llm_platform.domain.store_key import KEY_CHARS


class RankDesk:
    """Scores the addresses of a ground, from the store where they were ranked before."""

    def __init__(self, run: ReportRun, ground: Ground) -> None:
        self._run = run
        self._ground = ground
        self._version = run.stage_key("rank", RANK_VERSION, query=run.request.query)

    async def scores_of_before(self) -> Mapping[str, Score]:
        """What an earlier run of this topic paid for, by content."""
        batches = await self._run.shelf.values("ranked_results", RankedBatch)
        return {
            key: score
            for batch in batches
            if batch.version == self._version
            for key, score in zip(batch.keys, batch.scores, strict=False)
        }

    async def rank(self, addresses: Sequence[str], question: str, query: str, known: Mapping[str, Score]) -> None:
        """Give each address a score; `question` is the sub-question whose `query` found them."""
        run, ground = self._run, self._ground
        keys = {address: _content_key(ground.candidates[address]) for address in addresses}
        ground.scores |= {address: known[key] for address, key in keys.items() if key in known}
        todo = [address for address in addresses if address not in ground.scores]
        defaulted = 0
        if todo:
            made = await rank([ground.candidates[each] for each in todo], run.request.query, question, run.llm("rank"))
            defaulted = made.defaulted
            ground.stood_in += defaulted
            run.note(*made.degraded)
            ground.scores |= dict(zip(todo, made.scores, strict=True))
            await self._keep(todo, keys)
        kept = sorted((self._kept(address) for address in addresses), key=lambda each: -(each.score or 0.0))
        run.tell(Ranked(request_id=run.request_id, query=query, kept=tuple(kept), defaulted=defaulted))

    async def _keep(self, addresses: Sequence[str], keys: Mapping[str, str]) -> None:
        """Only what a model said is worth keeping: the stand-ins cost nothing, and the next run may do better."""
        scored = [address for address in addresses if self._ground.scores[address].by == "model"]
        if not scored:
            return
        kept = tuple(keys[address] for address in scored)
        scores = tuple(self._ground.scores[address] for address in scored)
        value = RankedBatch(version=self._version, keys=kept, scores=scores)
        await self._run.shelf.put("ranked_results", self._run.shelf.key(self._version, "", keys=kept), value)

    def _kept(self, address: str) -> Kept:
        item = self._ground.candidates[address].item
        return Kept(url=item.url, title=item.title, score=self._ground.scores[address].value)


def _content_key(candidate: Candidate) -> str:
    """What a score depends on, the direction apart: an address is ranked once, whichever search is first to find it."""
    item = candidate.item
    text = "\n".join((canonical_url(item.url), item.title, item.text))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_CHARS]
