"""What we ask, in SearXNG's words: the form of POST /search.

Its query has a syntax that acts anywhere in a question: `!gon` picks an engine, `!!g` redirects off the instance, `:en`
changes the language, `<5` the timeout. Only the route that passes queries on means it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from modules.llm_platform.domain.canonical_url import host_of, is_web_url
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, VerbatimWebSearchRequest, WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.freshness import Freshness
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.infrastructure.http.untrusted_json import dict_of, list_of, number_of, text_of

DEFAULT_ENGINES: Final[Mapping[SourceKind, Sequence[str]]] = {
    "web": ("google", "bing", "duckduckgo"),
    "news": ("google news", "bing news"),
    "academic": ("google scholar", "arxiv"),
}
CATEGORIES: Final[Mapping[SourceKind, str]] = {"web": "general", "news": "news", "academic": "science"}
# The narrower groups in which SearXNG keeps engines of the kind proper, apart from translators or data sets.
NARROW_CATEGORIES: Final[Mapping[SourceKind, str]] = {
    "web": "web",
    "news": "news",
    "academic": "scientific publications",
}
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
    query = escape_bangs(request.query)
    # Catalogues of papers know no operators and would look for the words.
    return f"{query} {_sites(request.domains)}" if request.domains and request.sources != ("academic",) else query


def escape_bangs(query: str) -> str:
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


# What SearXNG says, in our words: results, engines that failed, and whether nobody could look at all.
# Results of images, files or key-value pairs lack fields: what has no web address is dropped, the rest is optional.


Fields: TypeAlias = dict[str, Any]  # of a WebSearchResultItem: made one with its whole answer, in half the time

MAX_SUGGESTIONS: Final = 20
MAX_ENGINES_NAMED: Final = 20  # of those that failed
MAX_ENGINES: Final = 2000  # of one instance; SearXNG ships fewer than 300
MAX_LINE_CHARS: Final = 1000  # of a title

TIMEOUT: Final = "timeout"
NOT_REACHABLE: Final = "not reachable"
SUSPENDED: Final = "suspended"  # before the reason: the engine was not asked this time
ANY_FAILURE_S: Final = 5.0  # SearXNG's ban_time_on_fail


class Reason(NamedTuple):
    """A part of SearXNG's words for a failure, ours, and the shortest time in seconds for which it leaves the engine alone;
    `exact`: that is the only time."""

    words: str
    ours: str
    at_least_s: float = ANY_FAILURE_S
    exact: bool = False


# Most specific first. The words for a CAPTCHA are the same for an hour (the engine's own), a week (reCAPTCHA) and 15 days
# (Cloudflare), those for a denied access for 3 minutes (402, 403) and a day (Cloudflare's firewall).
_REASONS: Final = (
    Reason("captcha", "captcha", 3600.0),
    Reason("too many requests", "too many requests", 180.0, exact=True),
    Reason("access denied", "access denied", 180.0),
    Reason("timeout", TIMEOUT, exact=True),
    Reason("parsing", "its answer could not be read"),
    Reason("connection", NOT_REACHABLE, exact=True),
    Reason("network", NOT_REACHABLE, exact=True),
    Reason("proxy", NOT_REACHABLE, exact=True),
    Reason("ssl", NOT_REACHABLE, exact=True),
    Reason("http", "answered with an error", exact=True),
)
_FAILED: Final = Reason("", "failed")
_ENGINE = re.compile(r"[\w ._-]{1,60}", re.ASCII)
_ANSWERED = re.compile(r"total_\d+_([^;,]+)")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.,]{4,15}(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Failed:
    """An engine that could not look, and our words for the reason. `suspended`: it failed earlier and was not asked now.

    SearXNG leaves it alone for `at_least_s` seconds, for `exact_s` where the reason has one length.
    """

    engine: str
    reason: str
    at_least_s: float = ANY_FAILURE_S
    exact_s: float | None = None
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class SearXNGAnswer:
    """One page as SearXNG sent it; of the headers Server-Timing is read, which names the engines that answered."""

    raw: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def rows(self) -> list[Any]:
        """The plain results."""
        return list_of(self.raw.get("results"))

    @property
    def all_blocked(self) -> bool:
        """Nothing came, engines failed, and none is known to have looked: not the same as "nothing found"."""
        raw = self.raw
        if self.rows or list_of(raw.get("answers")) or list_of(raw.get("infoboxes")):
            return False
        return bool(list_of(raw.get("unresponsive_engines"))) and not self.answered()

    @property
    def none_asked(self) -> bool:
        """Nothing came and nothing failed, and the header, which is there, names no engine: nobody was asked."""
        return self.tells_who_answered and not (
            self.rows
            or self.answered()
            or any(list_of(self.raw.get(part)) for part in ("unresponsive_engines", "answers", "infoboxes"))
        )

    @property
    def tells_who_answered(self) -> bool:
        """Whether the header came through: a proxy may take it away."""
        return "total;" in self.headers.get("server-timing", "")

    def answered(self) -> frozenset[str]:
        """Engines that looked, as far as the header tells; empty when a proxy took it away."""
        return frozenset(name.strip() for name in _ANSWERED.findall(self.headers.get("server-timing", "")))

    def failed(self) -> list[Failed]:
        """Engines that could not look."""
        pairs = [pair for pair in list_of(self.raw.get("unresponsive_engines")) if isinstance(pair, list) and pair]
        return [_failed(pair) for pair in pairs[:MAX_ENGINES_NAMED]]

    def urls(self) -> set[str]:
        """The addresses of the plain results."""
        return {text_of(row.get("url")) for row in self.rows if isinstance(row, dict)}

    def engines_in_results(self) -> set[str]:
        """Engines that gave a result."""
        rows = [row for row in self.rows if isinstance(row, dict)]
        named = {text_of(name) for row in rows for name in list_of(row.get("engines"))}
        return named | {text_of(row.get("engine")) for row in rows}

    def items(self, search_page: Callable[[], str]) -> Iterator[Fields]:
        """Direct answers and infoboxes, then the results; `search_page` gives the address of an answer without one."""
        for answer in list_of(self.raw.get("answers")):
            yield from _direct_answer(answer, search_page())
        for box in list_of(self.raw.get("infoboxes")):
            yield from _infobox(dict_of(box), search_page())
        for row in self.rows:
            if isinstance(row, dict) and (item := _item(row)):
                yield item

    def correction(self) -> str | None:
        """What the query was probably meant to say."""
        return next(_texts(self.raw.get("corrections")), None)

    def suggestions(self) -> tuple[str, ...]:
        """Other queries worth asking."""
        return tuple(_texts(self.raw.get("suggestions")))[:MAX_SUGGESTIONS]

    def total(self) -> int | None:
        """How many hits there are, where an (older) instance says so."""
        number = number_of(self.raw.get("number_of_results"))
        return int(number) if number and number > 0 else None


def _item(row: Mapping[str, Any]) -> Fields | None:
    url = text_of(row.get("url"))
    host = host_of(url)
    if not host:
        return None
    published = row.get("publishedDate")
    return {
        "title": _line(row.get("title")) or host,
        "url": url,
        "snippet": text_of(row.get("content")),
        "site_name": host,
        "published_date": _date(published) if published else None,
        "source": text_of(row.get("engine")) or None,
        "score": number_of(row.get("score")),
    }


def _direct_answer(answer: Any, search_page: str) -> Iterator[Fields]:
    """An answer of a plugin or engine: an object since 2025, before that a string."""
    fields = answer if isinstance(answer, dict) else {"answer": answer}
    text = text_of(fields.get("answer")).strip()
    if text:
        engine = _line(fields.get("engine"))
        url = text_of(fields.get("url"))
        yield {
            "title": f"Answer by {engine}" if engine else "Answer",
            "url": url if is_web_url(url) else search_page,
            "snippet": text,
            "source": engine or None,
        }


def _infobox(box: Mapping[str, Any], search_page: str) -> Iterator[Fields]:
    text = text_of(box.get("content")).strip() or _attributes(box)
    if text:
        links = [text_of(dict_of(link).get("url")) for link in list_of(box.get("urls"))]
        urls = (url for url in (text_of(box.get("id")), *links) if is_web_url(url))
        url = next(urls, search_page)
        yield {
            "title": _line(box.get("infobox")) or _line(box.get("title")) or host_of(url),
            "url": url,
            "snippet": text,
            "site_name": host_of(url),
            "source": _line(box.get("engine")) or None,
        }


def _attributes(box: Mapping[str, Any]) -> str:
    pairs = [dict_of(pair) for pair in list_of(box.get("attributes"))]
    lines = [(_line(pair.get("label")), _line(pair.get("value"))) for pair in pairs]
    return "\n".join(f"{label}: {value}" for label, value in lines if label and value)


def _failed(pair: list[Any]) -> Failed:
    name = text_of(pair[0])
    said = text_of(pair[1]).lower() if len(pair) > 1 else ""
    reason = next((each for each in _REASONS if each.words in said), _FAILED)
    return Failed(
        name if _ENGINE.fullmatch(name) else "an engine",
        reason.ours,
        reason.at_least_s,
        reason.at_least_s if reason.exact else None,
        said.startswith(SUSPENDED),
    )


def _texts(values: Any) -> Iterator[str]:
    for value in list_of(values):
        text = _line(value if isinstance(value, str) else dict_of(value).get("title"))
        if text:
            yield text


def _line(value: Any) -> str:
    return " ".join(text_of(value, MAX_LINE_CHARS).split())


def _date(value: Any) -> str | None:
    return value if isinstance(value, str) and _ISO_DATE.fullmatch(value) else None


def engines_not_asked(requested: Iterable[str], answers: Iterable[SearXNGAnswer]) -> list[str]:
    """Engines that were asked for and took no part. Without the header one that found nothing cannot be told from them:
    then they count only when others answered and none of them did."""
    pages = list(answers)
    looked = {name for page in pages for name in page.answered()}
    seen = {name for page in pages for name in page.engines_in_results()} | looked
    seen |= {failed.engine for page in pages for failed in page.failed()}
    missing = [engine for engine in requested if engine not in seen]
    if looked or any(page.none_asked for page in pages):
        return missing
    return missing if seen and not seen.intersection(requested) else []


@dataclass(frozen=True, slots=True)
class SearXNGConfig:
    """What /config tells of the engines: those that are loaded, and whether it asks them by itself."""

    raw: Mapping[str, Any]

    def engines(self) -> dict[str, Mapping[str, Any]]:
        """The loaded engines by name; empty when it tells of none."""
        rows = [dict_of(row) for row in list_of(self.raw.get("engines"))[:MAX_ENGINES]]
        return {name: row for row in rows if _ENGINE.fullmatch(name := text_of(row.get("name")))}

    def check(self, kind: SourceKind, listed: Sequence[str]) -> EngineListCheck:
        """The operator's list for a kind of source held against them."""
        engines = self.engines()
        on = {name: list_of(row.get("categories")) for name, row in engines.items() if row.get("enabled") is True}
        of_kind = [name for name, groups in on.items() if CATEGORIES[kind] in groups]
        proper = [name for name in of_kind if NARROW_CATEGORIES[kind] in on[name]] or of_kind
        return EngineListCheck(
            kind,
            SETTINGS[kind],
            tuple(listed),
            missing=tuple(name for name in listed if name not in engines),
            off=tuple(name for name in listed if name in engines and name not in on),
            on=tuple(dict.fromkeys([*(name for name in listed if name in on), *proper])),
        )
