"""The common part of the routes of Firecrawl's API: paths of both versions, formats, and a page as a document."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StrictBool

from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.exceptions import PageTimeoutError
from modules.llm_platform.presentation.rest.compat import dialect

# The Python client of version 2 drops the path of its address, and so asks for /v2 at the root.
PREFIXES: Final = {"v1": ("/firecrawl/v1",), "v2": ("/firecrawl/v2", "/v2")}
MARKDOWN, LINKS = "markdown", "links"
HTML: Final = frozenset({"html", "rawHtml"})
MAX_FORMATS: Final = 20
MAX_TIMEOUT_MS: Final = 300_000
NO_HTML: Final = "is not served: pages are kept as text, without their HTML. Ask for markdown or links"
NOT_SERVED: Final = "is not served: ask for markdown or links"

Result = TypeVar("Result")
Route = Callable[[Request], Awaitable[Response]]


def get_type(value: object) -> object:
    """Return the name of a format or a source, which version 2 may send as an object with its options."""
    return value.get("type") if isinstance(value, dict) else value


def _require_served_format(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse formats if none of them is served. Clients ask for HTML beside Markdown, and do without it."""
    if formats and not {MARKDOWN, LINKS}.intersection(formats):
        raise ValueError(NO_HTML if HTML.intersection(formats) else NOT_SERVED)
    return formats


Formats = Annotated[
    tuple[Annotated[str, Field(max_length=50), BeforeValidator(get_type)], ...],
    Field(max_length=MAX_FORMATS),
    AfterValidator(_require_served_format),
]


class FirecrawlOptions(dialect.DialectBody, frozen=True):
    """Options for reading a page. If `onlyMainContent` is false, the result has all visible text."""

    formats: Formats | None = None
    onlyMainContent: StrictBool | None = None  # noqa: N815  the vendor's name
    timeout: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS, strict=True)

    @property
    def wanted(self) -> frozenset[str]:
        return frozenset(self.formats or (MARKDOWN,))

    @property
    def partly_served(self) -> tuple[str, ...]:
        return ("formats",) if self.wanted - {MARKDOWN, LINKS} else ()

    @property
    def is_whole(self) -> bool:
        return self.onlyMainContent is False

    @property
    def warning(self) -> str | None:
        unserved = sorted(HTML & self.wanted)
        return f"{unserved[0]} {NO_HTML}." if unserved else None


class FirecrawlDocument(BaseModel, extra="allow"):
    """A page with `markdown`, with `links` on request, and with its addresses, title and type as `metadata`."""

    metadata: dict[str, Any]


def build_document(
    page: Page, options: FirecrawlOptions, sent_url: str, links: Sequence[PageLink] = ()
) -> dict[str, Any]:
    metadata = {
        "title": page.title,
        "url": page.url,
        "sourceURL": sent_url,
        "statusCode": 200,
        "contentType": page.media_type,
        "publishedTime": page.published,
    }
    document: dict[str, Any] = {"metadata": {name: value for name, value in metadata.items() if value is not None}}
    if MARKDOWN in options.wanted:
        document[MARKDOWN] = page.text
    if LINKS in options.wanted:
        document[LINKS] = list(dict.fromkeys(link.url for link in links))
    if warnings := [text for text in (options.warning, page.warning) if text]:
        document["warning"] = " ".join(warnings)
    return document


async def wait_within(timeout_ms: int | None, work: Awaitable[Result]) -> Result:
    """Return the result of the work. Raises PageTimeoutError after the `timeout` of the request."""
    try:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            return await work
    except TimeoutError as error:
        raise PageTimeoutError("The page was not read within the `timeout` of the request") from error


def add_post(
    router: APIRouter, path: str, summary: str, routes: Mapping[str, tuple[type[BaseModel], Any, Route]]
) -> None:
    """Add a route to both versions: for each its request, its answer, and the function."""
    for version, prefixes in PREFIXES.items():
        body, answer, route = routes[version]
        for prefix in prefixes:
            router.add_api_route(
                f"{prefix}{path}",
                route,
                methods=["POST"],
                include_in_schema=prefix != "/v2",
                **dialect.declare_route(summary, body, answer, dialect.ERROR_STATUSES_400),
            )
