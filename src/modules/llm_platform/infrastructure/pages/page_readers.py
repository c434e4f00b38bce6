"""Page readers around others: the address guard, the order of the readers, their turns, and a cache."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.domain.concurrency.caller_turns import CallerTurns
from modules.llm_platform.domain.concurrency.page_allowance import count_fetch
from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.site_crawl_dtos import LinkedPage
from modules.llm_platform.domain.exceptions import PageConfigError, PageRequestError, PageTimeoutError
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.domain.research.page_links import keeps_links
from modules.llm_platform.domain.research.store_key import digest
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.infrastructure.http.guarded.guard import Guard
from modules.llm_platform.infrastructure.http.guarded.url import parse_address
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_PAGE_CHARS: Final = 100_000  # a page for quick and deep answers


class LazyPageReader(IPageReader):
    """Builds its reader on first use: most commands read no page, and loading the HTTP stack takes longer than they run."""

    def __init__(self, name: str, build: Callable[[], IPageReader]) -> None:
        self.name = name
        self._build = cache(build)

    async def prepare(self) -> None:
        await self._build().prepare()

    async def read(self, url: str) -> Page:
        return await self._build().read(url)


class LazySiteReader(ISiteReader):
    """A site reader that is made on first use, as `LazyPageReader` is."""

    def __init__(self, build: Callable[[], ISiteReader]) -> None:
        self._build = cache(build)

    def address(self, url: str) -> str:
        return self._build().address(url)

    async def read(self, url: str, admits: Callable[[str], bool], *, is_whole: bool = False) -> LinkedPage:
        return await self._build().read(url, admits, is_whole=is_whole)


class GuardedPageReader(IPageReader):
    """Resolves and checks each address before `reader` gets it.

    A private host of READER_ALLOWED_HOSTS is only passed to a reader that is on the operator's own network (`is_local`).
    """

    def __init__(self, reader: IPageReader, guard: Guard, *, is_local: bool = False) -> None:
        self.name = reader.name
        self._reader = reader
        self._guard = guard
        self._is_local = is_local

    async def prepare(self) -> None:
        await self._reader.prepare()

    async def read(self, url: str) -> Page:
        checked = await self._guard.check(parse_address(url))
        if checked.is_private and not self._is_local:
            raise PageConfigError("Hosts of READER_ALLOWED_HOSTS are only read directly: add direct to READERS")
        await count_fetch(checked.address.host)
        return await self._reader.read(checked.address.url)


class FailoverPageReader(IPageReader):
    """Calls the readers in order until one returns the page.

    A PageRequestError is raised at once, because no reader may read that address. When all fail, the last error is raised.
    """

    def __init__(self, readers: Sequence[IPageReader]) -> None:
        self.name = ",".join(reader.name for reader in readers)
        self._readers = tuple(readers)

    async def read(self, url: str) -> Page:
        last_error: AppException = PageConfigError("No page reader is configured: set READERS to jina, direct or both")
        for reader in self._readers:
            try:
                return await reader.read(url)
            except PageRequestError:
                raise
            except AppException as error:
                log.warning("page reader failed", extra={"reader": reader.name, "error": error.code})
                last_error = error
        raise last_error


class TurnsPageReader(IPageReader):
    """Limits concurrent reads to `max_reads`, shares them fairly, and merges reads of the same address.

    Raises PageTimeoutError for a page whose turn does not come within `max_wait_s`.
    """

    def __init__(self, reader: IPageReader, max_reads: int, max_wait_s: float) -> None:
        self.name = reader.name
        self._reader = reader
        self._turns = CallerTurns(max_reads, keeps_room=True)
        self._max_wait_s = max_wait_s
        self._flights: SingleFlight[Page] = SingleFlight()

    async def prepare(self) -> None:
        await self._reader.prepare()

    async def read(self, url: str) -> Page:
        caller = current_caller()
        page, _ = await self._flights.run(
            (caller, url.partition("#")[0], keeps_links()), partial(self._read, caller, url)
        )
        return page

    async def _read(self, caller: str, url: str) -> Page:
        try:
            async with asyncio.timeout(self._max_wait_s):
                await self._turns.take(caller)
        except TimeoutError as error:
            raise PageTimeoutError("The page was not read, since too many others are being read: try again") from error
        try:
            return await self._reader.read(url)
        finally:
            self._turns.give_back(caller)


class CachedPageReader(IPageReader):
    """Caches the pages of `reader` for `ttl_s` seconds, each cut to MAX_PAGE_CHARS. Concurrent reads of one address are
    one read. A page that was read without its links is read again for a caller who needs them."""

    def __init__(self, reader: IPageReader, cache: ICache[Page], ttl_s: float) -> None:
        self.name = reader.name
        self._reader = reader
        self._cache = cache
        self._ttl_s = ttl_s
        self._flights: SingleFlight[Page] = SingleFlight()

    async def prepare(self) -> None:
        await self._reader.prepare()

    async def read(self, url: str) -> Page:
        plain = [self.name, canonical_url(url)]
        linked = [*plain, "links"]
        for wanted in [linked] if keeps_links() else [plain, linked]:
            if self._ttl_s > 0 and (hit := await self._cache.get(digest(wanted))):
                return hit
        key = digest(linked if keeps_links() else plain)
        page, _ = await self._flights.run(key, partial(self._read, url, key))
        return page

    async def _read(self, url: str, key: str) -> Page:
        page = await self._reader.read(url)
        if len(page.text) > MAX_PAGE_CHARS:
            page = page.model_copy(update={"text": page.text[:MAX_PAGE_CHARS]})
        if self._ttl_s > 0:
            await self._cache.set(key, page, self._ttl_s)
        return page
