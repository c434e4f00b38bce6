"""Obey robots.txt (RFC 9309) if READERS has direct-robots. It is fetched through the same guard and cached for an hour."""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from cachetools import TTLCache
from protego import Protego

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.exceptions import PageBlockedError
from modules.llm_platform.infrastructure.http.guarded.url import PageAddress
from modules.llm_platform.infrastructure.pages.fetch import PageRequest, SafeFetcher
from shared.exceptions import AppException

PRODUCT: Final = "llm-platform"
ROBOTS_BYTES: Final = 512_000  # the RFC asks for 500 KiB at least
CACHE_TTL_S: Final = 3600.0
ROBOTS_SITES: Final = 500
# A client error means no rules (RFC 9309 2.3.1.3), except 429, which is about this client.
ABSENT_STATUSES: Final = frozenset(range(400, 500)) - {429}
ROBOTS_REQUEST: Final = PageRequest({"text/*", "application/octet-stream", ""}, ROBOTS_BYTES, ABSENT_STATUSES)

FORBIDDEN = "The site's robots.txt disallows this page; crawls and direct-robots of READERS obey it"

_AGENT_LINE = re.compile(r"\s*user[\s-]*agent(?![^\s:])[\s:]*([^#]*)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z_-]+")


class SiteRules(NamedTuple):
    """The rules of a site, and the length of its robots.txt in characters.

    A hostile file takes seconds to parse, and half a second to match.
    """

    protego: Protego
    chars: int


class Robots:
    """The rules of sites, fetched on first use. Pages of one site that a caller reads at once share the request."""

    def __init__(self, fetcher: SafeFetcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._sites: TTLCache[str, SiteRules] = TTLCache(ROBOTS_SITES, CACHE_TTL_S, clock)
        self._flights: SingleFlight[SiteRules] = SingleFlight()

    async def check(self, address: PageAddress) -> None:
        """Raises PageBlockedError when the page is disallowed, or the rules cannot be fetched."""
        rules = await self._load_rules(address)
        if not await run_in_thread_if_long(rules.chars, allows, rules.protego, address.target):
            raise PageBlockedError(FORBIDDEN)

    async def delay_s(self, address: PageAddress) -> float:
        """Return the seconds between two pages that the site asks for with Crawl-delay, or 0. Raises PageBlockedError."""
        return max(0.0, (await self._load_rules(address)).protego.crawl_delay(PRODUCT) or 0.0)

    async def _load_rules(self, address: PageAddress) -> SiteRules:
        site = f"{address.scheme}://{address.netloc}"
        rules = self._sites.get(site)
        if rules is None:
            # Only calls of one caller share a request, because it counts for the limits of that caller.
            rules, _ = await self._flights.run((current_caller(), site), partial(self._fetch, address))
            self._sites[site] = rules
        return rules

    async def _fetch(self, address: PageAddress) -> SiteRules:
        robots_txt = PageAddress(address.scheme, address.host, address.port, "/robots.txt", address.ip)
        try:
            response = await self._fetcher.get(robots_txt, ROBOTS_REQUEST)
        except AppException as error:
            raise PageBlockedError(
                "The site's robots.txt cannot be read now; crawls and direct-robots of READERS obey it: try again later"
            ) from error
        text = response.body.decode("utf-8", "replace")
        return SiteRules(await run_in_thread_if_long(len(text), parse_rules, text), len(text))


def parse_rules(text: str, product: str = PRODUCT) -> Protego:
    """Return the rules of all groups for `product`, else those for all programs."""
    return Protego.parse("\n".join([_normalize(line, product) for line in text.removeprefix("\ufeff").splitlines()]))


def allows(rules: Protego, target: str) -> bool:
    """Return whether the longest matching rule allows the target. Allow wins a tie. Without a rule it is allowed."""
    return rules.can_fetch(f"https://site.invalid{target}", PRODUCT)


def _normalize(line: str, product: str) -> str:
    """Return a User-agent line reduced to `product`, `*` or another program. Any other line does not change.

    Protego stores each rule for each program of its group, and a hostile file can list 16,000 programs before 16,000 rules. It
    also matches `User-agent: llm`, where the RFC compares whole names.
    """
    found = _AGENT_LINE.match(line)
    if found is None:
        return line
    name = found[1].strip()
    token = _TOKEN.match(name)
    if name.startswith("*"):
        return "User-agent: *"
    is_product = token is not None and token[0].lower() == product
    return f"User-agent: {PRODUCT if is_product else 'another-program'}"
