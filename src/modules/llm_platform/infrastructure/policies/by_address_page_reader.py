"""Documents are read from their folder or from the index, everything else from the web."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError, PageError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.adapters.document_page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.addresses import SCHEME

NO_DOCUMENTS = "Documents need a folder or an index: set DOCUMENTS_DIR, give --documents DIR, or run `llm-platform index`"


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
                raise PageConfigError(NO_DOCUMENTS)
            return await self._web.read(url)
        if local:
            return await self._documents.read(url)
        if not self._documents.serves(url):
            return await self._web.read(url)
        try:
            return await self._documents.read(url)
        except PageError:
            return await self._web.read(url)
