"""READER_ALLOWED_HOSTS: what the operator lets the safe reader reach though it is not public."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from modules.llm_platform.infrastructure.reading.page_address import PageAddress
from modules.llm_platform.infrastructure.reading.public_addresses import IPAddress, parse_ip


class AllowedHosts:
    """Entries are a host, `host:port` or a network (`10.1.0.0/16`); without a port every port is meant.

    A host is meant as it is written in an address: that another name resolves to the same machine opens nothing. A
    network means addresses, whatever name leads there.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._hosts: set[tuple[str, int | None]] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in entries:
            if "/" in entry:
                self._networks.append(ip_network(entry, strict=False))
            else:
                self._hosts.add(_host_and_port(entry))

    @property
    def has_networks(self) -> bool:
        """Whether an address may be allowed whose name is not."""
        return bool(self._networks)

    def by_name(self, address: PageAddress) -> bool:
        """Whether the operator named this very host, with this port or with any."""
        return (address.host, None) in self._hosts or (address.host, address.port) in self._hosts

    def by_network(self, ip: IPAddress) -> bool:
        """Whether the operator named a network that holds this address."""
        return any(ip in network for network in self._networks)


def _host_and_port(entry: str) -> tuple[str, int | None]:
    entry = entry.lower()
    if parse_ip(entry):  # IPv6 without brackets and without a port
        return str(parse_ip(entry)), None
    host, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        host, port = entry, ""
    bare = host.strip("[]")
    return str(parse_ip(bare) or bare.removesuffix(".")), int(port) if port else None
