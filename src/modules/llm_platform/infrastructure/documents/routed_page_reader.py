"""Reads the addresses of documents from the documents, and all others from the web."""

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError, PageError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.documents.addresses import SCHEME
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader


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
                raise PageConfigError(
                    "Documents need a folder or an index: set DOCUMENTS_DIR, give --documents DIR, or run `llm-platform index`"
                )
            return await self._documents.read(url)
        if self._documents is not None and self._documents.serves(url):
            try:
                return await self._documents.read(url)
            except PageError:
                pass  # read from the web
        return await self._web.read(url)
