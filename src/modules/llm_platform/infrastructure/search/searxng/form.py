"""The form of a POST /search to SearXNG: query, language, engines and categories.

SearXNG's query syntax acts anywhere in a question: `!gon` selects an engine, `!!g` redirects to another site, `:en` changes the
language, `<5` the timeout. Only verbatim requests, of the route that passes queries on, use it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Final

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.urls.canonical_url import site_operators

DEFAULT_ENGINES: Final[Mapping[SourceKind, Sequence[str]]] = {
    "web": ("google", "bing", "duckduckgo"),
    "news": ("google news", "bing news"),
    "academic": ("google scholar", "arxiv"),
}
CATEGORIES: Final[Mapping[SourceKind, str]] = {"web": "general", "news": "news", "academic": "science"}
NOT_INSTALLED: Final = "the instance does not have it"
NO_ENGINE_CALLED: Final = "SearXNG called none of the named engines ({engines}): {cause}; {remedy}"

# SearXNG splits at white space and checks the beginning of each word. Only the marks are removed, not the words.
_SYNTAX = re.compile(r"(?<!\S)(?:!![!:<]*|[!:](?=\w)|<(?=[\d²³¹⁰-⁹]+(?!\S)))")
_REDIRECT = re.compile(r"(?<!\S)!!")
_CHINESE: Final = {"Hans": "zh-CN", "Hant": "zh-TW"}


def build_form(
    request: WebSearchRequest,
    engines: Sequence[str],
    window: Freshness | None,
    safesearch: int,
    today: Callable[[], date],
) -> dict[str, str]:
    """Return all fields but the page number. Without engines, the categories select them.

    A verbatim request has its own categories, which SearXNG adds to its engines, and no detected language: its query may
    contain one (`:de`).
    """
    if isinstance(request, VerbatimWebSearchRequest):
        language, categories = request.language, ",".join(request.categories)
        safesearch = safesearch if request.safesearch is None else request.safesearch
    else:
        language = request.language or _detect(request.query)
        categories = "" if engines else choose_categories(request)
    optional = {
        "engines": ",".join(engines),
        "categories": categories,
        "time_range": (window.time_range(today()) if window else None) or "",
    }
    return {
        "q": build_query(request),
        "format": "json",
        "language": format_language(language),
        "safesearch": str(safesearch),
        **dict(filter(itemgetter(1), optional.items())),
    }


_detect = lru_cache(maxsize=256)(detect_language)  # a research run sends the same query several times


def build_query(request: WebSearchRequest) -> str:
    """Return the query without SearXNG's syntax and with the domains. A verbatim query does not change.

    Raises WebSearchRequestError for a verbatim query that redirects.
    """
    if isinstance(request, VerbatimWebSearchRequest):
        if _REDIRECT.search(request.query):
            raise WebSearchRequestError("!! leads away from the search instance: write the query without it")
        return request.query
    query = escape_bangs(request.query)
    if not request.domains:
        return query
    has_operators = request.sources != ("academic",)  # catalogues of papers would search for the words of operators
    return f"{query} {site_operators(request.domains, parentheses=True)}".strip() if has_operators else query


def escape_bangs(query: str) -> str:
    """Return the query without SearXNG's syntax. A query that is only syntax is quoted."""
    if "!" not in query and ":" not in query and "<" not in query:
        return query
    return _SYNTAX.sub("", query).strip() or f'"{"".join(query.split())}"'


def choose_engines(request: WebSearchRequest, by_kind: Mapping[SourceKind, Sequence[str]]) -> tuple[str, ...]:
    """Return the request's own engines, else the engines of its source kinds. A verbatim request gets no default."""
    if request.engines or isinstance(request, VerbatimWebSearchRequest):
        return request.engines
    lists = filter(None, map(by_kind.get, _list_web_kinds(request.sources)))
    return tuple(dict.fromkeys(chain.from_iterable(lists)))


def choose_categories(request: WebSearchRequest) -> str:
    """Return SearXNG's categories for the source kinds, for a search without named engines."""
    return ",".join(CATEGORIES[kind] for kind in _list_web_kinds(request.sources))


def _list_web_kinds(sources: Sequence[SourceKind]) -> list[SourceKind]:
    return list(filter(CATEGORIES.__contains__, sources)) or ["web"]


def format_language(language: str | None) -> str:
    """Return a BCP 47 tag in SearXNG's form: `de`, `pt-BR`. SearXNG does not accept scripts and numeric regions."""
    if language is None:
        return "all"
    first, *rest = language.split("-")
    if not rest:
        return first
    region = next((part for part in rest if len(part) == 2 and part.isalpha()), None)
    if region:
        return f"{first}-{region}"
    return next((_CHINESE[part] for part in rest if first == "zh" and part in _CHINESE), first)


def explain_not_called(form: Mapping[str, str], subject: str) -> str:
    """Return why SearXNG calls a named engine neither now nor later: it skips engines that do not support the request."""
    limits = _list_limits(form)
    return f"{subject} does not serve {' or '.join(limits)}, or {NOT_INSTALLED}" if limits else NOT_INSTALLED


def make_no_engine_error(form: Mapping[str, str]) -> WebSearchRequestError:
    limits = _list_limits(form)
    remedy = ", ".join([*limits.values(), "or name other engines"]) if limits else "name other engines"
    cause = explain_not_called(form, "such an engine")
    return WebSearchRequestError(NO_ENGINE_CALLED.format(engines=form["engines"], cause=cause, remedy=remedy))


def _list_limits(form: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that not every engine supports, each with the remedy."""
    limits = {f"page {form['pageno']}": "ask for page 1"} if form["pageno"] != "1" else {}
    return limits | ({"a time range": "leave out the time range"} if "time_range" in form else {})
