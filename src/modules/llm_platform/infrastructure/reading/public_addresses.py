"""Which IP addresses belong to the public internet.

The table is our own and not `is_global` of the standard library, whose answer changed between releases of Python. For
IPv6 it is the other way round: only what has been given out as global unicast is public, and of that not the ranges
that stand for something else. (IANA's special-purpose registries; Azure's 168.63.129.16 is public only by its number.)
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address

_NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",  # private
            "100.64.0.0/10",  # carrier-grade NAT; some clouds keep their metadata service here
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local: metadata services
            "168.63.129.16/32",  # Azure's own services, from inside a machine
            "192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24",  # protocol assignments
            "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",  # benchmarks
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)  # fmt: skip
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
            "2001:db8::/32", "3fff::/20",  # documentation
            "2002::/16",  # 6to4: an IPv4 address inside
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the 6bone, given back
        ),
    )
)  # fmt: skip


def parse_ip(text: str) -> IPAddress | None:
    """The address that the text is: a dotted quad without leading zeros, or IPv6 without a zone; None for anything else."""
    try:
        return IPv6Address(text) if ":" in text and "%" not in text else IPv4Address(text)
    except AddressValueError:
        return None


def is_public(address: IPAddress) -> bool:
    """Whether the address is a host of the public internet, and no other address in disguise."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _NOT_PUBLIC_V6)
