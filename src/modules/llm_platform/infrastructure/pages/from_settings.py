"""Page readers: Jina and the direct reader, with the address guard and rate limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.site_crawl_dtos import MAX_CRAWL_S
from modules.llm_platform.domain.ports.icon_reader import IIconReader
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.site_reader import ISiteReader
from modules.llm_platform.infrastructure.cache.from_settings import SharedState
from modules.llm_platform.infrastructure.limits.upstream_guard import PAGE_READER, UpstreamGuard
from modules.llm_platform.infrastructure.limits.upstream_limits import CircuitBreaker, RateLimiter
from modules.llm_platform.infrastructure.pages import page_readers
from modules.llm_platform.infrastructure.pages.upstream_page_reader import UpstreamPageReader, UpstreamSiteReader
from modules.llm_platform.infrastructure.resources import Resources, is_installed, is_loopback, reveal_secret
from modules.llm_platform.infrastructure.unconfigured import unconfigured_page_reader, unconfigured_site_reader
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.pages.content import PageParsers
    from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
    from modules.llm_platform.infrastructure.pages.robots import Robots


JINA_RPS_WITH_KEY = 5.0  # pages per second
JINA_RPS_WITHOUT_KEY = 0.33  # Jina serves about twenty pages per minute without a key
MAX_CONCURRENT_PAGES = 5  # pages read at once by Jina; a higher rate raises it
# Pages of all hosts and callers that are requested at once; a caller that is alone has half of them. Most of them wait for
# their servers: few are in memory (MAX_BODIES of direct.py).
MAX_DIRECT_READS = 128
# Running reads and reads that wait for their turn at their site; the reader itself reads few at once.
MAX_CRAWL_READS = 1000
PAGE_TIMEOUT_S = 20.0  # limit of one reader for one page, redirects included
JINA = "jina"
DIRECT = "direct"
THE_PAGE_READER = "The page reader"  # name in errors
DIRECT_ROBOTS = "direct-robots"  # obeys robots.txt, for the pages of quick answers too
OFFLINE = "Offline mode: pages are not read. Remove --offline or LLM_PLATFORM_OFFLINE"
CRAWLS_ARE_DIRECT = "A crawl reads pages directly: add direct or direct-robots to READERS"
HTML_PARSERS = ("resiliparse",)


def build_page_circuits(settings: Settings, resources: Resources) -> Mapping[str, CircuitBreaker]:
    """Return the circuits of page readers that are one service. The direct reader calls another host with each page."""
    if JINA not in settings.READERS or settings.LLM_PLATFORM_OFFLINE:
        return {}
    return {JINA: CircuitBreaker(JINA, metrics=resources.metrics)}


def build_direct_page_reader(settings: Settings, resources: Resources, parts: Callable[[], DirectParts]) -> IPageReader:
    """Return the reader that asks the sites themselves. It has no cache: what counts is what the page says now."""
    if settings.LLM_PLATFORM_OFFLINE:
        return unconfigured_page_reader("offline", OFFLINE)
    return page_readers.LazyPageReader(DIRECT, lambda: _build_direct_reader(resources, parts()))


def build_page_reader(
    settings: Settings, resources: Resources, circuits: Mapping[str, CircuitBreaker], direct: IPageReader
) -> IPageReader:
    """Return the reader of READERS. `direct` reads directly."""
    if settings.LLM_PLATFORM_OFFLINE:
        return direct
    jina = page_readers.LazyPageReader(JINA, lambda: _build_jina_reader(settings, resources, circuits.get(JINA)))
    readers = {JINA: jina, DIRECT: direct, DIRECT_ROBOTS: direct}
    return page_readers.FailoverPageReader([readers[name] for name in settings.READERS])


def build_answer_page_reader(settings: Settings, direct: IPageReader, shared: SharedState) -> IPageReader | None:
    """Return the reader for quick and deep answers, None to read no pages.

    It reads directly: Jina takes seconds for a page, and would learn the pages of each question.
    """
    if settings.LLM_PLATFORM_OFFLINE or settings.READ_PAGES == 0 or not is_installed(HTML_PARSERS):
        return None
    return page_readers.CachedPageReader(direct, shared.cache("pages", Page), settings.CACHE_TTL_S)


def _build_jina_reader(settings: Settings, resources: Resources, circuit: CircuitBreaker | None) -> IPageReader:
    from modules.llm_platform.infrastructure.pages.jina import JinaPageReader

    key, url = reveal_secret(settings.JINA_API_KEY), settings.JINA_BASE_URL
    client, guard = resources.client(url, PAGE_TIMEOUT_S), resources.guard(settings.READER_ALLOWED_HOSTS)
    jina = JinaPageReader(key, url, PAGE_TIMEOUT_S, client=client, redactor=resources.redactor)
    rps = settings.JINA_RPS or (JINA_RPS_WITH_KEY if key else JINA_RPS_WITHOUT_KEY)
    limiter = RateLimiter(rps, max_concurrent=MAX_CONCURRENT_PAGES)
    upstream = UpstreamGuard(
        PAGE_READER, JINA, limiter, circuit, setting="JINA_RPS", label=THE_PAGE_READER, metrics=resources.metrics
    )
    is_local = is_loopback(url) or guard.allows(url)
    return page_readers.GuardedPageReader(UpstreamPageReader(jina, upstream), guard, is_local=is_local)


class DirectParts(NamedTuple):
    """The parts that all direct readers share.

    - `fetcher` has the guard of addresses, and the connections with their limit for each host.
    - `robots` are the rules of sites for robots.
    - `page_robots` are the rules for the reading of single pages, or None if it obeys none.
    """

    fetcher: SafeFetcher
    parsers: PageParsers
    robots: Robots
    page_robots: Robots | None


def build_direct_parts(settings: Settings, resources: Resources) -> DirectParts:
    from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
    from modules.llm_platform.infrastructure.pages.content import PageParsers
    from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
    from modules.llm_platform.infrastructure.pages.robots import Robots

    parsers = resources.closing(PageParsers(resources.parsers()))
    fetcher = SafeFetcher(resources.guard(settings.READER_ALLOWED_HOSTS), PinnedConnections())
    robots = Robots(fetcher)
    return DirectParts(fetcher, parsers, robots, robots if DIRECT_ROBOTS in settings.READERS else None)


def build_site_reader(settings: Settings, resources: Resources, parts: Callable[[], DirectParts]) -> ISiteReader:
    """Return the reader of crawls, which reads directly and obeys robots.txt."""
    if settings.LLM_PLATFORM_OFFLINE:
        return unconfigured_site_reader("offline", OFFLINE)
    if not {DIRECT, DIRECT_ROBOTS} & set(settings.READERS):
        return unconfigured_site_reader(DIRECT, CRAWLS_ARE_DIRECT)

    def build() -> ISiteReader:
        from modules.llm_platform.infrastructure.pages.direct import DirectSiteReader

        fetcher, parsers, robots, _ = parts()
        reader = DirectSiteReader(fetcher, parsers, robots, timeout=PAGE_TIMEOUT_S, redactor=resources.redactor)
        return UpstreamSiteReader(reader, _build_direct_guard(MAX_CRAWL_READS, MAX_CRAWL_S, resources))

    return page_readers.LazySiteReader(build)


def build_icon_reader(settings: Settings, parts: Callable[[], DirectParts]) -> IIconReader | None:
    """Return the reader of icons, or None if they are off. It obeys robots.txt if the reader of pages does."""
    if settings.LLM_PLATFORM_OFFLINE or not settings.PAGE_FAVICONS:
        return None
    from modules.llm_platform.infrastructure.pages.site_icons import SiteIconReader

    fetcher, _, _, robots = parts()
    return SiteIconReader(fetcher, robots)


def _build_direct_reader(resources: Resources, parts: DirectParts) -> IPageReader:
    from modules.llm_platform.infrastructure.pages.direct import DirectPageReader

    fetcher, parsers, _, robots = parts
    reader = DirectPageReader(fetcher, parsers, timeout=PAGE_TIMEOUT_S, robots=robots, redactor=resources.redactor)
    guarded = UpstreamPageReader(reader, _build_direct_guard(MAX_DIRECT_READS, PAGE_TIMEOUT_S, resources))
    return page_readers.TurnsPageReader(guarded, MAX_DIRECT_READS, PAGE_TIMEOUT_S)


def _build_direct_guard(max_concurrent: int, max_wait_s: float, resources: Resources) -> UpstreamGuard:
    return UpstreamGuard(
        PAGE_READER,
        DIRECT,
        RateLimiter(None, max_concurrent=max_concurrent),
        max_wait_s=max_wait_s,
        label=THE_PAGE_READER,
        is_one_service=False,
        metrics=resources.metrics,
    )
