"""What we ask, in SearXNG's words: the form of POST /search.

Its query has a syntax that acts anywhere in a question: `!gon` picks an engine, `!!g` redirects off the instance, `:en`
changes the language, `<5` the timeout. Only the route that passes queries on means it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, Final

from modules.llm_platform.domain.canonical_url import host_of
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.freshness import Freshness
from modules.llm_platform.domain.language import detect

DEFAULT_ENGINES: Final[Mapping[SourceKind, Sequence[str]]] = {
    "web": ("google", "bing", "duckduckgo"),
    "news": ("google news", "bing news"),
    "academic": ("google scholar", "arxiv"),
}
CATEGORIES: Final[Mapping[SourceKind, str]] = {"web": "general", "news": "news", "academic": "science"}
# The narrower groups in which SearXNG keeps engines of the kind proper, apart from translators or data sets.
NARROW_CATEGORIES: Final[Mapping[SourceKind, str]] = {"web": "web", "news": "news", "academic": "scientific publications"}
SETTINGS: Final[Mapping[SourceKind, str]] = {
    "web": "SEARXNG_ENGINES_WEB",
    "news": "SEARXNG_ENGINES_NEWS",
    "academic": "SEARXNG_ENGINES_ACADEMIC",
}
NOT_THERE: Final = "the instance does not have it"
NOBODY_ASKED: Final = "SearXNG asked none of the engines that were named ({engines}): {cause}; {remedy}"
ALL_LANGUAGES: Final = "all"

# SearXNG splits at white space and looks at how each word begins. The words themselves stay.
_SYNTAX = re.compile(r"(?<!\S)(?:!![!:<]*|[!:](?=\w)|<(?=[\d²³¹⁰-⁹]+(?!\S)))")
_REDIRECT = re.compile(r"(?<!\S)!!")
_CHINESE: Final = {"Hans": "zh-CN", "Hant": "zh-TW"}


def form_of(
    request: WebSearchRequest, engines: Sequence[str], limit: Freshness | None, safesearch: int, today: date
) -> dict[str, str]:
    """The form but for the page number. Without engines to name, the categories choose them."""
    form = {
        "q": query_of(request),
        "format": "json",
        "language": language_of(request.language or _language_in(request)),
        "safesearch": str(_safesearch(request, safesearch)),
    }
    if engines:
        form["engines"] = ",".join(engines)
    if categories := _categories(request, engines):
        form["categories"] = categories
    if limit is not None and (time_range := limit.time_range(today)):
        form["time_range"] = time_range
    return form


def query_of(request: WebSearchRequest) -> str:
    """The words to search for; as written for a verbatim request, WebSearchRequestError when those redirect."""
    if isinstance(request, VerbatimWebSearchRequest):
        if _REDIRECT.search(request.query):
            raise WebSearchRequestError("!! leads away from the search instance: write the query without it")
        return request.query
    query = harmless(request.query)
    # Catalogues of papers know no operators and would look for the words.
    return f"{query} {_sites(request.domains)}" if request.domains and request.sources != ("academic",) else query


def harmless(query: str) -> str:
    """The same words without SearXNG's own syntax; a query that is nothing else is quoted."""
    if "!" not in query and ":" not in query and "<" not in query:
        return query
    return _SYNTAX.sub("", query).strip() or f'"{"".join(query.split())}"'


def engines_of(request: WebSearchRequest, by_kind: Mapping[SourceKind, Sequence[str]]) -> tuple[str, ...]:
    """Who is asked: the request's own engines, else all those of its source kinds. A verbatim one gets no default."""
    if request.engines or isinstance(request, VerbatimWebSearchRequest):
        return request.engines
    wanted = [engine for kind in _web_kinds(request.sources) for engine in by_kind.get(kind, ())]
    return tuple(dict.fromkeys(wanted))


def categories_of(request: WebSearchRequest) -> str:
    """SearXNG's own groups of engines for the source kinds, for a search that names no engine."""
    return ",".join(CATEGORIES[kind] for kind in _web_kinds(request.sources))


def _safesearch(request: WebSearchRequest, default: int) -> int:
    wished = request.safesearch if isinstance(request, VerbatimWebSearchRequest) else None
    return default if wished is None else wished


def _categories(request: WebSearchRequest, engines: Sequence[str]) -> str:
    """A verbatim request's own categories, which SearXNG adds to its engines; else those of the source kinds, which stand
    in for an empty list of engines."""
    if isinstance(request, VerbatimWebSearchRequest):
        return ",".join(request.categories)
    return "" if engines else categories_of(request)


def _web_kinds(sources: Sequence[SourceKind]) -> list[SourceKind]:
    return [kind for kind in sources if kind in CATEGORIES] or ["web"]


def _language_in(request: WebSearchRequest) -> str | None:
    """The query's own language where nobody wished for one; a verbatim query says it itself (`:de`), if at all."""
    return None if isinstance(request, VerbatimWebSearchRequest) else _detected(request.query)


_detected = lru_cache(maxsize=256)(detect)  # a research asks several times, and a cache is asked before us


def language_of(language: str | None) -> str:
    """A BCP 47 tag as SearXNG takes it: `de`, `pt-BR`; script and numeric region are too fine for it."""
    if language is None:
        return ALL_LANGUAGES
    first, *rest = language.split("-")
    region = next((part for part in rest if len(part) == 2 and part.isalpha()), None)
    if region:
        return f"{first}-{region}"
    return next((_CHINESE[part] for part in rest if first == "zh" and part in _CHINESE), first)


def _sites(domains: Iterable[str]) -> str:
    kept = [f"site:{domain}" for domain in domains if not domain.startswith("-")]
    barred = [f"-site:{domain[1:]}" for domain in domains if domain.startswith("-")]
    wanted = f"({' OR '.join(kept)})" if len(kept) > 1 else "".join(kept)
    return " ".join(part for part in (wanted, *barred) if part)


def wanted(
    items: Iterable[dict[str, Any]], request: WebSearchRequest, limit: Freshness | None
) -> Iterator[dict[str, Any]]:
    """The items that the filters of the request admit, each address once (pages and infoboxes repeat some)."""
    seen: set[str] = set()
    for item in items:
        url = item["url"]
        if url in seen or (limit is not None and not limit.admits(item.get("published_date"))):
            continue
        if request.domains and not allowed_host(host_of(url), request.domains):
            continue
        seen.add(url)
        yield item


def allowed_host(host: str, domains: Sequence[str]) -> bool:
    """Whether a host belongs to the wanted domains and to no barred one, subdomains included."""
    wanted = [domain for domain in domains if not domain.startswith("-")]
    barred = [domain[1:] for domain in domains if domain.startswith("-")]
    inside = not wanted or any(_within(host, domain) for domain in wanted)
    return inside and not any(_within(host, domain) for domain in barred)


def _within(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)


def why_not_asked(form: Mapping[str, str], who: str) -> str:
    """Why SearXNG asks an engine that was named neither now nor later: it leaves out what an engine does not serve."""
    limits = [f"page {form['pageno']}"] if form["pageno"] != "1" else []
    limits += ["a time range"] if "time_range" in form else []
    if not limits:
        return NOT_THERE
    return f"{who} does not serve {' or '.join(limits)}, or {NOT_THERE}"


def nobody_asked(form: Mapping[str, str]) -> WebSearchRequestError:
    """The error for a search of which SearXNG asked none of the named engines."""
    cause = why_not_asked(form, "such an engine")
    remedies = ["ask for page 1"] if form["pageno"] != "1" else []
    remedies += ["leave out the time range"] if "time_range" in form else []
    remedy = ", ".join([*remedies, "or name other engines"]) if remedies else "name other engines"
    return WebSearchRequestError(NOBODY_ASKED.format(engines=form["engines"], cause=cause, remedy=remedy))
