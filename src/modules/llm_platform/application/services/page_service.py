"""Reading pages for other modules and for the doors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.ports.page_reader import IPageReader
from shared.exceptions import AppException

log = logging.getLogger(__name__)


class PageService:
    """Asks the configured readers, and tells the log how it went. An address may say what somebody looks for: it is not
    logged.
    """

    def __init__(self, reader: IPageReader, clock: Callable[[], float] = time.perf_counter) -> None:
        self._reader = reader
        self._clock = clock

    async def read(self, url: str) -> Page:
        """The page. Raises the page errors of `domain.exceptions` and nothing else."""
        began = self._clock()
        try:
            page = await self._reader.read(url)
        except AppException as error:
            log.warning("page not read", extra={"error": error.code, "duration_ms": self._ms_since(began)})
            raise
        told = {"reader": page.reader, "duration_ms": self._ms_since(began), "chars": len(page.text)}
        log.info("page read", extra=told)
        return page

    def _ms_since(self, began: float) -> float:
        return round((self._clock() - began) * 1000, 1)
