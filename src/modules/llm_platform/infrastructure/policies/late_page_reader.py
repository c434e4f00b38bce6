"""A reader that is made when it is first asked."""

from __future__ import annotations

from collections.abc import Callable

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.ports.page_reader import IPageReader


class LatePageReader(IPageReader):
    """Most commands read no page, and the HTTP stack with its TLS takes longer to load than some of them run."""

    def __init__(self, name: str, make: Callable[[], IPageReader]) -> None:
        self.name = name
        self._make = make
        self._reader: IPageReader | None = None

    async def read(self, url: str) -> Page:
        if self._reader is None:
            self._reader = self._make()
        return await self._reader.read(url)
