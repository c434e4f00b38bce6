"""The pass-through in SearXNG's own words: its parameters in, its JSON out, whoever answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.datastructures import QueryParams

from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_ENGINES,
    MAX_PAGE,
    Category,
    Engine,
    Language,
    Query,
    SafeSearch,
    SourceKind,
    TimeRange,
    VerbatimWebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)

SOURCE_OF_CATEGORY: Mapping[str, SourceKind] = {"general": "web", "news": "news", "science": "academic"}
MAX_PAGE_DIGITS = 4
MAX_FIELDS = 500  # of a form; SearXNG's has a checkbox for each category
CATEGORY_BOX = "category_"  # a checkbox of SearXNG's own search form: category_news=on
NAMES = WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
TIME_RANGE: Mapping[str, Any] = {"enum": ["", "day", "week", "month", "year"]}
TIME_RANGE_OR_NULL = WithJsonSchema({"enum": [*TIME_RANGE["enum"], None]})
SAFESEARCH: Mapping[str, Any] = {"enum": [0, 1, 2]}
SAFESEARCH_OR_NULL: dict[str, Any] = {"enum": [*SAFESEARCH["enum"], None]}
NONE_IN_PARTICULAR = frozenset({"all", "auto", ""})  # SearXNG's words for what leaving the field out means here


def _no_redirect(query: str) -> str:
    if any(word.startswith("!!") for word in query.split()):
        raise ValueError("must not hold !!, which leaves the search engine for another site")
    return query


def _split(value: Any) -> Any:
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [item.strip() for item in value if item.strip()]
    return value


def _sources(value: Any) -> Any:
    """The kinds of source behind the categories, for a provider that is not SearXNG. What cannot be read is reported as an
    error of `categories`."""
    names = _split(value)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ["web"]
    return list(dict.fromkeys(SOURCE_OF_CATEGORY[name] for name in names if name in SOURCE_OF_CATEGORY)) or ["web"]


def _none_in_particular(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in NONE_IN_PARTICULAR else value


def _none_when_empty(value: Any) -> Any:
    return None if value == "" else value


class SearchApiRequest(VerbatimWebSearchRequest):
    """`q` goes out as written, with its bangs; `engines` is a list or a comma list, `pageno` is read as `page`."""

    query: Annotated[Query, AfterValidator(_no_redirect)] = Field(validation_alias="q")
    page: int = Field(default=1, ge=1, le=MAX_PAGE, strict=True, validation_alias=AliasChoices("page", "pageno"))
    engines: Annotated[tuple[Engine, ...], BeforeValidator(_split), NAMES] = Field(default=(), max_length=MAX_ENGINES)
    sources: Annotated[tuple[SourceKind, ...], BeforeValidator(_sources), NAMES] = Field(
        default=("web",), validation_alias="categories"
    )
    categories: Annotated[tuple[Category, ...], BeforeValidator(_split), NAMES] = Field(default=(), max_length=MAX_ENGINES)
    safesearch: Annotated[
        SafeSearch | None, BeforeValidator(_none_when_empty), WithJsonSchema(SAFESEARCH_OR_NULL)
    ] = None
    language: Annotated[Language | None, BeforeValidator(_none_in_particular)] = None
    time_range: Annotated[TimeRange | None, BeforeValidator(_none_when_empty), TIME_RANGE_OR_NULL] = None


class SearxngAnswer(BaseModel):
    """SearXNG's JSON; what else it sends is passed on too."""

    model_config = ConfigDict(extra="allow")

    query: str = ""
    number_of_results: float | None
    results: list[Any]
    answers: list[Any] = Field(default_factory=list)
    corrections: list[Any] = Field(default_factory=list)
    infoboxes: list[Any] = Field(default_factory=list)
    suggestions: list[Any] = Field(default_factory=list)
    unresponsive_engines: list[Any] = Field(default_factory=list)


def from_query(params: QueryParams) -> dict[str, Any]:
    """The values of `GET /search?q=…`, or of the same as a form, as the model takes them: lists joined, numbers in plain
    digits as numbers."""
    values: dict[str, Any] = {name: params[name] for name in ("q", "language", "time_range") if name in params}
    for name in ("engines", "categories"):
        if name in params:
            values[name] = ",".join(params.getlist(name))
    if boxes := [name.removeprefix(CATEGORY_BOX) for name, value in params.items() if _is_ticked(name, value)]:
        values["categories"] = ",".join([*filter(None, [values.get("categories")]), *boxes])
    for name in ("page", "pageno", "safesearch"):
        if name in params:
            values[name] = _number(params[name])
    return values


def from_form(body: bytes) -> dict[str, Any]:
    """The values of a form, as SearXNG's own page posts it. Raises ValueError for more fields than a search has."""
    return from_query(QueryParams(parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)))


def _is_ticked(name: str, value: str) -> bool:
    return name.startswith(CATEGORY_BOX) and value != "off"


def _number(text: str) -> int | str:
    plain = text.isascii() and text.isdigit() and len(text) <= MAX_PAGE_DIGITS
    return int(text) if plain else text


def to_searxng(response: WebSearchResponse) -> dict[str, Any]:
    """SearXNG's own answer with the values that it sent; another provider's in the same shape.

    `number_of_results` left SearXNG's answer in May 2026; older clients still read it. It is no smaller than the number of
    results that are sent.
    """
    raw = response.raw
    if raw is None or not isinstance(raw.get("results"), list):
        raw = _in_its_shape(response)
    known = raw.get("number_of_results", response.total_matches)
    number = known if isinstance(known, int | float) and not isinstance(known, bool) else 0
    return {**raw, "number_of_results": max(number, len(raw["results"]))}


def _in_its_shape(response: WebSearchResponse) -> dict[str, Any]:
    return {
        "query": response.query,
        "results": [_result(place, item, response.provider) for place, item in enumerate(response.results, 1)],
        "answers": [],
        "corrections": [response.correction] if response.correction else [],
        "infoboxes": [],
        "suggestions": list(response.suggestions),
        "unresponsive_engines": [[entry.component, entry.reason] for entry in response.degraded],
    }


def _result(place: int, item: WebSearchResultItem, provider: str) -> dict[str, Any]:
    engine = item.source or provider
    return {
        "title": item.title,
        "url": item.url,
        "content": item.text,
        "engine": engine,
        "engines": [engine],
        "category": "general",
        "score": 1 / place if item.score is None else item.score,
        "positions": [place],
        "template": "default.html",
        "parsed_url": _parsed(item.url),
        "publishedDate": item.published_date,
    }


def _parsed(url: str) -> list[str]:
    """Six parts, as Python's urlparse gives them; just the address where it cannot be taken apart."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ["", "", url, "", "", ""]
    return [parts.scheme, parts.netloc, parts.path, "", parts.query, parts.fragment]
