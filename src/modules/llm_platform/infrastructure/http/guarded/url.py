"""The only parser of untrusted addresses. Its result is resolved, connected to and sent, and the text is not parsed again, so
that no two parsers can disagree.

It is stricter than browsers: it refuses whatever is ambiguous, such as a backslash, a user name, a hexadecimal octet, digits
of other scripts or spaces.
"""

import re
import unicodedata
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias
from urllib.parse import quote, urljoin

from modules.llm_platform.domain.exceptions import PageRequestError

# Public IP addresses, by IANA's special-purpose registries. `is_global` of the standard library changed between releases of
# Python. Of IPv6 only allocated global unicast is public, without its special ranges. Azure's 168.63.129.16 is internal.


IPAddress: TypeAlias = IPv4Address | IPv6Address

_NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",  # private
            "100.64.0.0/10",  # carrier-grade NAT; some clouds keep their metadata service here
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local: metadata services
            "168.63.129.16/32",  # Azure's own services, from inside a machine
            "192.0.0.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.175.48.0/24",  # protocol assignments
            "192.0.2.0/24",
            "198.51.100.0/24",
            "203.0.113.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",  # benchmarks
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
            "2001:db8::/32",
            "3fff::/20",  # documentation
            "2002::/16",  # 6to4: an IPv4 address inside
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the 6bone, given back
        ),
    )
)


def parse_ip(text: str) -> IPAddress | None:
    """Return the IP address, a dotted quad without leading zeros or IPv6 without a zone, or None for anything else."""
    try:
        return IPv6Address(text) if ":" in text and "%" not in text else IPv4Address(text)
    except AddressValueError:
        return None


def is_public(address: IPAddress) -> bool:
    """Return whether the address is on the public internet and embeds no other address."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


PAGE_URL_CHARS: Final = 8192  # limit before and after percent-encoding
MAX_HOST_CHARS: Final = 253
MAX_PORT: Final = 65535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
LOCAL_NAMES: Final = ("localhost", "local", "internal", "home.arpa", "localdomain")

TOO_LONG = f"The address is longer than {PAGE_URL_CHARS} characters"
BAD_HOST = "The address names its host in a way that is not allowed: write a full domain name or a plain IP address"
BAD_PORT = "The address has a port that cannot be read"

_SHAPE = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[^\[\]:@%]+))(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # other parsers read an IPv4 address if it is the last label
_FORBIDDEN_CATEGORIES = frozenset(("Cc", "Cs", "Zs", "Zl", "Zp"))
_UNQUOTED: Final = "%!$&'()*+,;=:@/?-._~[]|"


@dataclass(frozen=True, slots=True)
class PageAddress:
    """An address in parts. `host` is a name in its ASCII form without a final dot, or an IP address without brackets."""

    scheme: str
    host: str
    port: int
    target: str  # path and query, percent-encoded ASCII
    ip: IPAddress | None = None

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as text, without a fragment."""
        return f"{self.scheme}://{self.netloc}{self.target}"

    @property
    def is_local_name(self) -> bool:
        """True if the host is a name of a local network."""
        if self.ip is not None:
            return False
        return "." not in self.host or self.host.endswith(tuple(f".{name}" for name in LOCAL_NAMES))


def parse_address(url: str) -> PageAddress:
    """Return the parts of an absolute address. Raises PageRequestError for an invalid or ambiguous one."""
    if len(url) > PAGE_URL_CHARS:
        raise PageRequestError(TOO_LONG)
    if any(letter == "\\" or unicodedata.category(letter) in _FORBIDDEN_CATEGORIES for letter in url):
        raise PageRequestError("The address contains a space, a backslash or an invisible character: percent-encode it")
    shape = _SHAPE.fullmatch(url)
    if shape is None:
        raise PageRequestError(
            "The address cannot be read: it must begin with http:// or https:// and name a public host"
        )
    scheme, authority, path, query = shape[1].lower(), shape[2], shape[3] or "/", shape[4] or ""
    host, ip, port = _split_authority(authority)
    target = quote(path, safe=_UNQUOTED) + quote(query, safe=_UNQUOTED)
    address = PageAddress(scheme, host, port or DEFAULT_PORTS[scheme], target, ip)
    if len(address.url) > PAGE_URL_CHARS:
        raise PageRequestError(TOO_LONG)
    return address


def follow(base: PageAddress, location: str) -> PageAddress:
    """Return the target of a redirect, parsed as strictly."""
    if location.startswith("//"):
        return parse_address(f"{base.scheme}:{location}")
    if _SCHEME.match(location) or "\\" in location:
        return parse_address(location)
    origin = f"{base.scheme}://{base.netloc}"
    if location.startswith("/"):
        return parse_address(origin + location)
    page = origin + base.target.partition("?")[0]
    if location[:1] in ("", "?", "#"):
        return parse_address(page + location)
    # Without a scheme or a leading slash it cannot name a host.
    return parse_address(urljoin(page, location))


def _split_authority(authority: str) -> tuple[str, IPAddress | None, int | None]:
    if "@" in authority:
        raise PageRequestError("The address contains a user name or password: remove it")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise PageRequestError(BAD_PORT if ":" in authority and not authority.startswith("[") else BAD_HOST)
    port = int(parts["port"]) if parts["port"] else None
    if port is not None and port > MAX_PORT:
        raise PageRequestError(BAD_PORT)
    if parts["v6"]:
        ip = parse_ip(parts["v6"])
        if ip is None:
            raise PageRequestError(BAD_HOST)
        return str(ip), ip, port
    host = parts["name"].lower() if parts["name"].isascii() else _encode_host(parts["name"])
    ip = parse_ip(host)
    return (host, ip, port) if ip else (_name(host), None, port)


def _name(host: str) -> str:
    host = host.removesuffix(".")
    labels = host.split(".")
    is_valid = len(host) <= MAX_HOST_CHARS and all(map(_LABEL.fullmatch, labels))
    if not is_valid or _NUMBER.fullmatch(labels[-1]):
        raise PageRequestError(BAD_HOST)
    return host


def _encode_host(host: str) -> str:
    """Return the ASCII form of a host name (IDNA 2008). Names that need mapping, such as ① to 1, are refused."""
    import idna

    if len(host) > MAX_HOST_CHARS:  # encoding does not shorten it
        raise PageRequestError(BAD_HOST)
    try:
        return idna.encode(unicodedata.normalize("NFC", host).lower(), strict=True, std3_rules=True).decode("ascii")
    except UnicodeError as error:  # idna.IDNAError is one
        raise PageRequestError(BAD_HOST) from error
