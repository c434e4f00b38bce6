"""Serper, Google results: POST {base}/search, /news and /scholar (https://serper.dev, where the playground is the vendor's
reference).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResultItem
from modules.llm_platform.infrastructure.http.client import Reply
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.search import google
from modules.llm_platform.infrastructure.search import keyed_service as keyed

PATHS: Final[Mapping[SourceKind, str]] = {"web": "/search", "news": "/news", "academic": "/scholar"}
ROWS: Final[Mapping[SourceKind, str]] = {"web": "organic", "news": "news", "academic": "organic"}
RULES: Final = {403: Rule("config", "does not accept the key (403): check SERPER_API_KEY")}
NO_CREDITS: Final = Rule("blocked", "has no credits left for this key: top it up")
BAD_REQUEST: Final = 400  # missing credits have this status too: the text tells them apart
NOTES: Final = {**google.NOTES, "time_range": "passed on, not for papers", "freshness": "passed on, not for papers"}


class SerperWebSearchAdapter(keyed.KeyedWebSearch):
    """Searches the web, the news and papers in Google."""

    name = "serper"
    label = "Serper"
    base_url = "https://google.serper.dev"
    kinds = ("web", "news", "academic")
    rules = RULES
    key_headers = (("X-API-KEY", "{key}"),)
    notes = NOTES

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> keyed.FoundResults:
        body = {
            "q": google.build_query(request),
            "num": request.count,
            "page": request.page if request.page > 1 else None,
            "hl": google.choose_language(request),
            "gl": google.choose_country(request),
            "tbs": None if kind == "academic" else google.format_dates(window),
        }
        answer = await self.post(PATHS[kind], body)
        notes = ["cannot limit the age of papers"] if kind == "academic" and window else []
        return keyed.FoundResults(self.items(self.list_rows(answer, ROWS[kind])), answer, notes)

    def refusal(self, reply: Reply) -> Rule | None:
        return NO_CREDITS if reply.status == BAD_REQUEST and b"credits" in reply.body.lower() else None

    def item(self, row: Mapping[str, Any]) -> WebSearchResultItem | None:
        """Return a result of any kind. A paper has a year, and `publicationInfo` with its authors and journal."""
        year = row.get("year")
        return self.result(
            row.get("link"),
            row.get("title"),
            row.get("snippet"),
            site_name=row.get("source") or row.get("publicationInfo"),
            published_date=str(year) if isinstance(year, int) else keyed.make_iso_date(row.get("date")),
        )

    def list_unsupported(self, request: WebSearchRequest) -> Iterator[str]:
        yield from super().list_unsupported(request)
        if request.language and google.choose_language(request) is None:
            yield "cannot search in the requested language"
