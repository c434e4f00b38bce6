"""Tavily: POST {base}/search (vendor's reference: https://docs.tavily.com/documentation/api-reference/endpoint/search)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResultItem
from modules.llm_platform.domain.urls.canonical_url import split_domains
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.search import keyed_service as keyed

TAVILY_QUERY_CHARS: Final = 400
RULES: Final = {
    432: Rule("blocked", "has reached the limit of this key's plan (432): raise it"),
    433: Rule("blocked", "has reached the pay-as-you-go limit of this key (433): raise it"),
}
NOTES: Final = {"domains": "the service's include and exclude lists", "text": "an excerpt that fits the query"}


class TavilyWebSearchAdapter(keyed.KeyedWebSearch):
    """Searches the web and the news, with an excerpt of each page that fits the query."""

    name = "tavily"
    label = "Tavily"
    base_url = "https://api.tavily.com"
    kinds = ("web", "news")
    rules = RULES
    has_pages = takes_language = False
    max_results = 20
    notes = NOTES

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> keyed.FoundResults:
        included, excluded = split_domains(request.domains)
        start, end = (window.start, window.end) if window else (None, None)
        body = {
            "query": keyed.cut_query(request.query, TAVILY_QUERY_CHARS),
            "topic": "news" if kind == "news" else "general",
            "search_depth": "basic",  # one credit; the other ones cost two, or answer with less
            "max_results": request.count,
            "time_range": window.recent if window else None,
            "start_date": start.isoformat() if start else None,
            "end_date": end.isoformat() if end else None,
            "include_domains": included or None,
            "exclude_domains": excluded or None,
        }
        answer = await self.post("/search", body)
        return keyed.FoundResults(self.items(self.list_rows(answer, "results")), answer)

    def item(self, row: Mapping[str, Any]) -> WebSearchResultItem | None:
        return self.result(
            row.get("url"),
            row.get("title"),
            row.get("content"),
            published_date=keyed.make_iso_date(row.get("published_date")),
            score=row.get("score"),
        )

    def list_unsupported(self, request: WebSearchRequest) -> Iterator[str]:
        yield from super().list_unsupported(request)
        if len(request.query) > TAVILY_QUERY_CHARS:
            yield f"takes at most {TAVILY_QUERY_CHARS} characters: the query was cut"
