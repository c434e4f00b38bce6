"""The guard before a reader that fetches elsewhere: it hears only of addresses that we would open ourselves."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.reading.guard import Guard
from modules.llm_platform.infrastructure.reading.page_address import parse_address

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
