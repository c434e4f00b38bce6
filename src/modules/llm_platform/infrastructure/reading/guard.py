"""The guard before everything that fetches: is this address one that a stranger may make us open?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.exceptions import PageConnectionError, PageRequestError
from modules.llm_platform.infrastructure.reading.allowed_hosts import AllowedHosts
from modules.llm_platform.infrastructure.reading.page_address import PageAddress, parse_address
from modules.llm_platform.infrastructure.reading.public_addresses import IPAddress, is_public, parse_ip
from modules.llm_platform.infrastructure.reading.resolving import Resolver

PORTS: Final = frozenset({80, 443, 8080, 8443})
RESOLVES_WITHIN_S: Final = 10.0
MAX_ADDRESSES: Final = 64  # of one name; more is no name that we want to know

NOT_PUBLIC = (
    "The address is not on the public internet, so it is not read; READER_ALLOWED_HOSTS can name hosts that may be"
)
WRONG_PORT = "The address has a port that is not read: only 80, 443, 8080 and 8443 are; READER_ALLOWED_HOSTS can name others"
NO_SUCH_NAME = "The page's host cannot be found: its name does not resolve"
SLOW_NAME = "The page's host cannot be found: its name servers did not answer in time"


@dataclass(frozen=True, slots=True)
class Checked:
    """An address that may be opened, and the IP addresses that may be dialled for it; nobody resolves it again.

    `private`: it may be opened only because the operator allowed it.
    """

    address: PageAddress
    ips: tuple[IPAddress, ...]
    private: bool


class Guard:
    """Resolves a name once and lets it through only if every address of the answer may be dialled."""

    def __init__(self, resolver: Resolver, allowed: AllowedHosts | None = None) -> None:
        self._resolver = resolver
        self._allowed = allowed or AllowedHosts()

    async def check(self, address: PageAddress) -> Checked:
        """Raises PageRequestError where it must not be opened, PageConnectionError where the name does not resolve."""
        named = self._allowed.by_name(address)
        usual = not address.is_local_name and address.port in PORTS
        if not named and not usual and (address.is_local_name or not self._allowed.has_networks):
            raise PageRequestError(NOT_PUBLIC if address.is_local_name else WRONG_PORT)
        ips = (address.ip,) if address.ip else await self._resolved(address)
        if named:
            return Checked(address, ips, private=True)
        return Checked(address, ips, private=self._in_networks(ips, usual_port=usual))

    def allows(self, url: str) -> bool:
        """Whether the operator named this host, or a network that its literal address lies in; nothing is resolved."""
        try:
            address = parse_address(url)
        except PageRequestError:
            return False
        return self._allowed.by_name(address) or bool(address.ip and self._allowed.by_network(address.ip))

    def _in_networks(self, ips: tuple[IPAddress, ...], *, usual_port: bool) -> bool:
        """Whether the operator's networks are needed to let these through; raises where they do not help."""
        allowed = [self._allowed.by_network(ip) for ip in ips]
        if usual_port and all(map(is_public, ips)):
            return any(allowed)
        if not usual_port and not all(allowed):
            raise PageRequestError(WRONG_PORT)
        if not all(fine or is_public(ip) for fine, ip in zip(allowed, ips, strict=True)):
            raise PageRequestError(NOT_PUBLIC)
        return True

    async def _resolved(self, address: PageAddress) -> tuple[IPAddress, ...]:
        try:
            async with asyncio.timeout(RESOLVES_WITHIN_S):
                answer = await self._resolver.resolve(address.host, address.port)
        except TimeoutError as error:
            raise PageConnectionError(SLOW_NAME) from error
        except OSError as error:
            raise PageConnectionError(NO_SUCH_NAME) from error
        ips = tuple(map(parse_ip, answer[:MAX_ADDRESSES]))
        if not ips:
            raise PageConnectionError(NO_SUCH_NAME)
        if len(answer) > MAX_ADDRESSES or None in ips:  # also an address with a zone, which is a neighbour's
            raise PageRequestError(NOT_PUBLIC)
        return tuple(ip for ip in ips if ip is not None)
