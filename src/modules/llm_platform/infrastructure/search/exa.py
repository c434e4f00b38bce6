"""Exa: POST {base}/search (vendor's reference: https://exa.ai/docs/reference/search)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResultItem
from modules.llm_platform.domain.urls.canonical_url import split_domains
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.untrusted_json import read_list, read_text
from modules.llm_platform.infrastructure.search import keyed_service as keyed

CATEGORY_OF: Final[Mapping[SourceKind, str]] = {"news": "news", "academic": "publication"}
RULES: Final = {402: Rule("blocked", "has no credits left for this key (402): top it up, or raise the key's budget")}
NOTES: Final = {
    "domains": "the service's include and exclude lists",
    "time_range": "a date counted back from today",
    "language": "only the country of a tag such as `de-AT`",
    "text": "excerpts that fit the query",
}


class ExaWebSearchAdapter(keyed.KeyedWebSearch):
    """Searches the web by meaning. The excerpts of a page are the sentences that answer the query."""

    name = "exa"
    label = "Exa"
    base_url = "https://api.exa.ai"
    kinds = ("web", "news", "academic")
    rules = RULES
    key_headers = (("x-api-key", "{key}"),)
    has_pages = takes_language = False
    notes = NOTES

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> keyed.FoundResults:
        included, excluded = split_domains(request.domains)
        first = window.first_day(datetime.now(UTC).date()) if window else None
        body = {
            "query": request.query,
            "numResults": request.count,
            "category": CATEGORY_OF.get(kind),
            "includeDomains": included or None,
            "excludeDomains": excluded or None,
            "startPublishedDate": _make_timestamp(first, "00:00:00"),
            "endPublishedDate": _make_timestamp(window.end if window else None, "23:59:59"),
            "userLocation": keyed.get_territory(request.language),
            "contents": {"highlights": True},  # a result has no text without it; its price is the price of the search
        }
        answer = await self.post("/search", body)
        return keyed.FoundResults(self.items(self.list_rows(answer, "results")), answer)

    def item(self, row: Mapping[str, Any]) -> WebSearchResultItem | None:
        excerpts = [text for highlight in read_list(row.get("highlights")) if (text := read_text(highlight))]
        return self.result(
            row.get("url"),
            row.get("title"),
            next(iter(excerpts), ""),
            summary="\n\n".join(excerpts) if len(excerpts) > 1 else None,
            published_date=keyed.make_iso_date(row.get("publishedDate")),
            score=row.get("score"),
        )


def _make_timestamp(day: date | None, time: str) -> str | None:
    return f"{day.isoformat()}T{time}.000Z" if day else None
