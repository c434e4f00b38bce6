"""Page readers behind the guards of their services."""

from collections.abc import Callable

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.site_crawl_dtos import LinkedPage
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.infrastructure.limits.upstream_guard import UpstreamGuard


class UpstreamPageReader(IPageReader):
    def __init__(self, reader: IPageReader, guard: UpstreamGuard) -> None:
        self.name = reader.name
        self._reader = reader
        self._guard = guard

    async def prepare(self) -> None:
        await self._reader.prepare()

    async def read(self, url: str) -> Page:
        return await self._guard.call(lambda: self._reader.read(url))


class UpstreamSiteReader(ISiteReader):
    def __init__(self, reader: ISiteReader, guard: UpstreamGuard) -> None:
        self._reader = reader
        self._guard = guard

    def address(self, url: str) -> str:
        return self._reader.address(url)

    async def read(self, url: str, admits: Callable[[str], bool], *, is_whole: bool = False) -> LinkedPage:
        return await self._guard.call(lambda: self._reader.read(url, admits, is_whole=is_whole))
