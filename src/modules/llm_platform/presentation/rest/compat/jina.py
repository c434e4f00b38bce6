"""Jina's reader and search below a prefix: `/jina/https://…` for r.jina.ai, `/jina/search` for s.jina.ai.

References of the vendor: https://jina.ai/reader and https://github.com/jina-ai/reader
"""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.site_crawl_dtos import StartUrl
from modules.llm_platform.domain.research.long_message import LongQuery, find_question
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.body import read_body, validate
from modules.llm_platform.presentation.rest.http.openapi import describe_body, describe_query
from modules.llm_platform.presentation.rest.http.problems import UPSTREAM_STATUSES, InvalidRequestError, NotFoundError
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.rest.http.route_example import Example
from modules.llm_platform.presentation.rest.search_routes import search_web
from shared.exceptions import AppException

router = APIRouter(prefix="/jina", tags=["compatible"])

TEXT_FORMATS: Final = frozenset(
    {"markdown", "text", "content"}
)  # These have the text alone, without title and address.
NO_CONTENT: Final = "no-content"  # The format of a search whose results come without their pages.
LABELS: Final = {
    "title": "Title",
    "url": "URL Source",
    "description": "Description",
    "date": "Date",
    "warning": "Warning",
}
JINA_RESULTS: Final = 20  # The vendor's limit.
MAX_FIELDS: Final = 50  # A form with more fields is refused.

_MERGED_SLASHES = re.compile(r"(https?):/+(?=[^/])", re.IGNORECASE)  # Proxies merge the two slashes into one.


class JinaReadRequest(dialect.DialectBody, frozen=True):
    """The page to read. A fragment of its address changes nothing."""

    url: StartUrl


class JinaSearchRequest(dialect.StringValuesBody, frozen=True):
    """A search. `num` is another name of `count`. `site` restricts the search to sites."""

    q: LongQuery
    count: int | None = Field(default=None, ge=1, le=JINA_RESULTS, strict=True)
    num: int | None = Field(default=None, ge=1, le=JINA_RESULTS, strict=True)
    page: int = Field(default=1, ge=1, le=dtos.MAX_PAGE, strict=True)
    site: dialect.Sites | None = None

    @property
    def search(self) -> dtos.WebSearchRequest:
        count = self.count or self.num or 5
        return dtos.WebSearchRequest(query=find_question(self.q), count=count, page=self.page, domains=self.site or ())


class JinaPage(BaseModel):
    """A page, for `Accept: application/json`."""

    code: int
    status: int
    data: dict[str, Any]


class JinaPages(BaseModel):
    """The results of a search, best first, for `Accept: application/json`."""

    code: int
    status: int
    data: list[dict[str, Any]]


PLAIN: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
SEARCH: Final = describe_query(
    q=({"type": "string", "minLength": 1}, True, "The query."),
    count=(
        {"type": "integer", "minimum": 1, "maximum": JINA_RESULTS, "default": 5},
        False,
        "Results; `num` is the same.",
    ),
    page=({"type": "integer", "minimum": 1, "maximum": dtos.MAX_PAGE, "default": 1}, False, "Page of the results."),
    site=({"type": "string"}, False, "Only this site; may be repeated."),
)


@router.get("/search/", include_in_schema=False)
@router.get(
    "/search",
    summary="Search and read the pages, for clients of Jina",
    response_model=JinaPages,
    responses={**PLAIN, **dialect.declare_errors(400, *UPSTREAM_STATUSES)},
    openapi_extra=SEARCH,
)
async def search(request: Request) -> Response:
    return await _search(request, validate(JinaSearchRequest, _from_query(request.query_params), "query"))


@router.get("/search/{query:path}", include_in_schema=False)
async def search_by_path(request: Request, query: str) -> Response:
    """Search as `https://s.jina.ai/QUERY` does."""
    values = {**_from_query(request.query_params), "q": query}
    return await _search(request, validate(JinaSearchRequest, values, "query"))


@router.post("/search/", include_in_schema=False)
@router.post(
    "/search",
    summary="Search and read the pages, for clients of Jina",
    response_model=JinaPages,
    responses={**PLAIN, **dialect.declare_errors(*dialect.ERROR_STATUSES_400)},
    openapi_extra=describe_body(JinaSearchRequest),
)
async def search_by_body(request: Request) -> Response:
    return await _search(request, await read_body(request, JinaSearchRequest))


@router.post("/", include_in_schema=False)
@router.post(
    "",
    summary="Read a page, for clients of Jina",
    response_model=JinaPage,
    responses={**PLAIN, **dialect.declare_errors(*dialect.ERROR_STATUSES_400, 422)},
    openapi_extra=describe_body(JinaReadRequest),
)
async def read_by_body(request: Request) -> Response:
    """Read the address in the body. Unlike one in a path, it can have a fragment."""
    return await _read(request, await read_body(request, JinaReadRequest, _from_form))


@router.get(
    "/{url:path}",
    summary="Read a page, for clients of Jina",
    response_model=JinaPage,
    responses={**PLAIN, **dialect.declare_errors(400, 404, 422, *UPSTREAM_STATUSES)},
)
async def read(request: Request, url: str) -> Response:
    """Read the address below the prefix. Without a scheme, its host must have a dot: other paths are not routes."""
    sent = _get_sent_url(request)
    if sent and "://" not in sent and "." not in sent.partition("/")[0]:
        raise NotFoundError.of(request.scope)
    return await _read(request, validate(JinaReadRequest, {"url": sent}, "path"))


def _get_sent_url(request: Request) -> str:
    """Return the address below the prefix as it was sent, with its query and its percent-encoded characters."""
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    url: str = path.decode("latin-1").partition("/jina/")[2]
    if not url.lower().startswith(("http:", "https:")) and url.lower().startswith(("http%3a", "https%3a")):
        url = request.path_params["url"]  # The whole address was percent-encoded.
    query = request.scope["query_string"].decode("latin-1")
    return _MERGED_SLASHES.sub(r"\1://", f"{url}?{query}" if query else url, count=1)


def _from_form(body: bytes) -> dict[str, Any]:
    return dict(parse_qsl(body.decode(errors="replace"), max_num_fields=MAX_FIELDS))


def _from_query(params: QueryParams) -> dict[str, Any]:
    values: dict[str, Any] = {name: params[name] for name in ("q", "count", "num", "page") if name in params}
    return values | ({"site": params.getlist("site")} if "site" in params else {})


async def _read(request: Request, body: JinaReadRequest) -> Response:
    wanted = _format(request)
    async with dialect.reading(request):
        page = await get_services(request).pages.read(body.url)
    if _wants_json(request):
        data = {"title": page.title, "description": "", "url": page.url, **_make_content(page)}
        data |= {"publishedTime": page.published} if page.published else {}
        data |= {"warning": page.warning} if page.warning else {}
        return dialect.make_json_answer({"code": 200, "status": 20000, "data": data}, body)
    text = page.text
    if not wanted:
        lines = [f"Title: {page.title}", f"URL Source: {page.url}"]
        lines += [f"Published Time: {page.published}"] if page.published else []
        lines += [f"Warning: {page.warning}"] if page.warning else []
        text = "\n\n".join([*lines, f"Markdown Content:\n{page.text}"])
    return dialect.report_ignored(PlainTextResponse(text), body)


async def _search(request: Request, body: JinaSearchRequest) -> Response:
    wanted = _format(request, NO_CONTENT)
    found = (await search_web(request, body.search)).results[: body.search.count]
    results: list[dict[str, Any]] = [
        {"title": item.title, "url": item.url, "description": item.text}
        | ({"date": item.published_date} if item.published_date else {})
        for item in found
    ]
    if wanted != NO_CONTENT:
        read = await dialect.read_pages(request, [result["url"] for result in results])
        for result in results:
            page = read[result["url"]]
            result |= (
                {"content": "", "warning": page.message} if isinstance(page, AppException) else _make_content(page)
            )
    if _wants_json(request):
        return dialect.make_json_answer({"code": 200, "status": 20000, "data": results}, body)
    return dialect.report_ignored(PlainTextResponse(_as_text(results)), body)


def _format(request: Request, *more: str) -> str:
    """Return the format that the headers ask for, or an empty text. Raises InvalidRequestError that names the header."""
    headers = request.scope[HEADERS]
    for name in (b"x-respond-with", b"x-return-format"):
        wanted: str = headers.get(name, b"").decode("latin-1").strip().lower()
        if wanted and wanted not in TEXT_FORMATS.union(more):
            raise InvalidRequestError.at(
                ("header", name.decode()),
                "must be markdown, text, content or, of a search, no-content: pages are kept as text, without their HTML",
            )
        if wanted:
            return wanted
    return ""


def _wants_json(request: Request) -> bool:
    return dialect.JSON in request.scope[HEADERS].get(b"accept", b"").decode("latin-1").lower()


def _make_content(page: Page) -> dict[str, Any]:
    return {"content": page.text, "usage": {"tokens": count_tokens(page.text)}}


def _as_text(results: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for number, result in enumerate(results, 1):
        lines = [f"[{number}] {label}: {result[name]}" for name, label in LABELS.items() if result.get(name)]
        lines += [f"[{number}] Markdown Content:\n{result['content']}"] if result.get("content") else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    # The vendor answers with 422 for a page that cannot be read, and with 400 for an invalid request.
    is_unreadable = isinstance(error, exceptions.PageError | exceptions.PageBlockedError)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if is_unreadable else dialect.choose_status_400(error)
    message = dialect.format_message(problem)
    content = {"data": None, "code": status, "name": problem["code"], "status": status * 100, "message": message}
    return status, {**content, "readableMessage": message}


_PAGE: Final = {
    "title": "Tea",
    "description": "",
    "url": "https://example.org/tea",
    "content": "Tea is a drink.",
    "usage": {"tokens": 5},
}
_READ: Final = {"code": 200, "status": 20000, "data": _PAGE}
_READ_TEXT: Final = "Title: Tea\n\nURL Source: https://example.org/tea\n\nMarkdown Content:\nTea is a drink."
_FOUND: Final = {"code": 200, "status": 20000, "data": [_PAGE]}
_FOUND_TEXT: Final = "[1] Title: Tea\n[1] URL Source: https://example.org/tea\n[1] Markdown Content:\nTea is a drink.\n"

DIALECT: Final = dialect.Dialect(
    prefix="/jina",
    clients="clients of Jina: `http://localhost:8000/jina/https://example.org` for r.jina.ai, "
    "`http://localhost:8000/jina/search` for s.jina.ai",
    routers=(router,),
    format_error=_format_error,
    examples={
        "get /jina/{url}": Example(_READ, parameters={"url": "https://example.org/tea"}, text=_READ_TEXT),
        "post /jina": Example(_READ, {"url": "https://example.org/tea"}, text=_READ_TEXT),
        "get /jina/search": Example(_FOUND, parameters={"q": "What is tea?", "count": 3}, text=_FOUND_TEXT),
        "post /jina/search": Example(
            _FOUND, {"q": "What is tea?", "count": 3, "site": ["example.org"]}, text=_FOUND_TEXT
        ),
    },
    read_paths={"/jina", "/jina/", "/jina/search", "/jina/search/"},
)
