"""Use the files of a request as sources of its run: search them, read them, and forget them when the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.application.research.find.search import fuse_answers
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.uploaded_file_dtos import UploadedFile
from modules.llm_platform.domain.dtos.web_search_dtos import (
    DOCUMENTS,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.search.request_count import RequestCount, count_requests
from shared.exceptions import AppException

FILES: Final = "files"  # the component name in `degraded`
NO_FIT: Final = "no passage of the files matches the question, so their beginnings are used"


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """The files of a request, ready to be searched and read.

    - `search` finds passages, and `beginnings` returns the beginning of each file.
    - `reader` returns the whole text of a file by its address in `urls`.
    """

    search: IWebSearchProvider
    beginnings: Callable[[], Awaitable[tuple[WebSearchResultItem, ...]]]
    reader: IPageReader
    urls: Collection[str]


# Opens files for the time of a run. Raises UploadedFileError, which names the first file that cannot be read.
OpenFiles = Callable[[Sequence[UploadedFile]], AbstractAsyncContextManager[OpenedFiles]]


class FilesSearch(IWebSearchProvider):
    """Searches the files, and with `others` the other sources too.

    - Without `others`, and if no passage fits the question (`Summarise this`), the beginnings of the files are the result.
    - If one of the two searches fails, `degraded` says so. If both fail, the error of `others` is raised.
    - A document of the operator with the address of a file is left out.
    """

    def __init__(self, files: OpenedFiles, others: IWebSearchProvider | None) -> None:
        self.name = files.search.name
        self._files = files
        self._others = others

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        if self._others is None:
            return await self._search_files_alone(request)
        searches = (self._search_files(request), self._search_others(request, self._others))
        outcomes = await asyncio.gather(*searches, return_exceptions=True)
        answers: list[WebSearchResponse] = []
        failures: list[Degraded] = []
        for name, outcome in zip((FILES, self._others.name), outcomes, strict=True):
            if isinstance(outcome, WebSearchResponse):
                answers.append(outcome)
            elif isinstance(outcome, AppException) and not isinstance(outcome, WebSearchRequestError):
                failures.append(Degraded.of(name, outcome))
            else:
                raise outcome  # the caller's mistake, or a defect
        if not answers and isinstance(outcomes[1], AppException):
            raise outcomes[1]
        return fuse_answers(request, answers).with_degraded(failures)

    async def _search_files_alone(self, request: WebSearchRequest) -> WebSearchResponse:
        answer = await self._search_files(request)
        if answer.results:
            return answer
        beginnings = {"results": await self._files.beginnings()}
        return answer.model_copy(update=beginnings).with_degraded([Degraded(component=FILES, reason=NO_FIT)])

    async def _search_files(self, request: WebSearchRequest) -> WebSearchResponse:
        count_requests(1)
        return await self._files.search.search(request.with_(sources=(DOCUMENTS,)))

    async def _search_others(self, request: WebSearchRequest, others: IWebSearchProvider) -> WebSearchResponse:
        """Search the other sources, without results that have the address of a file."""
        count = RequestCount()
        try:
            answer = await count.search(others, request)
        finally:
            count_requests(count.requests)
        results = tuple(item for item in answer.results if item.url not in self._files.urls)
        return answer.model_copy(update={"results": results})


class FilesReader(IPageReader):
    """Reads the files whole, and all other addresses with `others`."""

    def __init__(self, files: OpenedFiles, others: IPageReader) -> None:
        self.name = others.name
        self._files = files
        self._others = others

    async def prepare(self) -> None:
        await self._others.prepare()

    async def read(self, url: str) -> Page:
        return await (self._files.reader if url in self._files.urls else self._others).read(url)
