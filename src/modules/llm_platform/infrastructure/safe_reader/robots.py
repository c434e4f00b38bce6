"""robots.txt (RFC 9309): fetched through the same guard, kept for an hour, heeded where READER_ROBOTS says so."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from cachetools import TTLCache
from protego import Protego

from modules.llm_platform.domain.exceptions import PageBlockedError
from modules.llm_platform.infrastructure.safe_reader.fetch import PageRequest, SafeFetcher
from modules.llm_platform.infrastructure.safe_reader.url import PageAddress
from shared.exceptions import AppException

PRODUCT: Final = "llm-platform"
MAX_BYTES: Final = 512_000  # the RFC asks for 500 KiB at least
KEPT_S: Final = 3600.0
MAX_SITES: Final = 500
# Whatever client error comes instead of it, the site says nothing (RFC 9309 2.3.1.3); "too many requests" it says to us.
NONE_THERE: Final = frozenset(range(400, 500)) - {429}
WANTED: Final = PageRequest({"text/*", "application/octet-stream", ""}, MAX_BYTES, NONE_THERE)

FORBIDDEN = "The site's robots.txt asks programs not to read this page, and READER_ROBOTS heeds it"
NOT_KNOWN = "The site's robots.txt cannot be read now, and READER_ROBOTS heeds it: try again later"

_AGENT_LINE = re.compile(r"\s*user[\s-]*agent(?![^\s:])[\s:]*([^#]*)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z_-]+")
_SOMEBODY_ELSE = "another-program"


class Robots:
    """What the sites say, as far as they were asked."""

    def __init__(self, fetcher: SafeFetcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._sites: TTLCache[str, Protego] = TTLCache(MAX_SITES, KEPT_S, clock)

    async def check(self, address: PageAddress) -> None:
        """Raises PageBlockedError when the page must not be read, or when nobody can tell."""
        site = f"{address.scheme}://{address.netloc}"
        rules = self._sites.get(site)
        if rules is None:
            rules = self._sites[site] = await self._ask(address)
        if not allows(rules, address.target):
            raise PageBlockedError(FORBIDDEN)

    async def _ask(self, address: PageAddress) -> Protego:
        place = PageAddress(address.scheme, address.host, address.port, "/robots.txt", address.ip)
        try:
            answer = await self._fetcher.get(place, WANTED)
        except AppException as error:
            raise PageBlockedError(NOT_KNOWN) from error
        return rules_for(answer.body.decode("utf-8", "replace"))


def rules_for(text: str, product: str = PRODUCT) -> Protego:
    """The rules of all groups that name us, else those for everybody."""
    return Protego.parse("\n".join([_for_us(line, product) for line in text.removeprefix("\ufeff").splitlines()]))


def allows(rules: Protego, target: str) -> bool:
    """Whether the longest rule that fits allows it; allow wins a draw, and no rule allows."""
    return rules.can_fetch(f"https://site.invalid{target}", PRODUCT)


def _for_us(line: str, product: str) -> str:
    """A line that names a program, as one of three: us, everybody or somebody else; another line as it is.

    Protego keeps each rule once for each program of a group, and a hostile file of this size can name 16,000 programs before
    16,000 rules. It also takes `User-agent: llm` for us, where the RFC compares whole names.
    """
    found = _AGENT_LINE.match(line)
    if found is None:
        return line
    name = found[1].strip()
    token = _TOKEN.match(name)
    if name.startswith("*"):
        return "User-agent: *"
    ours = token is not None and token[0].lower() == product
    return f"User-agent: {PRODUCT if ours else _SOMEBODY_ELSE}"
