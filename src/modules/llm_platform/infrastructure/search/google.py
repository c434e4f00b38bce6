"""The parameters of Google's results, which several services sell: language, country, query, dates."""

from typing import Final

from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.urls.canonical_url import site_operators
from modules.llm_platform.infrastructure.search.keyed_service import get_territory

GOOGLE_QUERY_CHARS: Final = 2048
# Values of `hl` that differ from the language code.
TAG_CODES: Final = {"zh-TW": "zh-tw", "zh-HK": "zh-tw", "zh-Hant": "zh-tw", "pt-BR": "pt-br", "pt-PT": "pt-pt"}
LANGUAGE_CODES: Final = {"zh": "zh-cn", "he": "iw", "jv": "jw", "nb": "no", "fil": "tl"}
# The codes of the languages that are read by many; services refuse a code that Google does not have.
LANGUAGES: Final = frozenset(
    {
        "af",
        "am",
        "ar",
        "az",
        "be",
        "bg",
        "bn",
        "bs",
        "ca",
        "cs",
        "cy",
        "da",
        "de",
        "el",
        "en",
        "eo",
        "es",
        "et",
        "eu",
        "fa",
        "fi",
        "fr",
        "ga",
        "gl",
        "gu",
        "hi",
        "hr",
        "hu",
        "hy",
        "id",
        "is",
        "it",
        "iw",
        "ja",
        "jw",
        "ka",
        "kk",
        "km",
        "kn",
        "ko",
        "ky",
        "la",
        "lo",
        "lt",
        "lv",
        "mk",
        "ml",
        "mn",
        "mr",
        "ms",
        "mt",
        "ne",
        "nl",
        "nn",
        "no",
        "pa",
        "pl",
        "ps",
        "pt",
        "pt-br",
        "pt-pt",
        "ro",
        "ru",
        "si",
        "sk",
        "sl",
        "so",
        "sq",
        "sr",
        "sv",
        "sw",
        "ta",
        "te",
        "tg",
        "th",
        "tk",
        "tl",
        "tr",
        "tt",
        "uk",
        "ur",
        "uz",
        "vi",
        "yi",
        "zh-cn",
        "zh-tw",
        "zu",
    }
)
# What becomes of the fields of a request, for the table of services.
NOTES: Final = {"domains": "`site:` operators", "language": "language and country", "text": "Google's snippet"}
TIME_SPANS: Final = {"day": "qdr:d", "week": "qdr:w", "month": "qdr:m", "year": "qdr:y"}


def choose_language(request: WebSearchRequest) -> str | None:
    """Return `hl`: the requested language or the language of the query. None leaves the choice to the service."""
    tag = request.language or detect_language(request.query) or ""
    primary = tag.partition("-")[0]
    code = TAG_CODES.get(tag) or LANGUAGE_CODES.get(primary, primary)
    return code if code in LANGUAGES else None


def choose_country(request: WebSearchRequest) -> str | None:
    """Return `gl`: the territory of the requested language."""
    return (get_territory(request.language) or "").lower() or None


def build_query(request: WebSearchRequest) -> str:
    """Return `q`: the query with its domains as operators. Many domains are left to the filter of the results."""
    whole = f"{request.query} {site_operators(request.domains)}".strip()
    return whole if len(whole) <= GOOGLE_QUERY_CHARS else request.query


def format_dates(window: Freshness | None) -> str | None:
    """Return `tbs`: a span that ends now, or a range of days."""
    if window is None:
        return None
    if window.start and window.end:
        first, last = (f"{day.month}/{day.day}/{day.year}" for day in (window.start, window.end))
        return f"cdr:1,cd_min:{first},cd_max:{last}"
    return TIME_SPANS[window.recent] if window.recent else None
