"""Bocha AI web search: POST {base}/v1/web-search (requirements WS2, WS3 and WS5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.canonical_url import host_of, is_web_url, split_domains
from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchError
from modules.llm_platform.domain.freshness import KEYWORDS, NO_LIMIT, freshness_window
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.infrastructure.http.client import Upstream, api_key_error
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.http.untrusted_json import dict_of, line_of, list_of, number_of, text_of

if TYPE_CHECKING:
    import httpx2

SEARCH: Final = "/v1/web-search"
OK: Final = 200
FRESHNESS_OF: Final[dict[dtos.TimeRange | None, str]] = {None: NO_LIMIT} | {span: word for word, span in KEYWORDS.items()}
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
        self._key_error = api_key_error("Bocha", key, "BOCHA_API_KEY")  # raised by a search, not at the start
        self._upstream = Upstream(
            "Bocha",
            base_url,
            setting="BOCHA_BASE_URL",
            timeout=timeout,
            client=client,
            headers={} if self._key_error else {"Authorization": f"Bearer {key}"},
            rules=RULES,
            redactor=redactor,
        )

    async def search(self, request: dtos.WebSearchRequest) -> dtos.WebSearchResponse:
        body = _request_body(request)
        if self._key_error:
            raise WebSearchConfigError(self._key_error)
        answer = self._upstream.json_object(await self._upstream.post_json(SEARCH, body))
        return _response(request, answer, self._data(answer))

    def _data(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """The search answer, inside of Bocha's envelope or without one; raises for an error code within HTTP 200."""
        if "code" in answer and (code := _status(answer["code"])) != OK:
            raise (
                self._upstream.status_error(code) if code else WebSearchError("Bocha answered with an unreadable code")
            )
        data = answer.get("data", answer)
        if not isinstance(data, dict) or ("webPages" not in data and data.get("_type") != "SearchResponse"):
            raise WebSearchError("Bocha answered without a search result")
        return data


def _request_body(request: dtos.WebSearchRequest) -> dict[str, Any]:
    freshness_window(request)  # raises for an unknown freshness; the valid ones are Bocha's own values
    body: dict[str, Any] = {
        "query": request.query,
        "freshness": request.freshness or FRESHNESS_OF[request.time_range],
        "summary": request.summary,
        "count": request.count,
    }
    included, excluded = split_domains(request.domains)
    body |= {name: "|".join(names) for name, names in (("include", included), ("exclude", excluded)) if names}
    return body


def _status(code: Any) -> int | None:
    """Bocha's code, which is a number or text of three digits; None for anything else."""
    return int(str(code)) if _THREE_DIGITS.fullmatch(str(code)) else None


def _response(request: dtos.WebSearchRequest, raw: dict[str, Any], data: Mapping[str, Any]) -> dtos.WebSearchResponse:
    pages = dict_of(data.get("webPages"))  # null when nothing was found
    items = (item for row in list_of(pages.get("value")) if (item := _item(dict_of(row))))
    total = number_of(pages.get("totalEstimatedMatches"))
    return dtos.WebSearchResponse(
        query=request.query,
        total_matches=None if total is None or total < 0 else int(total),
        results=tuple(islice(items, request.count)),
        provider=BochaWebSearchAdapter.name,
        degraded=tuple(Degraded(component=BochaWebSearchAdapter.name, reason=each) for each in _unsupported(request)),
        raw=raw,
    )


def _item(row: Mapping[str, Any]) -> dtos.WebSearchResultItem | None:
    """An entry of `webPages.value`. `dateLastCrawled` is not read: it ends in Z although it is China's time."""
    url = text_of(row.get("url"))
    if not is_web_url(url):
        return None
    return dtos.WebSearchResultItem(
        title=line_of(row.get("name")) or host_of(url),
        url=url,
        snippet=text_of(row.get("snippet")),
        summary=text_of(row.get("summary")) or None,
        site_name=text_of(row.get("siteName")) or None,
        published_date=text_of(row.get("datePublished")) or None,
        source=BochaWebSearchAdapter.name,
    )


def _unsupported(request: dtos.WebSearchRequest) -> Iterator[str]:
    """The parts of the request that Bocha does not support."""
    if kinds := [kind for kind in request.sources if kind != "web"]:
        yield f"has no search of its own for {', '.join(kinds)}: searched the web"
    if request.engines:
        yield "cannot choose engines"
    if request.page > 1:
        yield "has only a first page"
    if request.language and (detected := detect(request.query)) and detected != request.language.partition("-")[0]:
        yield "answers in the language of the query"
