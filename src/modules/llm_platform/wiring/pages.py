"""Page readers: Jina and the direct reader, behind the guard and their rate limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.infrastructure.policies.failover import FailoverPageReader
from modules.llm_platform.infrastructure.policies.page_reader_guards import LatePageReader
from modules.llm_platform.infrastructure.policies.rate_limits import (
    RateLimiter,
    ThrottledPageReader,
)
from modules.llm_platform.infrastructure.policies.unconfigured import UnconfiguredPageReader
from modules.llm_platform.wiring.resources import Resources, is_loopback
from modules.llm_platform.wiring.search import (
    DOCUMENTS,
    SearchAdapters,
)
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.safe_reader.guard import Guard


JINA_RPS_WITH_KEY = 5.0  # requirement MS9; pages a second
JINA_RPS_WITHOUT = 0.33  # about the twenty a minute that it serves without a key
PAGES_AT_ONCE = 5


def build_page_reader(settings: Settings, resources: Resources) -> IPageReader:
    if settings.LLM_PLATFORM_OFFLINE:
        return UnconfiguredPageReader(
            "offline", "Offline, no page is read: leave out --offline and LLM_PLATFORM_OFFLINE"
        )
    return LatePageReader(",".join(settings.READERS), lambda: _readers(settings, resources))


def _readers(settings: Settings, resources: Resources) -> IPageReader:
    from modules.llm_platform.infrastructure.safe_reader.guard import AllowedHosts, Guard, SystemResolver

    resolver = SystemResolver()
    resources.closing(resolver.aclose)
    guard = Guard(resolver, AllowedHosts(settings.READER_ALLOWED_HOSTS))
    builders = {"jina": _jina_reader, "direct": _direct_reader}
    return FailoverPageReader([builders[name](settings, resources, guard) for name in settings.READERS])


def _jina_reader(settings: Settings, resources: Resources, guard: Guard) -> IPageReader:
    from modules.llm_platform.infrastructure.adapters.jina_page_reader import JinaPageReader
    from modules.llm_platform.infrastructure.policies.page_reader_guards import GuardedPageReader

    key, url = settings.JINA_API_KEY, settings.JINA_BASE_URL
    jina = JinaPageReader(
        key.get_secret_value() if key else "",
        url,
        settings.READER_TIMEOUT_S,
        client=resources.client(url, settings.READER_TIMEOUT_S),
        redactor=resources.redactor,
    )
    pace = RateLimiter(settings.JINA_RPS or (JINA_RPS_WITH_KEY if key else JINA_RPS_WITHOUT), at_once=PAGES_AT_ONCE)
    return GuardedPageReader(ThrottledPageReader(jina, pace), guard, at_home=is_loopback(url) or guard.allows(url))


def _direct_reader(settings: Settings, resources: Resources, guard: Guard) -> IPageReader:
    from modules.llm_platform.infrastructure.adapters.direct_page_reader import DirectPageReader
    from modules.llm_platform.infrastructure.safe_reader.connection import PinnedConnections
    from modules.llm_platform.infrastructure.safe_reader.content import PageParsers
    from modules.llm_platform.infrastructure.safe_reader.fetch import SafeFetcher
    from modules.llm_platform.infrastructure.safe_reader.robots import Robots

    fetcher, parsers = SafeFetcher(guard, PinnedConnections()), PageParsers()
    resources.closing(parsers.aclose)
    return DirectPageReader(
        fetcher,
        parsers,
        timeout=settings.READER_TIMEOUT_S,
        robots=Robots(fetcher) if settings.READER_ROBOTS else None,
        redactor=resources.redactor,
    )


def build_report_page_reader(adapters: SearchAdapters, web: IPageReader) -> IPageReader:
    """Documents that a search found are read from their index, everything else by the readers of the web."""
    from modules.llm_platform.infrastructure.adapters.document_page_reader import DocumentPageReader
    from modules.llm_platform.infrastructure.adapters.document_web_search import DocumentWebSearch
    from modules.llm_platform.infrastructure.policies.routing import ByAddressPageReader

    documents = adapters.get(DOCUMENTS)
    return ByAddressPageReader(DocumentPageReader(documents) if isinstance(documents, DocumentWebSearch) else None, web)
