"""A web search as every layer sees it (docs/howto/use-from-python.md)."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.text.page_starts import PageStarts
from modules.llm_platform.domain.urls.site_names import MAX_SITES, parse_site, split_sites

SourceKind = Literal["web", "news", "academic", "documents"]
TimeRange = Literal["day", "week", "month", "year"]

DOCUMENTS: Final = "documents"  # the source kind, the provider and the page reader of the operator's own documents

MAX_QUERY_CHARS = 500
MAX_COUNT = 50
MAX_PAGE = 50
MAX_ENGINES = 50

# Anything but white space, control characters and characters that print nothing: a query without one of these asks
# nothing. (Emoji sequences hold joiners and variation selectors between others that are seen.)
_VISIBLE = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z]{4})?(?:-(?:[A-Za-z]{2}|\d{3}))?")


def clean_query(query: str) -> str:
    """Return the query without spaces around it; ValueError when it holds NUL or nothing that can be seen."""
    if "\x00" in query:
        raise ValueError("must not contain a NUL character")
    if not _VISIBLE.search(query):
        raise ValueError("must contain something to search for")
    return query.strip()


def clean_language(language: str) -> str:
    """Return a BCP 47 tag in its usual writing: `EN_us` becomes `en-US` (docs/reference/http.md).

    Raises ValueError for anything else.
    """
    tag = language.strip().replace("_", "-")
    if not _LANGUAGE.fullmatch(tag):
        raise ValueError("must be a language tag such as en, de or pt-BR")
    first, *rest = tag.split("-")
    return "-".join([first.lower(), *(part.title() if len(part) == 4 else part.upper() for part in rest)])


Query = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY_CHARS), AfterValidator(clean_query)
]
Language = Annotated[str, AfterValidator(clean_language)]
Engine = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[A-Za-z0-9 ._-]{1,60}$")]
Category = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^,\x00-\x1f\x7f]{1,60}$")]
SafeSearch = Annotated[int, Field(ge=0, le=2, strict=True)]
Domains = Annotated[
    tuple[Annotated[str, AfterValidator(parse_site)], ...], Field(max_length=MAX_SITES), BeforeValidator(split_sites)
]


class WebSearchRequest(BaseModel, frozen=True):
    """A web search. An invalid field raises pydantic's ValidationError in the code of the caller.

    - `freshness` is oneDay | oneWeek | oneMonth | oneYear | noLimit, a date or a range of dates
      (`domain.search.freshness` knows what is valid; a wrong one is a WebSearchRequestError of the adapter).
    - `domains` keeps results of these sites, or leaves out those that begin with a minus.
    - `engines` names search engines of a provider that has several.
    """

    query: Query
    freshness: str | None = None
    summary: bool = Field(default=True, strict=True)
    count: int = Field(default=10, ge=1, le=MAX_COUNT, strict=True)
    page: int = Field(default=1, ge=1, le=MAX_PAGE, strict=True)
    engines: tuple[Engine, ...] = Field(default=(), max_length=MAX_ENGINES)
    sources: tuple[SourceKind, ...] = Field(default=("web",), min_length=1, max_length=4)
    language: Language | None = None
    time_range: TimeRange | None = None
    domains: Domains = ()

    def with_(self, **changes: Any) -> Self:
        """Return a copy with other values, which the caller vouches for."""
        return self.model_copy(update=changes)


class VerbatimWebSearchRequest(WebSearchRequest, frozen=True):
    """A search whose query goes out as written, with the syntax of the provider (`!gon`, `:en`): the pass-through route.

    `categories` are the provider's own groups of engines, sent as they are; `sources` is what another provider is asked for.
    `safesearch` (0 off, 1 moderate, 2 strict) takes the place of the operator's.
    """

    categories: tuple[Category, ...] = Field(default=(), max_length=MAX_ENGINES)
    safesearch: SafeSearch | None = None


class WebSearchResultItem(BaseModel, frozen=True):
    """One hit. Times are ISO 8601 as the provider knew them; `source` is the engine or provider, `score` its own measure.

    These fields are not part of the JSON:

    - `pages` says where the pages of a document begin in `text`.
    - `is_whole` is True if `text` is known to be a whole document, or a table with all of its rows.
    - `document_text` is the whole text of a short document, from which an answer may quote what the search did not find, and
      `document_pages` says where its pages begin.
    """

    title: str
    url: str
    snippet: str = ""
    summary: str | None = None
    site_name: str | None = None
    published_date: str | None = None
    source: str | None = None
    score: float | None = None
    pages: SkipJsonSchema[PageStarts] = Field(default=(), exclude=True, repr=False)
    is_whole: SkipJsonSchema[bool] = Field(default=False, exclude=True, repr=False)
    document_text: SkipJsonSchema[str | None] = Field(default=None, exclude=True, repr=False)
    document_pages: SkipJsonSchema[PageStarts] = Field(default=(), exclude=True, repr=False)

    @property
    def text(self) -> str:
        """The longest words that the provider gave for this hit: what an answer may quote."""
        return self.summary if self.summary and len(self.summary) > len(self.snippet) else self.snippet


class WebSearchResponse(BaseModel, frozen=True):
    """The results of a web search, best first.

    - `raw` is the provider's own answer, or None.
    - `total_matches` is the provider's estimate.
    - `sent_to` is set by caches. It lists what was sent when the provider was called.
    """

    query: str
    total_matches: int | None = None
    results: tuple[WebSearchResultItem, ...] = ()
    provider: str = ""
    degraded: tuple[Degraded, ...] = ()
    correction: str | None = None
    suggestions: tuple[str, ...] = ()
    cached: bool = False
    sent_to: tuple[Sent, ...] = ()
    raw: dict[str, Any] | None = None

    def with_degraded(self, degraded: Iterable[Degraded]) -> Self:
        """Return a copy whose `degraded` begins with what failed before this answer."""
        more = tuple(degraded)
        return self.model_copy(update={"degraded": (*more, *self.degraded)}) if more else self
