"""A folder of documents as a search provider where the packages of the index are missing: by words alone, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchTimeoutError
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.lacking import lacking_of
from modules.llm_platform.infrastructure.documents.library import DocumentLibrary, Found
from modules.llm_platform.infrastructure.documents.reading import Document
from modules.llm_platform.infrastructure.documents.results import Quotable
from modules.llm_platform.infrastructure.documents.words import words_about

FIRST_LOOK_SECONDS: Final = 90.0  # reading a folder may take longer; it goes on, and the next search finds it read
PING_SECONDS: Final = 0.5  # a health check waits no longer for a folder that is being read

Result = TypeVar("Result")


class DocumentWebSearchAdapter(IWebSearchProvider):
    """Searches the files below `folder`, and reads again what has changed there.

    One hit for each document: `snippet` is a verbatim stretch of its text, the best passage and what adjoins it. Its
    URL is `doc:<path below the folder>`, or that path under `base_url`. Files that could not be read are named in
    `degraded`, and so is `note`.
    """

    name = "documents"

    def __init__(
        self,
        folder: Path,
        base_url: str | None = None,
        redactor: Redactor | None = None,
        *,
        timeout: float = FIRST_LOOK_SECONDS,
        library: DocumentLibrary | None = None,
        note: str = "",
    ) -> None:
        self._note = (Degraded(component=self.name, reason=note),) if note else ()
        self._library = library or DocumentLibrary(folder, redactor)
        self.addresses = DocumentAddresses(base_url, redactor)
        self._redactor = redactor or Redactor()
        self._timeout = timeout
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="documents")  # starts with the first search

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        lacking = tuple(lacking_of(request, self.name))
        language = detect(request.query) or request.language or "en"
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._in_thread(
                    lambda: self._library.search(request.query, language, request.count, request.page)
                )
        except TimeoutError as error:
            raise WebSearchTimeoutError(
                f"the documents are still being read ({self._library.documents} so far): try again in a moment"
            ) from error
        if not found.documents:
            raise WebSearchConfigError("the documents folder holds nothing that can be read")
        return self._answer(request, found, lacking)

    async def document(self, path: str) -> Document | str | None:
        """The document at a path below the folder as it is now; why it cannot be read; None where there is none.

        Raises WebSearchConfigError without a folder, TimeoutError while the folder is still being read.
        """
        async with asyncio.timeout(self._timeout):
            return await self._in_thread(lambda: self._library.document(path))

    async def ping(self) -> str:
        """How many documents can be searched. Raises WebSearchConfigError without a folder."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._in_thread(self._library.refresh)
        except TimeoutError:
            return f"{self._library.documents} documents so far, still reading"
        return f"{self._library.documents} documents"

    async def aclose(self) -> None:
        """Stop reading and let the thread end."""
        self._library.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        """Off the event loop. When cancelled, work that has begun goes on, so that a folder is read only once."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _answer(self, request: WebSearchRequest, found: Found, lacking: tuple[Degraded, ...]) -> WebSearchResponse:
        return WebSearchResponse(
            query=request.query,
            total_matches=None if found.more else (request.page - 1) * request.count + len(found.results),
            results=tuple(map(self._item, found.results)),
            provider=self.name,
            degraded=(*lacking, *self._note, *words_about(self.name, found.words, self._redactor)),
        )

    def _item(self, found: Quotable) -> WebSearchResultItem:
        return WebSearchResultItem(
            title=found.document.title,
            url=self.addresses.of(found.document.path),
            snippet=found.text,
            source=self.name,
            score=round(found.score, 4),
        )
