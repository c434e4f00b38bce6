"""The guard before a reader that fetches elsewhere: it hears only of addresses that we would open ourselves."""

from __future__ import annotations

from collections.abc import Callable

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.safe_reader.guard import Guard
from modules.llm_platform.infrastructure.safe_reader.url import parse_address

DIRECT_ONLY = "Hosts of READER_ALLOWED_HOSTS are read directly alone: add direct to READERS"


class GuardedPageReader(IPageReader):
    """Resolves and checks first. A host that only the operator's permission opens is kept from the reader, unless that
    one is at home too (`at_home`).
    """

    def __init__(self, reader: IPageReader, guard: Guard, *, at_home: bool = False) -> None:
        self.name = reader.name
        self._reader = reader
        self._guard = guard
        self._at_home = at_home

    async def read(self, url: str) -> Page:
        checked = await self._guard.check(parse_address(url))
        if checked.private and not self._at_home:
            raise PageConfigError(DIRECT_ONLY)
        return await self._reader.read(checked.address.url)


# A reader that is made when it is first asked.


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
