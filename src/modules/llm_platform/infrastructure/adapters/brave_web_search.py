"""Brave Search: GET {base}/res/v1/web/search and /news/search (docs/howto/brave.md; vendor's reference:
https://api-dashboard.search.brave.com/app/documentation).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from modules.llm_platform.domain.canonical_url import canonical_url, host_of, is_web_url, site_operators
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.freshness import Freshness, freshness_window, is_admitted
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.infrastructure.http.client import Reply, Upstream, api_key_error
from modules.llm_platform.infrastructure.http.errors import MAX_RETRY_AFTER_S, Rule, retry_after_s
from modules.llm_platform.infrastructure.http.untrusted_json import decode_json, dict_of, line_of, list_of, text_of
from shared.exceptions import AppException

if TYPE_CHECKING:
    import httpx2

Kind = Literal["web", "news"]

PATHS: Final[Mapping[Kind, str]] = {"web": "/res/v1/web/search", "news": "/res/v1/news/search"}
MAX_PAGE_RESULTS: Final[Mapping[Kind, int]] = {"web": 20, "news": 50}
LAST_OFFSET: Final = 9  # `offset` counts pages of `count` results, from 0
MAX_QUERY_CHARS: Final = 400
MAX_QUERY_WORDS: Final = 50
MAX_ERROR_DETAIL_BYTES: Final = 64_000
MONTH_FROM_S: Final = 24 * 3600  # a longer quota window is the plan's monthly quota

FRESHNESS_OF: Final = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
# Values of `search_lang` that differ from the language code, by language and by tag; then all values that Brave accepts.
LANGUAGE_CODES: Final = {"ja": "jp", "zh": "zh-hans", "pt": "pt-br", "no": "nb"}
TAG_CODES: Final = {
    "en-GB": "en-gb", "pt-PT": "pt-pt", "zh-TW": "zh-hant", "zh-HK": "zh-hant", "zh-Hant": "zh-hant",
}
LANGUAGES: Final = frozenset({
    "ar", "eu", "bn", "bg", "ca", "zh-hans", "zh-hant", "hr", "cs", "da", "nl", "en", "en-gb", "et", "fi", "fr",
    "gl", "de", "el", "gu", "he", "hi", "hu", "is", "it", "jp", "kn", "ko", "lv", "lt", "ms", "ml", "mr", "nb", "pl",
    "pt-br", "pt-pt", "pa", "ro", "ru", "sr", "sk", "sl", "es", "sv", "ta", "te", "th", "tr", "uk", "vi",
})
COUNTRIES: Final = frozenset({
    "AR", "AU", "AT", "BE", "BR", "CA", "CL", "DK", "FI", "FR", "DE", "GR", "HK", "IN", "ID", "IT", "JP", "KR", "MY",
    "MX", "NL", "NZ", "NO", "CN", "PL", "PT", "PH", "RU", "SA", "ZA", "ES", "SE", "CH", "TW", "TR", "GB", "US",
})
ANYWHERE: Final = "ALL"

RULES: Final = {
    401: Rule("config", "does not accept the key (401): check BRAVE_API_KEY"),
    402: Rule("blocked", "has no quota left for this key (402): raise the plan's limit"),
    403: Rule("config", "refuses this key access (403): check BRAVE_API_KEY and what its plan includes"),
    404: Rule("config", "is not at this address, or knows no subscription of this key (404): check {setting}"),
}
# Brave's own codes are more specific than the status, which is 422 for a wrong key and for a wrong parameter.
CODE_RULES: Final[Mapping[str, Rule]] = {
    "SUBSCRIPTION_TOKEN_INVALID": Rule("config", "does not accept the key: check BRAVE_API_KEY"),
    "SUBSCRIPTION_NOT_FOUND": Rule("config", "knows no subscription of this key: check BRAVE_API_KEY and its plan"),
    "RESOURCE_NOT_ALLOWED": Rule(
        "config", "does not offer this search in the key's plan: choose a plan that includes it"
    ),
    "OPTION_NOT_IN_PLAN": Rule("config", "does not offer an option of this search in the key's plan"),
    "QUOTA_LIMITED": Rule("blocked", "has no quota left for this key: raise the plan's limit"),
    "RATE_LIMITED": Rule("blocked", "refuses more requests for now"),
}
NOT_IN_PLAN: Final = "OPTION_NOT_IN_PLAN"


class QuotaWindow(NamedTuple):
    """One window of the quota headers: `remaining` of `limit` requests, full again after `reset_s` seconds."""

    limit: int
    remaining: int
    reset_s: int


class BraveWebSearchAdapter(IWebSearchProvider):
    """Searches the web and the news in Brave's own index. `timeout` is the deadline of one request in seconds.

    A web request returns at most 20 results, so a larger `count` takes several requests, one after the other.
    """

    name = "brave"

    def __init__(
        self,
        api_key: str,
        base_url: str = "https://api.search.brave.com",
        timeout: float = 15.0,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        key = api_key.strip()
        self._key_error = api_key_error("Brave", key, "BRAVE_API_KEY")  # raised by a search, not at the start
        self._extra_snippets = True  # until Brave answers that the plan does not include them
        self._upstream = Upstream(
            "Brave",
            base_url,
            setting="BRAVE_BASE_URL",
            timeout=timeout,
            client=client,
            headers={} if self._key_error else {"X-Subscription-Token": key},
            rules=RULES,
            redactor=redactor,
        )

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        window = freshness_window(request)
        if self._key_error:
            raise WebSearchConfigError(self._key_error)
        results = [await self._search_kind(kind, request, window) for kind in _kinds(request)]
        items = _interleaved([each.items for each in results])
        notes = (*_unsupported(request), *chain.from_iterable(each.notes for each in results))
        return WebSearchResponse(
            query=request.query,
            results=tuple(islice((item for item in items if is_admitted(item, request, window)), request.count)),
            provider=self.name,
            degraded=tuple(Degraded(component=self.name, reason=note) for note in dict.fromkeys(notes)),
            correction=next((each.correction for each in results if each.correction), None),
            raw=results[0].raw if len(results) == 1 else None,
        )

    async def _search_kind(self, kind: Kind, request: WebSearchRequest, window: Freshness | None) -> _Pages:
        """All pages of one kind. A page that fails after a good one ends the search, with a note."""
        requests = -(-request.count // MAX_PAGE_RESULTS[kind])
        size = -(-request.count // requests)
        first = (request.page - 1) * requests
        pages = _Pages()
        for offset in range(first, first + requests):
            if offset > LAST_OFFSET:
                pages.notes.append(f"has no results beyond its page {LAST_OFFSET + 1}")
                break
            try:
                answer, reply = await self._page(kind, _parameters(kind, request, window, size, offset))
            except AppException as error:
                if offset == first:
                    raise
                pages.notes.append(f"{error.code}: {error.message}")
                break
            if not pages.add(kind, answer, reply):
                break
        return pages

    async def _page(self, kind: Kind, parameters: dict[str, str]) -> tuple[dict[str, Any], Reply]:
        if not self._extra_snippets:
            parameters.pop("extra_snippets", None)
        reply = await self._upstream.get(f"{PATHS[kind]}?{urlencode(parameters)}", sent_kind="query")
        code = _error_code(reply)
        if code == NOT_IN_PLAN and "extra_snippets" in parameters:
            self._extra_snippets = False
            return await self._page(kind, parameters)
        if code in CODE_RULES or (reply.status == 429 and code is None):
            raise self._upstream.rule_error(CODE_RULES[code or "RATE_LIMITED"], _wait_s(reply))
        return self._upstream.json_object(reply), reply


class _Pages:
    """The results of all pages of one kind."""

    def __init__(self) -> None:
        self.items: list[WebSearchResultItem] = []
        self.notes: list[str] = []
        self.correction: str | None = None
        self.raw: dict[str, Any] | None = None

    def add(self, kind: Kind, answer: dict[str, Any], reply: Reply) -> bool:
        """Add the results of a page; returns whether there is another one."""
        rows = list_of(answer.get("results") if kind == "news" else dict_of(answer.get("web")).get("results"))
        self.items += [item for row in rows if (item := _item(dict_of(row)))]
        query = dict_of(answer.get("query"))
        self.correction = self.correction or text_of(query.get("altered")) or None
        self.raw = self.raw or answer
        if any(window.reset_s > MONTH_FROM_S and window.remaining <= 0 for window in quota_of(reply.headers)):
            self.notes.append("used up its quota with this search: the next one is refused until the quota is renewed")
        return bool(rows) and query.get("more_results_available") is not False


def quota_of(headers: Mapping[str, str]) -> list[QuotaWindow]:
    """The windows of `X-RateLimit-Limit`, `-Remaining` and `-Reset`: `1, 15000`, `0, 14523`, `1, 1419704`; empty where
    one of them is missing or unreadable.
    """
    columns = [_numbers(headers.get(f"x-ratelimit-{name}", "")) for name in ("limit", "remaining", "reset")]
    if len({len(column) for column in columns}) > 1:
        return []
    return [QuotaWindow(*values) for values in zip(*columns, strict=True)]


def _numbers(header: str) -> list[int]:
    parts = [part.strip() for part in header.split(",")]
    return [int(part) for part in parts] if all(re.fullmatch("[0-9]{1,12}", part) for part in parts) else []


def _wait_s(reply: Reply) -> float | None:
    """Retry-After, else the time until the last exhausted window is renewed."""
    wait_s = retry_after_s(reply.headers)
    if wait_s is not None:
        return wait_s
    resets = [each.reset_s for each in quota_of(reply.headers) if each.remaining <= 0]
    return min(float(max(resets)), MAX_RETRY_AFTER_S) if resets else None


def _error_code(reply: Reply) -> str | None:
    """Brave's code in `{"type": "ErrorResponse", "error": {"code": …}}`; None for a success or another body."""
    if reply.status // 100 == 2 or len(reply.body) > MAX_ERROR_DETAIL_BYTES:
        return None
    try:
        answer = dict_of(decode_json(reply.body, reply.charset))
    except ValueError:
        return None
    return text_of(dict_of(answer.get("error")).get("code")) or None


def _kinds(request: WebSearchRequest) -> tuple[Kind, ...]:
    news = "news" in request.sources
    return ("web", "news") if news and len(request.sources) > 1 else ("news",) if news else ("web",)


def _parameters(
    kind: Kind, request: WebSearchRequest, window: Freshness | None, count: int, offset: int
) -> dict[str, str]:
    """The query parameters of one page."""
    parameters: dict[str, str | None] = {
        "q": _query(request),
        "count": str(count),
        "offset": str(offset),
        "freshness": _freshness(window),
        "search_lang": _language(request),
        "country": _country(request.language),
        "extra_snippets": "true" if request.summary else None,
        "text_decorations": "false" if kind == "web" else None,
        "result_filter": "web" if kind == "web" else None,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def _query(request: WebSearchRequest) -> str:
    """The query with its domains as operators, cut to the 400 characters and 50 words that Brave accepts."""
    operators = site_operators(request.domains)
    room = MAX_QUERY_CHARS - len(operators) - 1
    if room < 1 or len(operators.split()) >= MAX_QUERY_WORDS:  # too many domains: only the results are filtered
        operators, room = "", MAX_QUERY_CHARS
    words = request.query.split()[: MAX_QUERY_WORDS - len(operators.split())]
    text = " ".join(words)
    if len(text) > room:
        text = text[:room].rsplit(" ", 1)[0]
    return f"{text} {operators}".strip()


def _freshness(window: Freshness | None) -> str | None:
    if window is None:
        return None
    if window.start is not None and window.end is not None:
        return f"{window.start.isoformat()}to{window.end.isoformat()}"
    return FRESHNESS_OF[window.recent] if window.recent else None


def _language(request: WebSearchRequest) -> str | None:
    """Brave's code for the requested language, else for that of the query; None leaves the choice to Brave."""
    tag = request.language or detect(request.query) or ""
    code = TAG_CODES.get(tag) or LANGUAGE_CODES.get(tag.partition("-")[0]) or tag.partition("-")[0]
    return code if code in LANGUAGES else None


def _country(language: str | None) -> str:
    territory = (language or "").rpartition("-")[2]
    return territory if territory in COUNTRIES else ANYWHERE


def _unsupported(request: WebSearchRequest) -> Iterator[str]:
    """The parts of the request that Brave does not support."""
    if kinds := [kind for kind in request.sources if kind not in PATHS]:
        yield f"has no search of its own for {', '.join(kinds)}: searched the web"
    if request.engines:
        yield "cannot choose engines"
    if request.language and _language(request) is None:
        yield "cannot search in the requested language"
    if len(request.query) > MAX_QUERY_CHARS or len(request.query.split()) > MAX_QUERY_WORDS:
        yield f"takes at most {MAX_QUERY_CHARS} characters and {MAX_QUERY_WORDS} words: the query was cut"


def _item(row: Mapping[str, Any]) -> WebSearchResultItem | None:
    """One web or news result. `page_age` is an ISO date; `age` (`3 days ago`) is not read."""
    url = text_of(row.get("url"))
    if not is_web_url(url):
        return None
    snippet = text_of(row.get("description"))
    extra = [text_of(each) for each in list_of(row.get("extra_snippets"))]
    return WebSearchResultItem(
        title=line_of(row.get("title")) or host_of(url),
        url=url,
        snippet=snippet,
        summary="\n\n".join(filter(None, (snippet, *extra))) if any(extra) else None,
        site_name=text_of(dict_of(row.get("profile")).get("name"))
        or text_of(dict_of(row.get("meta_url")).get("hostname"))
        or None,
        published_date=text_of(row.get("page_age")) or None,
        source=BraveWebSearchAdapter.name,
    )


def _interleaved(lists: Iterable[list[WebSearchResultItem]]) -> Iterator[WebSearchResultItem]:
    """The first result of each kind, then the second ones, each address once."""
    seen: set[str] = set()
    for item in chain.from_iterable(zip_longest(*lists)):
        if item is not None and (address := canonical_url(item.url)) not in seen:
            seen.add(address)
            yield item
