"""Reads pages, and logs each read without its address."""

import logging
import time
from collections.abc import Callable

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.untrusted.untrusted_text import remove_controls
from shared.exceptions import AppException

log = logging.getLogger(__name__)


class PageService(IPageReader):
    """Reads pages with the configured readers and logs each read, without the address: it may reveal a question.

    It is an IPageReader itself: the stages read through the port and are logged in the same way.
    """

    def __init__(self, reader: IPageReader, clock: Callable[[], float] = time.perf_counter) -> None:
        self.name = reader.name
        self._reader = reader
        self._clock = clock

    async def read(self, url: str) -> Page:
        """Return the page. Raises only the page errors of `domain.exceptions`."""
        began = self._clock()
        try:
            page = await self._reader.read(url)
        except AppException as error:
            log.warning("page not read", extra={"error": error.code, "duration_ms": self._measure_ms(began)})
            raise
        log.info(
            "page read",
            extra={"reader": page.reader, "duration_ms": self._measure_ms(began), "chars": len(page.text)},
        )
        title = remove_controls(page.title)
        return page if title == page.title else page.model_copy(update={"title": title})

    def _measure_ms(self, began: float) -> float:
        return round((self._clock() - began) * 1000, 1)
