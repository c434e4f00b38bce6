"""Page readers that check addresses before another service sees them, or that are built on first use."""

from __future__ import annotations

from collections.abc import Callable

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.policies.base import PageReaderPolicy
from modules.llm_platform.infrastructure.safe_reader.guard import Guard
from modules.llm_platform.infrastructure.safe_reader.url import parse_address

DIRECT_ONLY = "Hosts of READER_ALLOWED_HOSTS are only read directly: add direct to READERS"


class GuardedPageReader(PageReaderPolicy):
    """Resolves and checks each address before `reader` gets it.

    A private host of READER_ALLOWED_HOSTS is only passed to a reader that is on the operator's own network (`is_local`).
    """

    def __init__(self, reader: IPageReader, guard: Guard, *, is_local: bool = False) -> None:
        super().__init__(reader)
        self._guard = guard
        self._is_local = is_local

    async def read(self, url: str) -> Page:
        checked = await self._guard.check(parse_address(url))
        if checked.private and not self._is_local:
            raise PageConfigError(DIRECT_ONLY)
        return await self._reader.read(checked.address.url)


class LazyPageReader(IPageReader):
    """Builds its reader on first use: most commands read no page, and loading the HTTP stack takes longer than they run."""

    def __init__(self, name: str, build: Callable[[], IPageReader]) -> None:
        self.name = name
        self._build = build
        self._reader: IPageReader | None = None

    async def prepare(self) -> None:
        await self._built().prepare()

    async def read(self, url: str) -> Page:
        return await self._built().read(url)

    def _built(self) -> IPageReader:
        if self._reader is None:
            self._reader = self._build()
        return self._reader
