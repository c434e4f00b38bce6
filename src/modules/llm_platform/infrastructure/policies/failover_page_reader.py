"""The next reader tries when one cannot read."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError, PageRequestError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from shared.exceptions import AppException

log = logging.getLogger(__name__)

NO_READER = "No page reader is configured: set READERS to jina, direct or both"


class FailoverPageReader(IPageReader):
    """Asks readers in order. An address that may not be read is refused by all of them and raised at once; when all
    fail, the last error is raised.
    """

    def __init__(self, readers: Sequence[IPageReader]) -> None:
        self.name = ",".join(reader.name for reader in readers)
        self._readers = tuple(readers)

    async def read(self, url: str) -> Page:
        last: AppException = PageConfigError(NO_READER)
        for reader in self._readers:
            try:
                return await reader.read(url)
            except PageRequestError:
                raise
            except AppException as error:
                log.warning("page reader failed", extra={"reader": reader.name, "error": error.code})
                last = error
        raise last
