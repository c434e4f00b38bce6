"""No more reads a second than a service allows, and none while it asked to be left alone."""

from __future__ import annotations

from typing import Final

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageBlockedError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.policies.pace import Busy, Pace
from shared.exceptions import AppException

LONGEST_WAIT_S: Final = 10.0  # beyond it the next reader is quicker

BUSY = "The page reader may not be asked more often: it is busy for the next {seconds:.0f} s"


class ThrottledPageReader(IPageReader):
    """Reads at the pace of its service. Who would wait longer than `longest_wait_s` is sent away at once with
    PageBlockedError; Retry-After is honoured for all.
    """

    def __init__(self, reader: IPageReader, pace: Pace, *, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self.name = reader.name
        self._reader = reader
        self._pace = pace
        self._longest_wait_s = longest_wait_s

    async def read(self, url: str) -> Page:
        try:
            async with self._pace.turn(self._longest_wait_s):
                return await self._asked(url)
        except Busy as busy:
            raise PageBlockedError(BUSY.format(seconds=busy.wait_s), retry_after_s=busy.wait_s) from None

    async def _asked(self, url: str) -> Page:
        try:
            return await self._reader.read(url)
        except AppException as error:
            self._pace.heed(error)
            raise
