"""Routing between documents and the web: searches by source kind, reads by address."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from modules.llm_platform.application.research.search import fuse_results
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    PageConfigError,
    PageError,
    WebSearchConfigError,
    WebSearchRequestError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.adapters.document_page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.addresses import SCHEME
from modules.llm_platform.infrastructure.policies.failover import NO_PROVIDER
from shared.exceptions import AppException

NO_DOCUMENTS_TO_SEARCH = "Documents are not configured: set DOCUMENTS_DIR to a folder of documents"
NO_DOCUMENTS_TO_READ = (
    "Documents need a folder or an index: set DOCUMENTS_DIR, give --documents DIR, or run `llm-platform index`"
)


class RoutedWebSearch(IWebSearchProvider):
    """Sends a request to the web, to the documents, or to both at the same time, by its source kinds.

    With documents only, they also serve `web`. With the web only, `documents` alone is a config error, and together with
    other kinds it is reported in `degraded`.
    """

    def __init__(self, web: IWebSearchProvider | None, documents: IWebSearchProvider | None) -> None:
        self.name = ",".join(provider.name for provider in (web, documents) if provider is not None)
        self._web = web
        self._documents = documents

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        web_kinds = tuple(kind for kind in request.sources if kind != DOCUMENTS)
        if DOCUMENTS not in request.sources or self._web is None:
            provider = self._web or self._documents
            if provider is None:
                raise WebSearchConfigError(NO_PROVIDER)
            return await provider.search(request)
        if not web_kinds:
            if self._documents is None:
                raise WebSearchConfigError(NO_DOCUMENTS_TO_SEARCH)
            return await self._documents.search(request)
        web_request = request.with_(sources=web_kinds)
        if self._documents is None:
            answer = await self._web.search(web_request)
            return answer.with_degraded([Degraded(component=DOCUMENTS, reason=NO_DOCUMENTS_TO_SEARCH)])
        return await _search_both(request, self._web, web_request, self._documents)


async def _search_both(
    request: WebSearchRequest, web: IWebSearchProvider, web_request: WebSearchRequest, documents: IWebSearchProvider
) -> WebSearchResponse:
    """One answer from both providers. A failed one is listed in `degraded`; when both fail, the error of the web is raised,
    which says more about the question than that of a folder."""
    outcomes = await asyncio.gather(
        web.search(web_request), documents.search(request.with_(sources=(DOCUMENTS,))), return_exceptions=True
    )
    answers: list[WebSearchResponse] = []
    failures: list[tuple[IWebSearchProvider, AppException]] = []
    for provider, outcome in zip((web, documents), outcomes, strict=True):
        if isinstance(outcome, WebSearchResponse):
            answers.append(outcome)
        elif isinstance(outcome, AppException) and not isinstance(outcome, WebSearchRequestError):
            failures.append((provider, outcome))
        else:
            raise outcome  # the caller's mistake, or a defect
    if not answers:
        raise failures[0][1]
    return _fused(request, answers).with_degraded([Degraded.of(each.name, error) for each, error in failures])


def _fused(request: WebSearchRequest, answers: Sequence[WebSearchResponse]) -> WebSearchResponse:
    first = answers[0]
    return WebSearchResponse(
        query=request.query,
        results=tuple(fuse_results(answers, request.count)),
        provider="+".join(dict.fromkeys(answer.provider for answer in answers)),  # the web may fail over to documents
        degraded=tuple(entry for answer in answers for entry in answer.degraded),
        correction=first.correction,
        suggestions=first.suggestions,
        cached=all(answer.cached for answer in answers),
        raw=first.raw if len(answers) == 1 else None,
    )


class RoutedPageReader(IPageReader):
    """Reads `doc:` addresses from the documents only, other addresses of documents from there first, the rest from the web.

    An address below DOCUMENTS_BASE_URL that is missing in the folder is read from the web, because a site may hold more
    than the folder that it was made from.
    """

    def __init__(self, documents: DocumentPageReader | None, web: IPageReader) -> None:
        self.name = web.name if documents is None else f"{documents.name},{web.name}"
        self._documents = documents
        self._web = web

    async def read(self, url: str) -> Page:
        if url.startswith(SCHEME):
            if self._documents is None:
                raise PageConfigError(NO_DOCUMENTS_TO_READ)
            return await self._documents.read(url)
        if self._documents is not None and self._documents.serves(url):
            try:
                return await self._documents.read(url)
            except PageError:
                pass  # read from the web
        return await self._web.read(url)
