"""Open WebUI's external web search and external web loader (docs/howto/use-existing-clients.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import MAX_URLS
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_COUNT, Query, WebSearchRequest
from modules.llm_platform.presentation.rest.compat.dialect import (
    JSON,
    Dialect,
    Example,
    PageUrl,
    error_responses,
    read_pages,
    report_ignored,
    search_web,
)
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.openapi import body_of
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES
from shared.exceptions import AppException

router = APIRouter(prefix="/open-webui", tags=["compatible"])


class OpenWebuiSearchRequest(BaseModel):
    """What Open WebUI sends to an external search engine."""

    model_config = ConfigDict(extra="allow", frozen=True)

    query: Query
    count: int = Field(default=5, ge=1, le=MAX_COUNT, strict=True)


class OpenWebuiLoadRequest(BaseModel):
    """What Open WebUI sends to an external web loader."""

    model_config = ConfigDict(extra="allow", frozen=True)

    urls: tuple[PageUrl, ...] = Field(min_length=1, max_length=MAX_URLS)


class OpenWebuiResult(BaseModel):
    """One search result."""

    link: str
    title: str
    snippet: str


class OpenWebuiDocument(BaseModel):
    """One loaded page. `metadata` contains `source` and `title`; for a page that cannot be read, `source` and `error`."""

    page_content: str
    metadata: dict[str, str]


@router.post(
    "/search",
    summary="Search, for Open WebUI",
    response_model=list[OpenWebuiResult],
    responses=error_responses(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=body_of(OpenWebuiSearchRequest),
)
async def search(request: Request) -> Response:
    body = await read_body(request, OpenWebuiSearchRequest)
    found = await search_web(request, WebSearchRequest(query=body.query, count=body.count))
    results = [{"link": item.url, "title": item.title, "snippet": item.text} for item in found.results[: body.count]]
    return report_ignored(Response(to_json(results), media_type=JSON), body)


@router.post(
    "/load",
    summary="Read pages, for Open WebUI",
    response_model=list[OpenWebuiDocument],
    responses=error_responses(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=body_of(OpenWebuiLoadRequest),
)
async def load(request: Request) -> Response:
    body = await read_body(request, OpenWebuiLoadRequest)
    read = await read_pages(request, body.urls)
    documents = [_document(url, page) for url, page in read.items()]
    return report_ignored(Response(to_json(documents), media_type=JSON), body)


def _document(url: str, page: Page | AppException) -> dict[str, Any]:
    if isinstance(page, AppException):
        return {"page_content": "", "metadata": {"source": url, "error": page.message}}
    return {"page_content": page.text, "metadata": {"source": page.url, "title": page.title}}


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, {"detail": problem["detail"], **problem}


DIALECT: Final = Dialect(
    prefix="/open-webui",
    router=router,
    bodies=(OpenWebuiSearchRequest, OpenWebuiLoadRequest),
    examples={
        ("post", "/open-webui/search"): Example(
            [{"link": "https://example.org/tea", "title": "Tea", "snippet": "Tea is a drink."}],
            {"query": "What is tea?", "count": 3},
        ),
        ("post", "/open-webui/load"): Example(
            [{"page_content": "Tea is a drink.", "metadata": {"source": "https://example.org/tea", "title": "Tea"}}],
            {"urls": ["https://example.org/tea"]},
        ),
    },
    format_error=_format_error,
)
