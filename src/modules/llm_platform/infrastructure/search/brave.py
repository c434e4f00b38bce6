"""Brave Search: GET {base}/res/v1/web/search and /news/search (docs/howto/brave.md; vendor's reference:
https://api-dashboard.search.brave.com/app/documentation).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest, WebSearchResultItem
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.urls.canonical_url import site_operators
from modules.llm_platform.infrastructure.http.client import Reply
from modules.llm_platform.infrastructure.http.errors import MAX_RETRY_AFTER_S, NO_RESULTS, Rule, retry_after_s
from modules.llm_platform.infrastructure.http.untrusted_json import decode_json, read_dict, read_list, read_text
from modules.llm_platform.infrastructure.search.keyed_service import FoundResults, KeyedWebSearch, cut_query
from shared.exceptions import AppException

PATHS: Final[Mapping[SourceKind, str]] = {"web": "/res/v1/web/search", "news": "/res/v1/news/search"}
MAX_PAGE_RESULTS: Final[Mapping[SourceKind, int]] = {"web": 20, "news": 50}
LAST_OFFSET: Final = 9  # `offset` counts pages of `count` results, from 0
BRAVE_QUERY_CHARS: Final = 400
MAX_QUERY_WORDS: Final = 50
MAX_ERROR_DETAIL_BYTES: Final = 64_000
MONTH_FROM_S: Final = 24 * 3600  # a longer quota window is the plan's monthly quota

FRESHNESS_OF: Final = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
# Values of `search_lang` that differ from the language code, by language and by tag; then all values that Brave accepts.
LANGUAGE_CODES: Final = {"ja": "jp", "zh": "zh-hans", "pt": "pt-br", "no": "nb"}
TAG_CODES: Final = {
    "en-GB": "en-gb",
    "pt-PT": "pt-pt",
    "zh-TW": "zh-hant",
    "zh-HK": "zh-hant",
    "zh-Hant": "zh-hant",
}
LANGUAGES: Final = frozenset(
    {
        "ar",
        "eu",
        "bn",
        "bg",
        "ca",
        "zh-hans",
        "zh-hant",
        "hr",
        "cs",
        "da",
        "nl",
        "en",
        "en-gb",
        "et",
        "fi",
        "fr",
        "gl",
        "de",
        "el",
        "gu",
        "he",
        "hi",
        "hu",
        "is",
        "it",
        "jp",
        "kn",
        "ko",
        "lv",
        "lt",
        "ms",
        "ml",
        "mr",
        "nb",
        "pl",
        "pt-br",
        "pt-pt",
        "pa",
        "ro",
        "ru",
        "sr",
        "sk",
        "sl",
        "es",
        "sv",
        "ta",
        "te",
        "th",
        "tr",
        "uk",
        "vi",
    }
)
COUNTRIES: Final = frozenset(
    {
        "AR",
        "AU",
        "AT",
        "BE",
        "BR",
        "CA",
        "CL",
        "DK",
        "FI",
        "FR",
        "DE",
        "GR",
        "HK",
        "IN",
        "ID",
        "IT",
        "JP",
        "KR",
        "MY",
        "MX",
        "NL",
        "NZ",
        "NO",
        "CN",
        "PL",
        "PT",
        "PH",
        "RU",
        "SA",
        "ZA",
        "ES",
        "SE",
        "CH",
        "TW",
        "TR",
        "GB",
        "US",
    }
)

RULES: Final = {
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


class QuotaWindow(NamedTuple):
    """One window of the quota headers: `remaining` of `limit` requests, full again after `reset_s` seconds."""

    limit: int
    remaining: int
    reset_s: int


class BraveWebSearchAdapter(KeyedWebSearch):
    """Searches the web and the news in Brave's own index.

    A web request returns at most 20 results, so a larger `count` takes several requests, one after the other.
    """

    name = "brave"
    label = "Brave"
    base_url = "https://api.search.brave.com"
    address_setting = "BRAVE_BASE_URL"
    kinds = ("web", "news")
    rules = RULES
    key_headers = (("X-Subscription-Token", "{key}"),)

    _extra_snippets = True  # cleared when Brave answers that the plan does not include them

    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> FoundResults:
        """Return all pages of one kind. A page that fails after a good one ends the search, with a note."""
        requests = -(-request.count // MAX_PAGE_RESULTS[kind])
        size = -(-request.count // requests)
        first = (request.page - 1) * requests
        pages = FoundResults()
        for offset in range(first, first + requests):
            if offset > LAST_OFFSET:
                pages.notes.append(f"has no results beyond its page {LAST_OFFSET + 1}")
                break
            try:
                answer, reply = await self._fetch_page(kind, _make_parameters(kind, request, window, size, offset))
            except AppException as error:
                if offset == first:
                    raise
                pages.notes.append(f"{error.code}: {error.message}")
                break
            if not self._add_page(pages, kind, answer, reply):
                break
        return pages

    async def _fetch_page(self, kind: SourceKind, parameters: dict[str, str]) -> tuple[dict[str, Any], Reply]:
        if not self._extra_snippets:
            parameters.pop("extra_snippets", None)
        reply = await self.get(PATHS[kind], parameters)
        code = _read_error_code(reply)
        if code == "OPTION_NOT_IN_PLAN" and "extra_snippets" in parameters:
            self._extra_snippets = False
            return await self._fetch_page(kind, parameters)
        if code in CODE_RULES or (reply.status == 429 and code is None):
            wait_s = retry_after_s(reply.headers)
            resets = [window.reset_s for window in read_quota(reply.headers) if window.remaining <= 0]
            if wait_s is None and resets:
                # Without Retry-After, the wait ends when the last exhausted window is renewed.
                wait_s = min(float(max(resets)), MAX_RETRY_AFTER_S)
            raise self._upstream.rule_error(CODE_RULES[code or "RATE_LIMITED"], wait_s)
        return self._upstream.json_object(reply), reply

    def _add_page(self, pages: FoundResults, kind: SourceKind, answer: dict[str, Any], reply: Reply) -> bool:
        """Add the results of a page, and return whether there is another page."""
        section = "results" if kind == "news" else "web"  # the web's is missing if nothing was found
        if section not in answer and "query" not in answer:
            raise self._upstream.rule_error(NO_RESULTS)
        rows = read_list(answer.get("results") if kind == "news" else read_dict(answer.get("web")).get("results"))
        pages.items += self.items(rows)
        query = read_dict(answer.get("query"))
        pages.correction = pages.correction or read_text(query.get("altered")) or None
        pages.raw = pages.raw or answer
        if any(window.reset_s > MONTH_FROM_S and window.remaining <= 0 for window in read_quota(reply.headers)):
            pages.notes.append("used up its quota with this search: the next one is refused until the quota is renewed")
        return bool(rows) and query.get("more_results_available") is not False

    def item(self, row: Mapping[str, Any]) -> WebSearchResultItem | None:
        """Return one web or news result. `page_age` is an ISO date. `age` (`3 days ago`) is not read."""
        snippet = read_text(row.get("description"))
        extra = [read_text(snippet) for snippet in read_list(row.get("extra_snippets"))]
        return self.result(
            row.get("url"),
            row.get("title"),
            snippet,
            summary="\n\n".join(filter(None, (snippet, *extra))) if any(extra) else None,
            site_name=read_dict(row.get("profile")).get("name") or read_dict(row.get("meta_url")).get("hostname"),
            published_date=row.get("page_age"),
        )

    def list_unsupported(self, request: WebSearchRequest) -> Iterator[str]:
        yield from super().list_unsupported(request)
        if request.language and _choose_language(request) is None:
            yield "cannot search in the requested language"
        if len(request.query) > BRAVE_QUERY_CHARS or len(request.query.split()) > MAX_QUERY_WORDS:
            yield f"takes at most {BRAVE_QUERY_CHARS} characters and {MAX_QUERY_WORDS} words: the query was cut"


def read_quota(headers: Mapping[str, str]) -> list[QuotaWindow]:
    """Return the windows of `X-RateLimit-Limit`, `-Remaining` and `-Reset`: `1, 15000`, `0, 14523`, `1, 1419704`.

    There are none if a header is missing or unreadable.
    """
    columns = [_parse_numbers(headers.get(f"x-ratelimit-{name}", "")) for name in ("limit", "remaining", "reset")]
    if len({len(column) for column in columns}) > 1:
        return []
    return [QuotaWindow(*values) for values in zip(*columns, strict=True)]


def _parse_numbers(header: str) -> list[int]:
    parts = [part.strip() for part in header.split(",")]
    return [int(part) for part in parts] if all(re.fullmatch("[0-9]{1,12}", part) for part in parts) else []


def _read_error_code(reply: Reply) -> str | None:
    """Return Brave's code in `{"type": "ErrorResponse", "error": {"code": …}}`, or None for any other body."""
    if reply.status // 100 == 2 or len(reply.body) > MAX_ERROR_DETAIL_BYTES:
        return None
    try:
        answer = read_dict(decode_json(reply.body, reply.charset))
    except ValueError:
        return None
    return read_text(read_dict(answer.get("error")).get("code")) or None


def _make_parameters(
    kind: SourceKind, request: WebSearchRequest, window: Freshness | None, count: int, offset: int
) -> dict[str, str]:
    territory = (request.language or "").rpartition("-")[2]
    parameters: dict[str, str | None] = {
        "q": _write_query(request),
        "count": str(count),
        "offset": str(offset),
        "freshness": _write_freshness(window),
        "search_lang": _choose_language(request),
        "country": territory if territory in COUNTRIES else "ALL",
        "extra_snippets": "true" if request.summary else None,
        "text_decorations": "false" if kind == "web" else None,
        "result_filter": "web" if kind == "web" else None,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def _write_query(request: WebSearchRequest) -> str:
    """Return the query with its domains as operators, cut to the 400 characters and 50 words that Brave accepts."""
    operators = site_operators(request.domains)
    room = BRAVE_QUERY_CHARS - len(operators) - 1
    if room < 1 or len(operators.split()) >= MAX_QUERY_WORDS:  # too many domains: only the results are filtered
        operators, room = "", BRAVE_QUERY_CHARS
    words = request.query.split()[: MAX_QUERY_WORDS - len(operators.split())]
    return f"{cut_query(' '.join(words), room)} {operators}".strip()


def _write_freshness(window: Freshness | None) -> str | None:
    if window is None:
        return None
    if window.start is not None and window.end is not None:
        return f"{window.start.isoformat()}to{window.end.isoformat()}"
    return FRESHNESS_OF[window.recent] if window.recent else None


def _choose_language(request: WebSearchRequest) -> str | None:
    """Return Brave's code for the requested language or the language of the query. None leaves the choice to Brave."""
    tag = request.language or detect_language(request.query) or ""
    code = TAG_CODES.get(tag) or LANGUAGE_CODES.get(tag.partition("-")[0]) or tag.partition("-")[0]
    return code if code in LANGUAGES else None
