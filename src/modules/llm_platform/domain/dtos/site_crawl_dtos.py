"""The crawl of a site: which pages are wanted, and what was read."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints

from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.domain.urls.url_pattern import UrlPattern

MAX_CRAWL_DEPTH: Final = 5
MAX_CRAWL_BREADTH: Final = 500
MAX_CRAWL_PAGES: Final = 500
MAX_CRAWL_S: Final = 150.0
MAX_PATTERNS: Final = 20  # patterns in one field
MAX_CRAWL_INSTRUCTION_CHARS: Final = 2000

StopReason = Literal["limit", "deadline", "size"]


def _add_scheme(url: object) -> object:
    return f"https://{url.strip()}" if isinstance(url, str) and url.strip() and "://" not in url else url


def _pattern(text: str) -> str:
    UrlPattern(text)
    return text


StartUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    BeforeValidator(_add_scheme),
    AfterValidator(clean_query),  # a crawl in the background has its address as its query
]
Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], Field(max_length=MAX_PATTERNS)]


class LinkedPage(BaseModel, frozen=True):
    """A page as a crawl reads it.

    - Its text may be empty if it has links.
    - `size_bytes` is its decompressed size as sent.
    """

    page: Page
    links: tuple[PageLink, ...] = ()
    images: tuple[str, ...] = ()
    favicon: str | None = None
    size_bytes: int = 0


class SiteCrawlRequest(BaseModel, frozen=True):
    """A site to crawl: the host of `url`, its subdomains, and the same host with or without `www.`.

    - `max_depth` is the number of links from `url` to a page.
    - `max_breadth` is the number of new links that are followed from one page.
    - `limit` is the number of pages in all. The patterns of paths and hosts follow `UrlPattern`.
    - `allow_external` also reads pages of other hosts that the site links to, without following their links.
    - `instructions` put links first whose text or address contains words of theirs.
    - `whole_pages` keeps all visible text of a page, including what surrounds its main content.
    """

    url: StartUrl
    max_depth: int = Field(default=1, ge=1, le=MAX_CRAWL_DEPTH, strict=True)
    max_breadth: int = Field(default=20, ge=1, le=MAX_CRAWL_BREADTH, strict=True)
    limit: int = Field(default=50, ge=1, le=MAX_CRAWL_PAGES, strict=True)
    select_paths: Patterns = ()
    exclude_paths: Patterns = ()
    select_domains: Patterns = ()
    exclude_domains: Patterns = ()
    allow_external: bool = Field(default=False, strict=True)
    instructions: str | None = Field(default=None, max_length=MAX_CRAWL_INSTRUCTION_CHARS)
    whole_pages: bool = Field(default=False, strict=True)
    timeout_s: float = Field(default=MAX_CRAWL_S, gt=0, le=MAX_CRAWL_S, allow_inf_nan=False)


class UnreadPage(BaseModel, frozen=True):
    """A page that could not be read, and why. `code` is the code of the error, empty for one that was not opened."""

    url: str
    error: str
    code: str = ""


class SiteCrawl(BaseModel, frozen=True):
    """The result of a crawl: the pages without their links, those that could not be read, and all addresses.

    - The pages are in the order in which they were found.
    - `stopped` says why there may be more pages; None if everything asked for was found.
    """

    base_url: str
    urls: tuple[str, ...]
    pages: tuple[LinkedPage, ...] = ()
    failed: tuple[UnreadPage, ...] = ()
    stopped: StopReason | None = None
