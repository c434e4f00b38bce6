"""Bocha AI web search: POST {base}/v1/web-search (requirements WS2, WS3 and WS5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.canonical_url import host_of, is_web_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import (
    TimeRange,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchError
from modules.llm_platform.domain.freshness import KEYWORDS, NO_LIMIT, freshness_window
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.infrastructure.http.client import Upstream
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.untrusted_json import dict_of, list_of, number_of, text_of

if TYPE_CHECKING:
    import httpx2

SEARCH: Final = "/v1/web-search"
OK: Final = 200
FRESHNESS_OF: Final[dict[TimeRange | None, str]] = {None: NO_LIMIT} | {span: word for word, span in KEYWORDS.items()}
MAX_TITLE_CHARS: Final = 1000
_THREE_DIGITS = re.compile("[0-9]{3}")
RULES: Final = {
    401: Rule("config", "does not accept the key (401): check BOCHA_API_KEY"),
    403: Rule("blocked", "has no balance left for this key (403): top it up"),
    404: Rule("config", "is not at this address (404): check {setting}"),
}


class BochaWebSearchAdapter(IWebSearchProvider):
    """Searches the web of China and beyond, with summaries. `timeout` is the deadline of a search in seconds."""

    name = "bocha"

    def __init__(
        self,
        api_key: str,
        base_url: str = "https://api.bochaai.com",
        timeout: float = 30.0,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        key = api_key.strip()
        self._wrong_key = _wrong(key)
        self._upstream = Upstream(
            "Bocha",
            base_url,
            setting="BOCHA_BASE_URL",
            timeout=timeout,
            client=client,
            headers={} if self._wrong_key else {"Authorization": f"Bearer {key}"},
            rules=RULES,
            redactor=redactor,
        )

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        body = _to_bocha(request)
        if self._wrong_key:
            raise WebSearchConfigError(self._wrong_key)
        answer = self._upstream.object_in(await self._upstream.post_json(SEARCH, body))
        return _to_response(request, answer, self._data_of(answer))

    def _data_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """The search answer inside the envelope, or the bare one; raises for a code other than 200 within HTTP 200."""
        if "code" in answer and (code := _code(answer["code"])) != OK:
            raise self._upstream.failure(code) if code else WebSearchError("Bocha answered with an unreadable code")
        data = answer.get("data", answer)
        if not isinstance(data, dict) or ("webPages" not in data and data.get("_type") != "SearchResponse"):
            raise WebSearchError("Bocha answered without a search result")
        return data


def _wrong(key: str) -> str | None:
    """What is wrong with the key, to be said at the call: search is an optional power, so it does not stop the start."""
    if not key:
        return "Bocha needs a key: set BOCHA_API_KEY"
    if not key.isascii() or not key.isprintable():
        return "The key of Bocha holds characters that no key has: check BOCHA_API_KEY"
    return None


def _to_bocha(request: WebSearchRequest) -> dict[str, Any]:
    freshness_window(request)  # refuses a freshness that nobody knows; what is left are Bocha's own words
    body: dict[str, Any] = {
        "query": request.query,
        "freshness": request.freshness or FRESHNESS_OF[request.time_range],
        "summary": request.summary,
        "count": request.count,
    }
    if wanted := [domain for domain in request.domains if not domain.startswith("-")]:
        body["include"] = "|".join(wanted)
    if barred := [domain[1:] for domain in request.domains if domain.startswith("-")]:
        body["exclude"] = "|".join(barred)
    return body


def _code(value: Any) -> int | None:
    """The vendor's code, which comes as a number or as text of three digits; None when it is neither."""
    text = str(value)
    return int(text) if _THREE_DIGITS.fullmatch(text) else None


def _to_response(request: WebSearchRequest, raw: dict[str, Any], data: Mapping[str, Any]) -> WebSearchResponse:
    pages = dict_of(data.get("webPages"))  # null when nothing was found
    items = (item for row in list_of(pages.get("value")) if (item := _item(dict_of(row))))
    total = number_of(pages.get("totalEstimatedMatches"))
    return WebSearchResponse(
        query=request.query,
        total_matches=None if total is None or total < 0 else int(total),
        results=tuple(islice(items, request.count)),
        provider=BochaWebSearchAdapter.name,
        degraded=tuple(Degraded(component=BochaWebSearchAdapter.name, reason=why) for why in _left_out(request)),
        raw=raw,
    )


def _item(row: Mapping[str, Any]) -> WebSearchResultItem | None:
    """One entry of `webPages.value`. `dateLastCrawled` is not read: it ends in Z and is China's time."""
    url = text_of(row.get("url"))
    if not is_web_url(url):
        return None
    return WebSearchResultItem(
        title=" ".join(text_of(row.get("name"), MAX_TITLE_CHARS).split()) or host_of(url),
        url=url,
        snippet=text_of(row.get("snippet")),
        summary=text_of(row.get("summary")) or None,
        site_name=text_of(row.get("siteName")) or None,
        published_date=text_of(row.get("datePublished")) or None,
        source=BochaWebSearchAdapter.name,
    )


def _left_out(request: WebSearchRequest) -> Iterator[str]:
    """What of the request Bocha cannot do."""
    if lacking := [kind for kind in request.sources if kind != "web"]:
        yield f"has no search of its own for {', '.join(lacking)}: searched the web"
    if request.engines:
        yield "cannot choose engines"
    if request.page > 1:
        yield "has only a first page"
    if request.language and (own := detect(request.query)) and own != request.language.partition("-")[0]:
        yield "answers in the language of the query"
