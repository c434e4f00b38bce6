"""The search format of SearXNG: its parameters and its JSON, for every provider."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, Field, WithJsonSchema
from starlette.datastructures import QueryParams

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.research.long_message import SearchQuery
from modules.llm_platform.domain.untrusted.untrusted_text import remove_controls
from modules.llm_platform.domain.urls.canonical_url import canonical_url, remove_userinfo

SOURCE_OF_CATEGORY: Mapping[str, dtos.SourceKind] = {"general": "web", "news": "news", "science": "academic"}
MAX_PAGE_DIGITS = 4
MAX_FIELDS = 500  # fields of a form; the form of SearXNG has a checkbox for each category
CATEGORY_CHECKBOX = "category_"  # prefix of a field in the search form of SearXNG: category_news=on
NAMES = WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
TIME_RANGE: Mapping[str, Any] = {"enum": ["", "day", "week", "month", "year"]}
TIME_RANGE_OR_NULL = WithJsonSchema({"enum": [*TIME_RANGE["enum"], None]})
# Generators of clients refuse an enumeration of several types.
_LEVELS: list[dict[str, Any]] = [{"type": "integer", "enum": [0, 1, 2]}, {"type": "string", "maxLength": 0}]
SAFESEARCH: Mapping[str, Any] = {"anyOf": _LEVELS}
SAFESEARCH_OR_NULL: dict[str, Any] = {"anyOf": [*_LEVELS, {"type": "null"}]}
DOCUMENT_SCHEMES = frozenset({"http", "https", "doc"})
SAFE_SCHEMES: Mapping[str, frozenset[str]] = {"magnetlink": DOCUMENT_SCHEMES | {"magnet"}}
SCRIPT_SCHEMES = frozenset({"javascript", "vbscript"})
LINK_LISTS = frozenset({"results", "urls"})  # lists whose items are useless without their address
MAX_SCHEME_CHARS = 100
_ADDRESS_FIELD = re.compile(
    r"(?:^|_)(?:url|urls|src|href|link|links|image|images|thumbnail|favicon|id|uri)$|link$|file$"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):")
_BLANK = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
ANY_LANGUAGE = frozenset({"all", "auto", ""})  # the same as leaving the field out


def _refuse_redirect(query: str) -> str:
    if any(word.startswith("!!") for word in query.split()):
        raise ValueError("must not contain !!, which redirects to another site")
    return query


def _split(value: Any) -> Any:
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [item.strip() for item in value if item.strip()]
    return value


def _choose_sources(value: Any) -> Any:
    """Return the sources for the categories, for providers other than SearXNG. Validation of `categories` reports errors."""
    names = _split(value)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ["web"]
    return list(dict.fromkeys(SOURCE_OF_CATEGORY[name] for name in names if name in SOURCE_OF_CATEGORY)) or ["web"]


def _drop_any_language(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in ANY_LANGUAGE else value


def _drop_empty(value: Any) -> Any:
    return None if value == "" else value


class SearchApiRequest(dtos.VerbatimWebSearchRequest, frozen=True):
    """A search. `q` is passed on unchanged, with its bangs. If it is longer than a question, the question in it is passed on.

    `engines` is a list or a comma-separated list. `pageno` is an alias of `page`.
    """

    query: Annotated[SearchQuery, AfterValidator(_refuse_redirect)] = Field(validation_alias="q")
    page: int = Field(default=1, ge=1, le=dtos.MAX_PAGE, strict=True, validation_alias=AliasChoices("page", "pageno"))
    engines: Annotated[tuple[dtos.Engine, ...], BeforeValidator(_split), NAMES] = Field(
        default=(), max_length=dtos.MAX_ENGINES
    )
    sources: Annotated[tuple[dtos.SourceKind, ...], BeforeValidator(_choose_sources), NAMES] = Field(
        default=("web",), validation_alias="categories"
    )
    categories: Annotated[tuple[dtos.Category, ...], BeforeValidator(_split), NAMES] = Field(
        default=(), max_length=dtos.MAX_ENGINES
    )
    safesearch: Annotated[dtos.SafeSearch | None, BeforeValidator(_drop_empty), WithJsonSchema(SAFESEARCH_OR_NULL)] = (
        None
    )
    language: Annotated[dtos.Language | None, BeforeValidator(_drop_any_language)] = None
    time_range: Annotated[dtos.TimeRange | None, BeforeValidator(_drop_empty), TIME_RANGE_OR_NULL] = None


class SearxngAnswer(BaseModel, extra="allow"):
    """The JSON of SearXNG. Its other fields are passed on, too."""

    query: str = ""
    number_of_results: float | None
    results: list[Any]
    answers: list[Any] = Field(default_factory=list)
    corrections: list[Any] = Field(default_factory=list)
    infoboxes: list[Any] = Field(default_factory=list)
    suggestions: list[Any] = Field(default_factory=list)
    unresponsive_engines: list[Any] = Field(default_factory=list)


def from_query(params: QueryParams) -> dict[str, Any]:
    """Return the values of a query string for SearchApiRequest: repeated lists joined, digits as numbers."""
    values: dict[str, Any] = {name: params[name] for name in ("q", "language", "time_range") if name in params}
    for name in ("engines", "categories"):
        if name in params:
            values[name] = ",".join(params.getlist(name))
    if checked := [
        name.removeprefix(CATEGORY_CHECKBOX)
        for name, value in params.items()
        if name.startswith(CATEGORY_CHECKBOX) and value != "off"
    ]:
        values["categories"] = ",".join([*filter(None, [values.get("categories")]), *checked])
    for name in ("page", "pageno", "safesearch"):
        if name in params:
            text = params[name]
            is_number = text.isascii() and text.isdigit() and len(text) <= MAX_PAGE_DIGITS
            values[name] = int(text) if is_number else text
    return values


def from_form(body: bytes) -> dict[str, Any]:
    """Return the values of a form as the page of SearXNG posts it. Raises ValueError for more than MAX_FIELDS fields."""
    return from_query(
        QueryParams(parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    )


def to_searxng(response: dtos.WebSearchResponse) -> dict[str, Any]:
    """Return the JSON of SearXNG without unsafe addresses, or the response of another provider in the same format.

    A page whose address is spelled in several ways, such as with http and https, is listed once, where it comes first.
    `number_of_results`, which SearXNG removed in May 2026 and older clients read, is at least the number of results.
    """
    raw = response.raw
    if raw is None or not isinstance(raw.get("results"), list):
        raw = _in_searxng_format(response)
    else:
        raw = {name: _clean(value, name) for name, value in raw.items()}
    results = list(_list_once(raw["results"]))
    total = raw.get("number_of_results", response.total_matches)
    number = total if isinstance(total, int | float) and not isinstance(total, bool) else 0
    return {**raw, "results": results, "number_of_results": max(number, len(results))}


def _list_once(results: Sequence[Any]) -> Iterator[Any]:
    """Yield the first result of each page. The images of one page are several results, as in SearXNG."""
    seen: set[tuple[str, str]] = set()
    for result in results:
        url = result.get("url") if isinstance(result, dict) else None
        if isinstance(url, str):
            key = (canonical_url(url), str(result.get("img_src") or ""))
            if key in seen:
                continue
            seen.add(key)
        yield result


def _clean(value: Any, name: str) -> Any:
    """Return a value of the JSON without control characters, credentials in addresses, and addresses that run or read files.

    A result or a link is left out if its own address is unsafe. Of anything else, only the unsafe field is left out. `name` is
    the name of the field, or of the list for an entry of one.
    """
    if isinstance(value, str):
        return remove_userinfo(remove_controls(value))
    if isinstance(value, list):
        return [_clean(item, name) for item in value if not _is_unsafe_item(item, name)]
    if not isinstance(value, dict):
        return value
    cleaned = {key: _clean(item, key) for key, item in value.items() if not _is_unsafe_address(item, key)}
    if isinstance(cleaned.get("parsed_url"), list) and isinstance(url := cleaned.get("url"), str):
        cleaned["parsed_url"] = _parse_url(url)
    return cleaned


def _is_unsafe_item(item: Any, name: str) -> bool:
    if isinstance(item, dict):
        return name in LINK_LISTS and _is_unsafe_address(item.get("url"), "url")
    return name != "parsed_url" and _is_unsafe_address(item, name)


def _is_unsafe_address(value: Any, name: str) -> bool:
    """Return whether a value has a scheme that runs as a script, or, in a field for addresses, one that documents do not have.

    Browsers ignore controls and spaces in a scheme. The space after the colon makes "JavaScript: The Good Parts" a title.
    """
    if not isinstance(value, str) or (scheme := _SCHEME.match(_BLANK.sub("", value[:MAX_SCHEME_CHARS]))) is None:
        return False
    found = scheme[1].lower()
    if _ADDRESS_FIELD.search(name) is None:
        return found in SCRIPT_SCHEMES and not value.partition(":")[2][:1].isspace()
    return found not in SAFE_SCHEMES.get(name, DOCUMENT_SCHEMES)


def _in_searxng_format(response: dtos.WebSearchResponse) -> dict[str, Any]:
    return {
        "query": response.query,
        "results": [
            _make_result(position, item, response.provider) for position, item in enumerate(response.results, 1)
        ],
        "answers": [],
        "corrections": [response.correction] if response.correction else [],
        "infoboxes": [],
        "suggestions": list(response.suggestions),
        "unresponsive_engines": [[entry.component, entry.reason] for entry in response.degraded],
    }


def _make_result(position: int, item: dtos.WebSearchResultItem, provider: str) -> dict[str, Any]:
    engine = item.source or provider
    return {
        "title": item.title,
        "url": item.url,
        "content": item.text,
        "engine": engine,
        "engines": [engine],
        "category": "general",
        "score": 1 / position if item.score is None else item.score,
        "positions": [position],
        "template": "default.html",
        "parsed_url": _parse_url(item.url),
        "publishedDate": item.published_date,
    }


def _parse_url(url: str) -> list[str]:
    """Return six parts, as urllib's urlparse does, or only the URL if it cannot be parsed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ["", "", url, "", "", ""]
    return [parts.scheme, parts.netloc, parts.path, "", parts.query, parts.fragment]
