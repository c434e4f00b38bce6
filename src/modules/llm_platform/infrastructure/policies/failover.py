"""Failover: the next search provider or page reader is called when one fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    PageConfigError,
    PageRequestError,
    WebSearchConfigError,
    WebSearchRequestError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

log = logging.getLogger(__name__)

NO_PROVIDER = "No search provider is configured: set SEARXNG_URL, BOCHA_API_KEY or DOCUMENTS_DIR"
NO_READER = "No page reader is configured: set READERS to jina, direct or both"


class FailoverWebSearch(IWebSearchProvider):
    """Calls the providers in order until one answers; `degraded` of the answer lists the errors of the earlier ones.

    "Nothing found" is an answer. A WebSearchRequestError is raised at once, because the request is wrong for every
    provider. When all fail, the last error is raised.
    """

    def __init__(self, providers: Sequence[IWebSearchProvider]) -> None:
        self.name = ",".join(provider.name for provider in providers)
        self._providers = tuple(providers)

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        last_error: AppException = WebSearchConfigError(NO_PROVIDER)
        degraded: list[Degraded] = []
        for provider in self._providers:
            try:
                answer = await provider.search(request)
            except WebSearchRequestError:
                raise
            except AppException as error:
                log.warning("search provider failed", extra={"provider": provider.name, "error": error.code})
                degraded.append(Degraded.of(provider.name, error))
                last_error = error
            else:
                return answer.with_degraded(degraded)
        raise last_error


class FailoverPageReader(IPageReader):
    """Calls the readers in order until one returns the page.

    A PageRequestError is raised at once, because no reader may read that address. When all fail, the last error is raised.
    """

    def __init__(self, readers: Sequence[IPageReader]) -> None:
        self.name = ",".join(reader.name for reader in readers)
        self._readers = tuple(readers)

    async def read(self, url: str) -> Page:
        last_error: AppException = PageConfigError(NO_READER)
        for reader in self._readers:
            try:
                return await reader.read(url)
            except PageRequestError:
                raise
            except AppException as error:
                log.warning("page reader failed", extra={"reader": reader.name, "error": error.code})
                last_error = error
        raise last_error
