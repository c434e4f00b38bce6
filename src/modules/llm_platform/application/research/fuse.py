"""Fuse what several searches found into one list of numbered sources, best first."""

from __future__ import annotations

from collections.abc import Sequence

from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.research_dtos import RawResult, Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem

RRF_K = 60  # Cormack, Clarke, Büttcher 2009: reciprocal rank fusion


def fuse(answers: Sequence[WebSearchResponse], limit: int) -> list[WebSearchResultItem]:
    """The best `limit` results by reciprocal rank, each canonical address once, with the longest text that came for it."""
    scores: dict[str, float] = {}
    best: dict[str, WebSearchResultItem] = {}
    for answer in answers:
        for rank, item in enumerate(answer.results, 1):
            key = canonical_url(item.url)
            scores[key] = scores.get(key, 0.0) + 1.0 / (RRF_K + rank)
            held = best.get(key)
            if held is None or len(item.text) > len(held.text):
                best[key] = item
    order = sorted(best, key=lambda key: -scores[key])  # stable: of equals the one found first
    return [best[key] for key in order[:limit]]


def number(items: Sequence[WebSearchResultItem]) -> tuple[tuple[Source, ...], tuple[RawResult, ...]]:
    """Sources 1, 2, 3… and the raw results beside them: `raw_results[n - 1].content` is the text of source n."""
    raw = tuple(RawResult.of(item) for item in items)
    sources = tuple(
        Source(index=index, title=item.title, url=item.url, text=item.content, published=item.published)
        for index, item in enumerate(raw, 1)
    )
    return sources, raw
