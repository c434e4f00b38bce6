"""SearXNG's JSON answers: results, failed engines, whether any engine answered, and the engines of /config.

Results of images, files or key-value pairs lack fields: one without a web address is dropped, other fields are optional.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck
from modules.llm_platform.domain.urls.canonical_url import get_host, is_web_url
from modules.llm_platform.infrastructure.http.untrusted_json import (
    read_dict,
    read_line,
    read_list,
    read_number,
    read_text,
)
from modules.llm_platform.infrastructure.search.searxng.form import CATEGORIES

# The narrower categories that hold the engines of a kind without translators, data sets and the like.
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

# Fields of a WebSearchResultItem; validating them together with the answer takes half the time.
Fields: TypeAlias = dict[str, Any]

MAX_SUGGESTIONS: Final = 20
MAX_FAILED_ENGINES: Final = 20
MAX_ENGINES: Final = 2000  # engines of one instance; SearXNG ships fewer than 300

TIMEOUT: Final = "timeout"
NOT_REACHABLE: Final = "not reachable"
ANY_FAILURE_S: Final = 5.0  # SearXNG's ban_time_on_fail


class FailureRule(NamedTuple):
    """A part of SearXNG's message for a failure, the reason to report, and the shortest suspension in seconds.

    `is_exact` is True if the suspension has no other duration.
    """

    message: str
    reason: str
    min_suspension_s: float = ANY_FAILURE_S
    is_exact: bool = False


# Most specific first. The message for a CAPTCHA is the same for an hour (the engine's own), a week (reCAPTCHA) and 15 days
# (Cloudflare), that for a denied access for 3 minutes (402, 403) and a day (Cloudflare's firewall).
_FAILURE_RULES: Final = (
    FailureRule("captcha", "captcha", 3600.0),
    FailureRule("too many requests", "too many requests", 180.0, is_exact=True),
    FailureRule("access denied", "access denied", 180.0),
    FailureRule("timeout", TIMEOUT, is_exact=True),
    FailureRule("parsing", "its answer could not be read"),
    FailureRule("connection", NOT_REACHABLE, is_exact=True),
    FailureRule("network", NOT_REACHABLE, is_exact=True),
    FailureRule("proxy", NOT_REACHABLE, is_exact=True),
    FailureRule("ssl", NOT_REACHABLE, is_exact=True),
    FailureRule("http", "answered with an error", is_exact=True),
)
_UNKNOWN_FAILURE: Final = FailureRule("", "failed")
_ENGINE = re.compile(r"[\w ._-]{1,60}", re.ASCII)
_ANSWERED = re.compile(r"total_\d+_([^;,]+)")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.,]{4,15}(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class FailedEngine:
    """An engine that failed. `is_suspended` is True if it failed earlier and was not called now.

    SearXNG suspends it for at least `min_suspension_s` seconds, or for `suspension_s` if the reason has a fixed duration.
    """

    engine: str
    reason: str
    min_suspension_s: float = ANY_FAILURE_S
    suspension_s: float | None = None
    is_suspended: bool = False


@dataclass(frozen=True, slots=True)
class SearXNGAnswer:
    """One page. The header Server-Timing names the engines that answered. A proxy may remove the header."""

    raw: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def rows(self) -> list[Any]:
        """The results without direct answers and infoboxes."""
        return read_list(self.raw.get("results"))

    @property
    def all_blocked(self) -> bool:
        """True if nothing was returned, engines failed, and none is known to have answered, unlike "nothing found"."""
        raw = self.raw
        if self.rows or read_list(raw.get("answers")) or read_list(raw.get("infoboxes")):
            return False
        return bool(read_list(raw.get("unresponsive_engines"))) and not self.list_answered()

    @property
    def is_no_engine_called(self) -> bool:
        """True if no engine was called: nothing was returned, nothing failed, and the header names no engine."""
        return "total;" in self.headers.get("server-timing", "") and not (
            self.rows
            or self.list_answered()
            or any(read_list(self.raw.get(part)) for part in ("unresponsive_engines", "answers", "infoboxes"))
        )

    def list_answered(self) -> frozenset[str]:
        return frozenset(name.strip() for name in _ANSWERED.findall(self.headers.get("server-timing", "")))

    def list_failed(self) -> list[FailedEngine]:
        reported = read_list(self.raw.get("unresponsive_engines"))
        if not reported:
            return []
        pairs = [pair for pair in reported if isinstance(pair, list) and pair]
        return [_read_failed_engine(pair) for pair in pairs[:MAX_FAILED_ENGINES]]

    def urls(self) -> set[str]:
        return {read_text(row.get("url")) for row in self.rows if isinstance(row, dict)}

    def engines_in_results(self) -> set[str]:
        rows = [row for row in self.rows if isinstance(row, dict)]
        named = {read_text(name) for row in rows for name in read_list(row.get("engines"))}
        return named | {read_text(row.get("engine")) for row in rows}

    def items(self, search_page: Callable[[], str]) -> Iterator[Fields]:
        """Yield direct answers and infoboxes, then the results. `search_page` returns the address for an answer without one."""
        for answer in read_list(self.raw.get("answers")):
            yield from _read_direct_answer(answer, search_page())
        for box in read_list(self.raw.get("infoboxes")):
            yield from _read_infobox(read_dict(box), search_page())
        for row in self.rows:
            if isinstance(row, dict) and (item := _read_item(row)):
                yield item

    def hints(self) -> Fields:
        if not (self.raw.get("corrections") or self.raw.get("suggestions")):
            return {}
        return {
            "correction": next(_list_texts(self.raw.get("corrections")), None),
            "suggestions": tuple(_list_texts(self.raw.get("suggestions")))[:MAX_SUGGESTIONS],
        }

    def total(self) -> int | None:
        """Return the number of hits, which only older instances report."""
        number = read_number(self.raw.get("number_of_results"))
        return int(number) if number and number > 0 else None


def _read_item(row: Mapping[str, Any]) -> Fields | None:
    url = read_text(row.get("url"))
    host = get_host(url)
    if not host:
        return None
    published = row.get("publishedDate")
    is_date = isinstance(published, str) and _ISO_DATE.fullmatch(published)
    return {
        "title": read_line(row.get("title")) or host,
        "url": url,
        "snippet": read_text(row.get("content")),
        "site_name": host,
        "published_date": published if is_date else None,
        "source": read_text(row.get("engine")) or None,
        "score": read_number(row.get("score")),
    }


def _read_direct_answer(answer: Any, search_page: str) -> Iterator[Fields]:
    """Yield an answer of a plugin or engine: an object since 2025, a string before."""
    fields = answer if isinstance(answer, dict) else {"answer": answer}
    text = read_text(fields.get("answer")).strip()
    if text:
        engine = read_line(fields.get("engine"))
        url = read_text(fields.get("url"))
        yield {
            "title": f"Answer by {engine}" if engine else "Answer",
            "url": url if is_web_url(url) else search_page,
            "snippet": text,
            "source": engine or None,
        }


def _read_infobox(box: Mapping[str, Any], search_page: str) -> Iterator[Fields]:
    text = read_text(box.get("content")).strip()
    if not text:
        pairs = [read_dict(pair) for pair in read_list(box.get("attributes"))]
        lines = [(read_line(pair.get("label")), read_line(pair.get("value"))) for pair in pairs]
        text = "\n".join(f"{label}: {value}" for label, value in lines if label and value)
    if text:
        links = [read_text(read_dict(link).get("url")) for link in read_list(box.get("urls"))]
        urls = (url for url in (read_text(box.get("id")), *links) if is_web_url(url))
        url = next(urls, search_page)
        yield {
            "title": read_line(box.get("infobox")) or read_line(box.get("title")) or get_host(url),
            "url": url,
            "snippet": text,
            "site_name": get_host(url),
            "source": read_line(box.get("engine")) or None,
        }


def _read_failed_engine(pair: list[Any]) -> FailedEngine:
    name = read_text(pair[0])
    message = read_text(pair[1]).lower() if len(pair) > 1 else ""
    rule = next((rule for rule in _FAILURE_RULES if rule.message in message), _UNKNOWN_FAILURE)
    return FailedEngine(
        name if _ENGINE.fullmatch(name) else "an engine",
        rule.reason,
        rule.min_suspension_s,
        rule.min_suspension_s if rule.is_exact else None,
        message.startswith("suspended"),  # it is before the reason: the engine was not called this time
    )


def _list_texts(values: Any) -> Iterator[str]:
    for value in read_list(values):
        text = read_line(value if isinstance(value, str) else read_dict(value).get("title"))
        if text:
            yield text


def list_engines_not_called(requested: Iterable[str], pages: Sequence[SearXNGAnswer]) -> list[str]:
    """Return the requested engines that SearXNG did not call.

    Without the header, an engine that found nothing looks the same: then they only count when other engines answered and
    none of the requested ones did.
    """
    answered = {name for page in pages for name in page.list_answered()}
    seen = {name for page in pages for name in page.engines_in_results()} | answered
    seen |= {failed.engine for page in pages for failed in page.list_failed()}
    missing = [engine for engine in requested if engine not in seen]
    if answered or any(page.is_no_engine_called for page in pages):
        return missing
    return missing if seen and not seen.intersection(requested) else []


@dataclass(frozen=True, slots=True)
class SearXNGConfig:
    """The engines that /config lists, and whether they are enabled by default."""

    raw: Mapping[str, Any]

    def engines(self) -> dict[str, Mapping[str, Any]]:
        rows = [read_dict(row) for row in read_list(self.raw.get("engines"))[:MAX_ENGINES]]
        return {name: row for row in rows if _ENGINE.fullmatch(name := read_text(row.get("name")))}

    def check(self, kind: SourceKind, listed: Sequence[str]) -> EngineListCheck:
        engines = self.engines()
        enabled = {
            name: read_list(row.get("categories")) for name, row in engines.items() if row.get("enabled") is True
        }
        of_kind = [name for name, categories in enabled.items() if CATEGORIES[kind] in categories]
        narrow = [name for name in of_kind if NARROW_CATEGORIES[kind] in enabled[name]] or of_kind
        return EngineListCheck(
            kind,
            SETTINGS[kind],
            tuple(listed),
            missing=tuple(name for name in listed if name not in engines),
            off=tuple(name for name in listed if name in engines and name not in enabled),
            on=tuple(dict.fromkeys([*(name for name in listed if name in enabled), *narrow])),
        )
