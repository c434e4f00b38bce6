"""No more searches a minute than a service allows, and none while it asked to be left alone."""

from __future__ import annotations

from typing import Final

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchBlockedError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.policies.pace import Busy, Pace
from shared.exceptions import AppException

LONGEST_WAIT_S: Final = 30.0  # beyond it the next provider, or a later try, is better for a person who waits

BUSY = "{name} may not be asked more often: it is busy for the next {seconds:.0f} s; try later, or raise {setting}"


class ThrottledWebSearch(IWebSearchProvider):
    """Asks `provider` at the pace of its service. Who would wait longer than `longest_wait_s` is sent away at once with
    WebSearchBlockedError; a Retry-After of the service is honoured for all who share the pace, whichever of them was told.
    That of engines behind it is not: somebody else may ask others.
    """

    def __init__(
        self,
        provider: IWebSearchProvider,
        pace: Pace,
        *,
        longest_wait_s: float = LONGEST_WAIT_S,
        setting: str = "SEARXNG_RPM",
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._pace = pace
        self._longest_wait_s = longest_wait_s
        self._setting = setting

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            async with self._pace.turn(self._longest_wait_s):
                return await self._asked(request)
        except Busy as busy:
            words = BUSY.format(name=self.name, seconds=busy.wait_s, setting=self._setting)
            raise WebSearchBlockedError(words, retry_after_s=busy.wait_s) from None

    async def _asked(self, request: WebSearchRequest) -> WebSearchResponse:
        try:
            return await self._provider.search(request)
        except AppException as error:
            if not (isinstance(error, WebSearchBlockedError) and error.engines_only):
                self._pace.heed(error)
            raise
