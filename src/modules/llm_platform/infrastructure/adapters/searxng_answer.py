"""What SearXNG says, in our words: results, engines that failed, and whether nobody could look at all.

Results of images, files or key-value pairs lack fields: what has no web address is dropped, the rest is optional.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from modules.llm_platform.domain.canonical_url import host_of, is_web_url
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck
from modules.llm_platform.infrastructure.adapters.searxng_question import CATEGORIES, NARROW_CATEGORIES, SETTINGS
from modules.llm_platform.infrastructure.foreign_json import dict_of, list_of, number_of, text_of

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


def unasked(requested: Iterable[str], answers: Iterable[SearXNGAnswer]) -> list[str]:
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
