"""A page reader that a caller brings, which may raise and return anything."""

import logging
from typing import Any, Final

from modules.llm_platform.domain.concurrency.stray_cancellation import fail_on_stray_cancellation
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from shared.exceptions import AppException

log = logging.getLogger(__name__)

UNEXPECTED_ERROR: Final = "The page reader {name} raised an unexpected error: see the log"
NO_PAGE: Final = "read() returns a Page, and no {type}"


class CustomPageReader(IPageReader):
    """Raises a PageError instead of any other error, so that a run continues without the page. All else passes through."""

    def __init__(self, reader: IPageReader) -> None:
        self.name = reader.name
        self._own = reader
        if hasattr(reader, "ping"):  # IHealthProbe: since Python 3.12, isinstance only sees attributes of the object
            self.ping = reader.ping

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def prepare(self) -> None:
        await self._own.prepare()

    async def read(self, url: str) -> Page:
        try:
            with fail_on_stray_cancellation():
                page = await self._own.read(url)
            if not isinstance(page, Page):
                raise TypeError(NO_PAGE.format(type=type(page).__name__))
            return page
        except AppException:
            raise
        except Exception as error:
            log.exception("page not read", extra={"reader": self.name, "error": type(error).__name__})
            raise PageError(UNEXPECTED_ERROR.format(name=self.name)) from error
