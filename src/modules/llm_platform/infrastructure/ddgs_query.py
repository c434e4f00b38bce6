"""A search request in the words of the ddgs library."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.freshness import Freshness
from modules.llm_platform.domain.language import detect
from modules.llm_platform.infrastructure.ddgs_session import NEEDS_EXTRA, PROVIDER

Kind = Literal["text", "news"]

_COUNTRIES: Final = {
    "en": "us", "uk": "ua", "zh": "cn", "ja": "jp", "ko": "kr", "ar": "xa", "hi": "in", "sv": "se", "da": "dk", "cs": "cz",
    "el": "gr", "he": "il", "vi": "vn", "ca": "ct", "fa": "ir", "sr": "rs", "et": "ee", "sl": "sl", "ms": "my",
}  # fmt: skip
_TERRITORIES: Final = {"gb": "uk", "hant": "tw", "hans": "cn"}
DEFAULT_REGION: Final = "us-en"  # the library's own; it has none for "anywhere" that all its engines take


def kinds_of(request: WebSearchRequest) -> Sequence[Kind]:
    news = "news" in request.sources
    return ("text", "news") if news and len(request.sources) > 1 else ("news",) if news else ("text",)


def query_of(request: WebSearchRequest) -> str:
    sites = " OR ".join(f"site:{domain}" for domain in request.domains if not domain.startswith("-"))
    without = " ".join(f"-site:{domain[1:]}" for domain in request.domains if domain.startswith("-"))
    return " ".join(filter(None, (request.query, sites, without)))


def region_of(request: WebSearchRequest) -> str:
    """`country-language` as the library wants it: de-AT gives at-de, en gives us-en."""
    tag = request.language or detect(request.query)
    if tag is None:
        return DEFAULT_REGION
    language, *rest = tag.lower().split("-")
    territory = rest[-1] if rest else _COUNTRIES.get(language, language)
    return f"{_TERRITORIES.get(territory, territory)}-{language}"


def timelimit_of(limit: Freshness | None) -> str | None:
    """d, w, m or y: the smallest that covers the limit."""
    span = limit.time_range(datetime.now(UTC).date()) if limit else None
    return span[0] if span else None


def backends_of(kind: Kind, wanted: Sequence[str]) -> tuple[str, tuple[Degraded, ...]]:
    """The library's names for the engines asked for, and a word about those that it has not."""
    if not wanted:
        return "auto", ()
    try:
        from ddgs.engines import ENGINES
    except ImportError as error:
        raise WebSearchConfigError(NEEDS_EXTRA) from error
    known = [name for name in dict.fromkeys(map(str.lower, wanted)) if name in ENGINES.get(kind, {})]
    unknown = ", ".join(name for name in wanted if name.lower() not in known)
    words = (Degraded(component=PROVIDER, reason=f"it has no engine named {unknown}"),) if unknown else ()
    return ",".join(known) or "auto", words
