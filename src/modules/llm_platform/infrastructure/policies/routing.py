"""Documents are asked for documents, the web for the rest, and both side by side when both are wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.application.research.search import fuse_results
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
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

DOCUMENTS: Final = "documents"
NO_DOCUMENTS_TO_SEARCH = "Documents are not configured: set DOCUMENTS_DIR to a folder of documents"


class BySourceWebSearch(IWebSearchProvider):
    """Sends a request where its source kinds are served.

    Where only one of the two is configured, documents serve `web` as well, while the web cannot serve `documents`:
    alone that is a config error, together with others it is named in `degraded`.
    """

    def __init__(self, web: IWebSearchProvider | None, documents: IWebSearchProvider | None) -> None:
        self.name = ",".join(provider.name for provider in (web, documents) if provider is not None)
        self._web = web
        self._documents = documents

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        kinds = tuple(kind for kind in request.sources if kind != DOCUMENTS)
        if DOCUMENTS not in request.sources or self._web is None:
            return await self._either(request)
        if not kinds:
            return await self._only_documents(request)
        if self._documents is None:
            answer = await self._web.search(request.with_(sources=kinds))
            return answer.with_degraded([Degraded(component=DOCUMENTS, reason=NO_DOCUMENTS_TO_SEARCH)])
        return await _both(request, self._web, request.with_(sources=kinds), self._documents)

    async def _either(self, request: WebSearchRequest) -> WebSearchResponse:
        provider = self._web or self._documents
        if provider is None:
            raise WebSearchConfigError(NO_PROVIDER)
        return await provider.search(request)

    async def _only_documents(self, request: WebSearchRequest) -> WebSearchResponse:
        if self._documents is None:
            raise WebSearchConfigError(NO_DOCUMENTS_TO_SEARCH)
        return await self._documents.search(request)


async def _both(
    request: WebSearchRequest, web: IWebSearchProvider, for_web: WebSearchRequest, documents: IWebSearchProvider
) -> WebSearchResponse:
    """One answer from two providers asked at the same time; one that fails stands in `degraded`."""
    outcomes = await asyncio.gather(
        web.search(for_web), documents.search(request.with_(sources=(DOCUMENTS,))), return_exceptions=True
    )
    answers: list[WebSearchResponse] = []
    degraded: list[Degraded] = []
    last: AppException | None = None
    for provider, outcome in zip((web, documents), outcomes, strict=True):
        if isinstance(outcome, WebSearchResponse):
            answers.append(outcome)
        elif isinstance(outcome, AppException) and not isinstance(outcome, WebSearchRequestError):
            degraded.append(Degraded.of(provider.name, outcome))
            last = last or outcome  # that of the web says more about the question than that of a folder
        else:
            raise outcome  # the caller's mistake, or a defect
    if not answers and last is not None:
        raise last
    return _fused(request, answers).with_degraded(degraded)


def _fused(request: WebSearchRequest, answers: Sequence[WebSearchResponse]) -> WebSearchResponse:
    first = answers[0]
    return WebSearchResponse(
        query=request.query,
        results=tuple(fuse_results(answers, request.count)),
        provider="+".join(
            dict.fromkeys(answer.provider for answer in answers)
        ),  # one, where the web failed over to documents
        degraded=tuple(entry for answer in answers for entry in answer.degraded),
        correction=first.correction,
        suggestions=first.suggestions,
        cached=all(answer.cached for answer in answers),
        raw=first.raw if len(answers) == 1 else None,
    )


# Documents are read from their folder or from the index, everything else from the web.


NO_DOCUMENTS_TO_READ = (
    "Documents need a folder or an index: set DOCUMENTS_DIR, give --documents DIR, or run `llm-platform index`"
)


class ByAddressPageReader(IPageReader):
    """The address decides. A `doc:` address never reaches the web; what is below DOCUMENTS_BASE_URL but not in the folder
    does, since a site may hold more than the folder that it was made from. Of the index, addresses on the web that a search
    has shown are read there.
    """

    def __init__(self, documents: DocumentPageReader | None, web: IPageReader) -> None:
        self.name = web.name if documents is None else f"{documents.name},{web.name}"
        self._documents = documents
        self._web = web

    async def read(self, url: str) -> Page:
        local = url.startswith(SCHEME)
        if self._documents is None:
            if local:
                raise PageConfigError(NO_DOCUMENTS_TO_READ)
            return await self._web.read(url)
        if local:
            return await self._documents.read(url)
        if not self._documents.serves(url):
            return await self._web.read(url)
        try:
            return await self._documents.read(url)
        except PageError:
            return await self._web.read(url)
