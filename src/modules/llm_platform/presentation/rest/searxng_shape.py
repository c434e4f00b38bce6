"""The search format of SearXNG: its parameters and its JSON, for every provider."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, Field, WithJsonSchema
from starlette.datastructures import QueryParams

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.long_message import SearchQuery

SOURCE_OF_CATEGORY: Mapping[str, dtos.SourceKind] = {"general": "web", "news": "news", "science": "academic"}
MAX_PAGE_DIGITS = 4
MAX_FIELDS = 500  # of a form; that of SearXNG has a checkbox for each category
CATEGORY_CHECKBOX = "category_"  # of the search form of SearXNG: category_news=on
NAMES = WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
TIME_RANGE: Mapping[str, Any] = {"enum": ["", "day", "week", "month", "year"]}
TIME_RANGE_OR_NULL = WithJsonSchema({"enum": [*TIME_RANGE["enum"], None]})
SAFESEARCH: Mapping[str, Any] = {"enum": ["", 0, 1, 2]}
SAFESEARCH_OR_NULL: dict[str, Any] = {"enum": [*SAFESEARCH["enum"], None]}
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


def _sources(value: Any) -> Any:
    """Return the sources for the categories, for providers other than SearXNG. Validation of `categories` reports errors."""
    names = _split(value)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ["web"]
    return list(dict.fromkeys(SOURCE_OF_CATEGORY[name] for name in names if name in SOURCE_OF_CATEGORY)) or ["web"]


def _none_if_any_language(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in ANY_LANGUAGE else value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


class SearchApiRequest(dtos.VerbatimWebSearchRequest, frozen=True):
    """`q` is passed on unchanged, with its bangs; of one that is longer than a question, the question in it is.

    `engines` is a list or a comma list; `pageno` is an alias of `page`.
    """

    query: Annotated[SearchQuery, AfterValidator(_refuse_redirect)] = Field(validation_alias="q")
    page: int = Field(default=1, ge=1, le=dtos.MAX_PAGE, strict=True, validation_alias=AliasChoices("page", "pageno"))
    engines: Annotated[tuple[dtos.Engine, ...], BeforeValidator(_split), NAMES] = Field(default=(), max_length=dtos.MAX_ENGINES)
    sources: Annotated[tuple[dtos.SourceKind, ...], BeforeValidator(_sources), NAMES] = Field(
        default=("web",), validation_alias="categories"
    )
    categories: Annotated[tuple[dtos.Category, ...], BeforeValidator(_split), NAMES] = Field(
        default=(), max_length=dtos.MAX_ENGINES
    )
    safesearch: Annotated[dtos.SafeSearch | None, BeforeValidator(_none_if_empty), WithJsonSchema(SAFESEARCH_OR_NULL)] = None
    language: Annotated[dtos.Language | None, BeforeValidator(_none_if_any_language)] = None
    time_range: Annotated[dtos.TimeRange | None, BeforeValidator(_none_if_empty), TIME_RANGE_OR_NULL] = None


class SearxngAnswer(BaseModel, extra="allow"):
    """The JSON of SearXNG; its other fields are passed on too."""

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
    if checked := [name.removeprefix(CATEGORY_CHECKBOX) for name, value in params.items() if _is_checked(name, value)]:
        values["categories"] = ",".join([*filter(None, [values.get("categories")]), *checked])
    for name in ("page", "pageno", "safesearch"):
        if name in params:
            values[name] = _number(params[name])
    return values


def from_form(body: bytes) -> dict[str, Any]:
    """Return the values of a form as the page of SearXNG posts it. Raises ValueError for more than MAX_FIELDS fields."""
    return from_query(
        QueryParams(parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    )


def _is_checked(name: str, value: str) -> bool:
    return name.startswith(CATEGORY_CHECKBOX) and value != "off"


def _number(text: str) -> int | str:
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_PAGE_DIGITS
    return int(text) if is_number else text


def to_searxng(response: dtos.WebSearchResponse) -> dict[str, Any]:
    """Return the unchanged JSON of SearXNG, or the response of another provider in the same format.

    `number_of_results`, which SearXNG removed in May 2026 and older clients read, is at least the number of results.
    """
    raw = response.raw
    if raw is None or not isinstance(raw.get("results"), list):
        raw = _in_searxng_format(response)
    total = raw.get("number_of_results", response.total_matches)
    number = total if isinstance(total, int | float) and not isinstance(total, bool) else 0
    return {**raw, "number_of_results": max(number, len(raw["results"]))}


def _in_searxng_format(response: dtos.WebSearchResponse) -> dict[str, Any]:
    return {
        "query": response.query,
        "results": [_result(position, item, response.provider) for position, item in enumerate(response.results, 1)],
        "answers": [],
        "corrections": [response.correction] if response.correction else [],
        "infoboxes": [],
        "suggestions": list(response.suggestions),
        "unresponsive_engines": [[entry.component, entry.reason] for entry in response.degraded],
    }


def _result(position: int, item: dtos.WebSearchResultItem, provider: str) -> dict[str, Any]:
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
        "parsed_url": _parsed_url(item.url),
        "publishedDate": item.published_date,
    }


def _parsed_url(url: str) -> list[str]:
    """Return six parts like urllib's urlparse; only the URL if it cannot be parsed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ["", "", url, "", "", ""]
    return [parts.scheme, parts.netloc, parts.path, "", parts.query, parts.fragment]
