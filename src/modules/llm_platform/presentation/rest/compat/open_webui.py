"""Open WebUI's external web search and external web loader (docs/howto/use-existing-clients.md)."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from modules.llm_platform.domain.dtos.request_dtos import MAX_URLS
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_COUNT, WebSearchRequest
from modules.llm_platform.domain.research.long_message import SearchQuery
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.route_example import Example
from modules.llm_platform.presentation.rest.search_routes import search_web
from shared.exceptions import AppException

router = APIRouter(prefix="/open-webui", tags=["compatible"])


class OpenWebuiSearchRequest(dialect.DialectBody, frozen=True):
    """The request of Open WebUI to an external search engine."""

    query: SearchQuery
    count: int = Field(default=5, ge=1, le=MAX_COUNT, strict=True)


class OpenWebuiLoadRequest(dialect.DialectBody, frozen=True):
    """The request of Open WebUI to an external web loader."""

    urls: tuple[dialect.PageUrl, ...] = Field(min_length=1, max_length=MAX_URLS)


class OpenWebuiResult(BaseModel):
    """One search result."""

    link: str
    title: str
    snippet: str


class OpenWebuiDocument(BaseModel):
    """One loaded page. `metadata` has `source` and `title`, or `source` and `error` for a page that cannot be read."""

    page_content: str
    metadata: dict[str, str]


@router.post(
    "/search", **dialect.declare_route("Search, for Open WebUI", OpenWebuiSearchRequest, list[OpenWebuiResult])
)
async def search(request: Request) -> Response:
    body = await read_body(request, OpenWebuiSearchRequest)
    found = await search_web(request, WebSearchRequest(query=body.query, count=body.count))
    results = [{"link": item.url, "title": item.title, "snippet": item.text} for item in found.results[: body.count]]
    return dialect.make_json_answer(results, body)


@router.post(
    "/load", **dialect.declare_route("Read pages, for Open WebUI", OpenWebuiLoadRequest, list[OpenWebuiDocument])
)
async def load(request: Request) -> Response:
    body = await read_body(request, OpenWebuiLoadRequest)
    read = await dialect.read_pages(request, body.urls)
    documents: list[dict[str, Any]] = []
    for url, page in read.items():
        if isinstance(page, AppException):
            documents.append({"page_content": "", "metadata": {"source": url, "error": page.message}})
        else:
            documents.append({"page_content": page.text, "metadata": {"source": page.url, "title": page.title}})
    return dialect.make_json_answer(documents, body)


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, {**problem, "detail": dialect.format_message(problem)}


DIALECT: Final = dialect.Dialect(
    prefix="/open-webui",
    clients="Open WebUI: external web search and external web loader",
    routers=(router,),
    format_error=_format_error,
    examples={
        "post /open-webui/search": Example(
            [{"link": "https://example.org/tea", "title": "Tea", "snippet": "Tea is a drink."}],
            {"query": "What is tea?", "count": 3},
        ),
        "post /open-webui/load": Example(
            [{"page_content": "Tea is a drink.", "metadata": {"source": "https://example.org/tea", "title": "Tea"}}],
            {"urls": ["https://example.org/tea"]},
        ),
    },
    read_paths={"/open-webui/load", "/open-webui/search"},
)
