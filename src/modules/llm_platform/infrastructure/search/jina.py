"""Jina's search: POST {base}/ (vendor's reference: https://jina.ai/reader, `s.jina.ai`)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResultItem
from modules.llm_platform.infrastructure.http.client import Reply
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.search import google
from modules.llm_platform.infrastructure.search import keyed_service as keyed

NOTHING_FOUND: Final = 422  # sent with this text; a wrong parameter is a 400
RULES: Final = {402: Rule("blocked", "has no balance left for this key (402): top it up")}


class JinaWebSearchAdapter(keyed.KeyedWebSearch):
    """Searches the web and the news in Google, without the text of the pages: our own readers read them."""

    name = "jina"
    label = "Jina's search"
    base_url = "https://s.jina.ai"
    timeout_s = 30.0
    kinds = ("web", "news")
    rules = RULES
    key_headers = (("Authorization", "Bearer {key}"), ("X-Respond-With", "no-content"))
    max_results = 20
    takes_freshness = False
    notes = google.NOTES

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> keyed.FoundResults:
        body = {
            "q": google.build_query(request),
            "type": kind,
            "num": request.count,
            "page": request.page if request.page > 1 else None,
            "hl": google.choose_language(request),
            "gl": google.choose_country(request),
        }
        answer = await self.post("/", body)
        return keyed.FoundResults(self.items(self.list_rows(answer, "data")), answer)

    def read_answer(self, reply: Reply) -> dict[str, Any]:
        if reply.status == NOTHING_FOUND and b"No search results" in reply.body:
            return {"data": []}
        return super().read_answer(reply)

    def item(self, row: Mapping[str, Any]) -> WebSearchResultItem | None:
        return self.result(
            row.get("url"),
            row.get("title"),
            row.get("description"),
            site_name=row.get("source"),
            published_date=keyed.make_iso_date(row.get("date")),
        )

    def list_unsupported(self, request: WebSearchRequest) -> Iterator[str]:
        yield from super().list_unsupported(request)
        if request.language and google.choose_language(request) is None:
            yield "cannot search in the requested language"
