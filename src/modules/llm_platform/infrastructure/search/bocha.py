"""Bocha AI web search: POST {base}/v1/web-search."""

import re
from collections.abc import Mapping
from typing import Any, Final

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.freshness import KEYWORDS, NO_LIMIT, Freshness
from modules.llm_platform.domain.exceptions import WebSearchError
from modules.llm_platform.domain.urls.canonical_url import split_domains
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.untrusted_json import read_dict, read_list, read_number
from modules.llm_platform.infrastructure.search.keyed_service import FoundResults, KeyedWebSearch

SEARCH: Final = "/v1/web-search"
OK: Final = 200
MAX_DOMAINS: Final = 20  # domains of one search, included and excluded
FRESHNESS_OF: Final[dict[dtos.TimeRange | None, str]] = {None: NO_LIMIT} | {
    span: word for word, span in KEYWORDS.items()
}
RULES: Final = {
    403: Rule("blocked", "has no balance left for this key (403): top it up"),
    404: Rule("config", "is not at this address (404): check {setting}"),
}
_THREE_DIGITS = re.compile("[0-9]{3}")


class BochaWebSearchAdapter(KeyedWebSearch):
    """Searches the web of China and beyond, with summaries."""

    name = "bocha"
    label = "Bocha"
    base_url = "https://api.bochaai.com"
    address_setting = "BOCHA_BASE_URL"
    timeout_s = 30.0
    rules = RULES
    has_pages = takes_language = False

    async def find(
        self, kind: dtos.SourceKind, request: dtos.WebSearchRequest, window: Freshness | None
    ) -> FoundResults:
        # More than Bocha takes are left to the filter of the results.
        included, excluded = split_domains(request.domains if len(request.domains) <= MAX_DOMAINS else ())
        body = {
            "query": request.query,
            "freshness": request.freshness or FRESHNESS_OF[request.time_range],
            "summary": request.summary,
            "count": request.count,
            "include": "|".join(included) or None,
            "exclude": "|".join(excluded) or None,
        }
        answer = await self.post(SEARCH, body)
        pages = read_dict(self._get_data(answer).get("webPages"))  # null when nothing was found
        total = read_number(pages.get("totalEstimatedMatches"))
        return FoundResults(
            self.items(read_list(pages.get("value"))),
            answer,
            total_matches=None if total is None or total < 0 else int(total),
        )

    def _get_data(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the search answer, from inside Bocha's envelope if it has one. Raises for an error code with status 200."""
        if "code" in answer and (code := _read_status(answer["code"])) != OK:
            raise (
                self._upstream.make_status_error(code)
                if code
                else WebSearchError("Bocha answered with an unreadable code")
            )
        data = answer.get("data", answer)
        if not isinstance(data, dict) or ("webPages" not in data and data.get("_type") != "SearchResponse"):
            raise WebSearchError("Bocha answered without a search result")
        return data

    def item(self, row: Mapping[str, Any]) -> dtos.WebSearchResultItem | None:
        """Return an entry of `webPages.value`. `dateLastCrawled` is not read: it ends in Z although it is China's time."""
        return self.result(
            row.get("url"),
            row.get("name"),
            row.get("snippet"),
            summary=row.get("summary"),
            site_name=row.get("siteName"),
            published_date=row.get("datePublished"),
        )


def _read_status(code: Any) -> int | None:
    """Return Bocha's code, a number or text of three digits, or None for anything else."""
    return int(str(code)) if _THREE_DIGITS.fullmatch(str(code)) else None
