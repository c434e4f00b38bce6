"""Checks whether an untrusted address may be opened: its scheme, host, port and resolved IP addresses."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, Protocol

from modules.llm_platform.domain.callers.current_caller import current_caller
from modules.llm_platform.domain.concurrency.caller_turns import CallerTurns
from modules.llm_platform.domain.exceptions import PageConnectionError, PageRequestError
from modules.llm_platform.infrastructure.http.guarded.url import (
    IPAddress,
    PageAddress,
    is_public,
    parse_address,
    parse_ip,
)

MAX_RESOLUTIONS: Final = 16  # concurrent ones; a silent name server blocks one for many seconds


class Resolver(Protocol):
    """Resolves a host name. Raises OSError when it does not exist."""

    async def resolve(self, host: str, port: int) -> Sequence[str]: ...


def _resolve(host: str, port: int) -> Sequence[str]:
    try:
        answer = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that the system's own encoder refuses
        raise OSError("not a name") from error
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in answer))


class SystemResolver:
    """The operating system's resolver, in its own threads, so that a silent name server does not block others.

    A thread that waits for a name server cannot be ended. Callers take turns, and no caller has all threads.
    """

    def __init__(self, resolve: Callable[[str, int], Sequence[str]] = _resolve) -> None:
        self._resolve = resolve
        self._threads: ThreadPoolExecutor | None = None
        self._turns = CallerTurns(MAX_RESOLUTIONS, keeps_room=True)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_RESOLUTIONS, thread_name_prefix="resolver")
        caller = current_caller()
        await self._turns.take(caller)
        resolving = self._threads.submit(self._resolve, host, port)
        resolving.add_done_callback(lambda _: self._turns.give_back(caller))  # later than a caller that gave up
        return await asyncio.wrap_future(resolving)

    async def aclose(self) -> None:
        """End the threads and cancel pending resolutions."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class AllowedHosts:
    """The hosts of READER_ALLOWED_HOSTS, which may be read although they are not public.

    An entry is a host, `host:port` or a network (`10.1.0.0/16`). Without a port it allows all ports. A host matches by its name
    as written in the address, not by what another name resolves to. A network matches IP addresses, whatever the name.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._hosts: set[tuple[str, int | None]] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in entries:
            if "/" in entry:
                self._networks.append(ip_network(entry, strict=False))
            else:
                self._hosts.add(_split_host_and_port(entry))

    @property
    def has_networks(self) -> bool:
        """True if an IP address may be allowed although its name is not."""
        return bool(self._networks)

    def allows_name(self, address: PageAddress) -> bool:
        return (address.host, None) in self._hosts or (address.host, address.port) in self._hosts

    def allows_network(self, ip: IPAddress) -> bool:
        return any(ip in network for network in self._networks)


def _split_host_and_port(entry: str) -> tuple[str, int | None]:
    entry = entry.lower()
    if parse_ip(entry):  # IPv6 without brackets and without a port
        return str(parse_ip(entry)), None
    host, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        host, port = entry, ""
    bare = host.strip("[]")
    return str(parse_ip(bare) or bare.removesuffix(".")), int(port) if port else None


PORTS: Final = frozenset({80, 443, 8080, 8443})
RESOLVE_TIMEOUT_S: Final = 10.0
MAX_ADDRESSES: Final = 64  # addresses of one name

NOT_PUBLIC = (
    "The address is not on the public internet, so it is not read; READER_ALLOWED_HOSTS can name hosts that may be"
)
WRONG_PORT = (
    "The address has a port that is not read: only 80, 443, 8080 and 8443 are; READER_ALLOWED_HOSTS can name others"
)
NO_SUCH_NAME = "The page's host cannot be found: its name does not resolve"


@dataclass(frozen=True, slots=True)
class Checked:
    """An address that may be opened, with its checked IP addresses, so that it is not resolved again.

    `is_private` is True if only READER_ALLOWED_HOSTS allows it.
    """

    address: PageAddress
    ips: tuple[IPAddress, ...]
    is_private: bool


class Guard:
    """Resolves a name once and accepts it only if all its IP addresses may be connected to."""

    def __init__(self, resolver: Resolver, allowed: AllowedHosts | None = None) -> None:
        self._resolver = resolver
        self._allowed = allowed or AllowedHosts()

    async def check(self, address: PageAddress) -> Checked:
        """Return the address with its IP addresses. Raises PageRequestError if it must not be opened, and
        PageConnectionError if the name does not resolve.
        """
        named = self._allowed.allows_name(address)
        usual_port = not address.is_local_name and address.port in PORTS
        if not named and not usual_port and (address.is_local_name or not self._allowed.has_networks):
            raise PageRequestError(NOT_PUBLIC if address.is_local_name else WRONG_PORT)
        ips = (address.ip,) if address.ip else await self._resolve_host(address)
        if named:
            return Checked(address, ips, is_private=True)
        return Checked(address, ips, is_private=self._is_in_networks(ips, usual_port=usual_port))

    def allows(self, url: str) -> bool:
        """Return whether the host or a network of its literal IP address is listed. Resolves nothing."""
        try:
            address = parse_address(url)
        except PageRequestError:
            return False
        return self._allowed.allows_name(address) or bool(address.ip and self._allowed.allows_network(address.ip))

    def may_allow(self, address: PageAddress) -> bool:
        """Return whether the host is listed, or may resolve to a listed network. Resolves nothing."""
        if address.ip is not None:
            return self._allowed.allows_name(address) or self._allowed.allows_network(address.ip)
        return self._allowed.allows_name(address) or self._allowed.has_networks

    def _is_in_networks(self, ips: tuple[IPAddress, ...], *, usual_port: bool) -> bool:
        """Return whether only a listed network allows these addresses. Raises PageRequestError if they are not allowed."""
        allowed = [self._allowed.allows_network(ip) for ip in ips]
        if usual_port and all(map(is_public, ips)):
            return any(allowed)
        if not usual_port and not all(allowed):
            raise PageRequestError(WRONG_PORT)
        if not all(listed or is_public(ip) for listed, ip in zip(allowed, ips, strict=True)):
            raise PageRequestError(NOT_PUBLIC)
        return True

    async def _resolve_host(self, address: PageAddress) -> tuple[IPAddress, ...]:
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                answer = await self._resolver.resolve(address.host, address.port)
        except TimeoutError as error:
            raise PageConnectionError(
                "The page's host cannot be found: its name servers did not answer in time"
            ) from error
        except OSError as error:
            raise PageConnectionError(NO_SUCH_NAME) from error
        ips = tuple(map(parse_ip, answer[:MAX_ADDRESSES]))
        if not ips:
            raise PageConnectionError(NO_SUCH_NAME)
        if len(answer) > MAX_ADDRESSES or None in ips:  # None: also an address with a zone, which is link-local
            raise PageRequestError(NOT_PUBLIC)
        return tuple(ip for ip in ips if ip is not None)
