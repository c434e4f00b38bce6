"""robots.txt (RFC 9309): fetched through the same guard, kept for an hour, heeded where READER_ROBOTS says so."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from modules.llm_platform.domain.exceptions import PageBlockedError
from modules.llm_platform.infrastructure.reading.fetching import SafeFetcher, Wanted
from modules.llm_platform.infrastructure.reading.page_address import PageAddress
from shared.exceptions import AppException

PRODUCT: Final = "llm-platform"
MAX_BYTES: Final = 512_000  # the RFC asks for 500 KiB at least
MAX_RULES: Final = 5_000
KEPT_S: Final = 3600.0
MAX_SITES: Final = 500
# Whatever client error comes instead of it, the site says nothing (RFC 9309 2.3.1.3); "too many requests" it says to us.
NONE_THERE: Final = frozenset(range(400, 500)) - {429}
WANTED: Final = Wanted({"text/*", "application/octet-stream", ""}, MAX_BYTES, NONE_THERE)

FORBIDDEN = "The site's robots.txt asks programs not to read this page, and READER_ROBOTS heeds it"
NOT_KNOWN = "The site's robots.txt cannot be read now, and READER_ROBOTS heeds it: try again later"

_LINE = re.compile(r"\s*([A-Za-z-]{1,40})\s*:\s*([^#]{0,4000})")
_TOKEN = re.compile(r"[A-Za-z_-]+")


class Rule(NamedTuple):
    """`allow` or not, for paths that the pattern (with * and a final $) fits."""

    allow: bool
    pattern: str


class Robots:
    """What the sites say, as far as they were asked."""

    def __init__(self, fetcher: SafeFetcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._sites: OrderedDict[str, tuple[float, tuple[Rule, ...]]] = OrderedDict()

    async def check(self, address: PageAddress) -> None:
        """Raises PageBlockedError when the page must not be read, or when nobody can tell."""
        site = f"{address.scheme}://{address.netloc}"
        until, rules = self._sites.get(site) or (0.0, ())
        if until <= self._clock():
            rules = await self._ask(address)
            self._keep(site, rules)
        if not allows(rules, address.target):
            raise PageBlockedError(FORBIDDEN)

    async def _ask(self, address: PageAddress) -> tuple[Rule, ...]:
        place = PageAddress(address.scheme, address.host, address.port, "/robots.txt", address.ip)
        try:
            answer = await self._fetcher.get(place, WANTED)
        except AppException as error:
            raise PageBlockedError(NOT_KNOWN) from error
        return tuple(rules_for(answer.body.decode("utf-8", "replace")))

    def _keep(self, site: str, rules: tuple[Rule, ...]) -> None:
        self._sites[site] = (self._clock() + KEPT_S, rules)
        self._sites.move_to_end(site)
        while len(self._sites) > MAX_SITES:
            self._sites.popitem(last=False)


def rules_for(text: str, product: str = PRODUCT) -> Sequence[Rule]:
    """The rules of all groups that name us, else those for everybody."""
    ours: list[Rule] = []
    everybody: list[Rule] = []
    named: set[str] = set()
    in_rules = False
    known = False
    for field, value in _lines(text):
        if field == "user-agent":
            named = set() if in_rules else named
            in_rules = False
            token = _TOKEN.match(value)
            named.add("*" if value.startswith("*") else token[0].lower() if token else "")
            known = known or product in named
        elif field in ("allow", "disallow"):
            in_rules = True
            if value:
                rule = Rule(field == "allow", _normal(value))
                ours += [rule] if product in named else []
                everybody += [rule] if "*" in named else []
    return (ours if known else everybody)[:MAX_RULES]


def allows(rules: Sequence[Rule], target: str) -> bool:
    """Whether the longest rule that fits allows it; allow wins a draw, and no rule allows."""
    path = _normal(target)
    fitting = [(len(rule.pattern), rule.allow) for rule in rules if _fits(rule.pattern, path)]
    return max(fitting)[1] if fitting else True


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        if found := _LINE.match(line):
            yield found[1].lower(), found[2].strip()


def _normal(path: str) -> str:
    """Percent-encoding in one way only: %7E and ~ are the same, ü and %C3%BC too."""
    return quote(unquote_to_bytes(path), safe="/*$?&=:;,@!+~'()[]")


def _fits(pattern: str, path: str) -> bool:
    """Wildcards without backtracking: each part is looked for behind the one before."""
    anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for number, part in enumerate(rest, 1):
        if anchored and number == len(rest):
            return path.endswith(part) and len(path) - len(part) >= at
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return not anchored or at == len(path)
