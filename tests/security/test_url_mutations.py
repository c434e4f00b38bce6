"""Thousands of damaged addresses, redirects and DNS answers: only public addresses are ever connected to."""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.security.test_ssrf import CASES
from tests.support import fuzz

from modules.llm_platform.infrastructure.pages.fetch import MAX_REDIRECTS
from modules.llm_platform.testing import ReaderProbe, probe_reader

MUTATIONS = fuzz.chosen(2_500, 100_000)
PORTIONS = 10  # portions of the mutations, with one test each
MIN_SHARE = 0.01  # minimal fraction of read pages and of refusals in a portion; the mean is ten times higher
PORTS = {80, 443, 8080, 8443}
ERRORS = {"page_request", "page_connection", "page_error", "page_blocked"}

SCHEMES = (
    "http://",
    "https://",
    "HTTP://",
    "hTTp:",
    "//",
    "http:\\\\",
    "ftp://",
    "file:///",
    "data:",
    "jar:http://",
    "",
)
PUBLIC = ("93.184.215.14", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "9.9.9.9")
PRIVATE = (
    *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
    *("224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "168.63.129.16", "192.88.99.1", "240.0.0.1"),
    *("::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "100::1", "5f00::1", "3fff::1"),
)
ODD_DNS = ("", "localhost", "1.2.3", "0x7f.1", "::1%eth0", "999.1.1.1", "8.8.8.8 ", "8.8.8.8\n127.0.0.1")
TUNNELS = [
    ipaddress.ip_network(network)
    for network in (
        *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10"),
        *("168.63.129.16/32", "192.88.99.0/24"),  # Azure's own services, and 6to4 relays
    )
]
SPLINTERS = (
    *(
        "@",
        ":",
        "::",
        "/",
        "//",
        "\\",
        "?",
        "#",
        "%",
        "%00",
        "%2e",
        "%2f",
        "%40",
        "%5c",
        "%0d%0a",
        "\r\n",
        "\n",
        "\t",
        " ",
    ),
    *(".", "..", "[", "]", "[::1]", "[::ffff:10.0.0.1]", "%25eth0", "127.1", "0x7f000001", "2130706433", "0177.0.0.1"),
    *(
        "localhost",
        "a.localhost",
        "metadata.google.internal",
        "x.local",
        "u:p@",
        "user@",
        ":80",
        ":22",
        ":0",
        ":+80",
        ":８０",
    ),
    *(
        "。",
        "．",
        "｡",
        "①②⑦.⓪.⓪.①",
        "１２７.0.0.1",
        "ⅼocalhost",
        "ß",
        "xn--",
        "xn--a",
        "\u200d",
        "\u202e",
        "\xad",
        "\x00",
    ),
    *("\ud800", "é", "a" * 64, "a." * 130, "?" * 50, ";", ",", "&", "=", "http:", "javascript:", "0", "00", "x", "-"),
)

READABLE = ["http://a.example.net/", *(case.url for case in CASES if case.expect == "allow" and len(case.url) < 500)]
ADDRESSES = [case.url for case in CASES if case.expect != "allow" and len(case.url) < 500]
LOCATIONS = [target for case in CASES for target in case.redirects if len(target) < 500]


class HostileNetwork:
    """Names that resolve to anything, with a different answer each time, and servers that redirect anywhere."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.names: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self._redirects = iter([_mutated(chance, LOCATIONS) for _ in range(chance.choice((0, 0, 0, 1, 2, 9)))])

    def resolve(self, host: str) -> Sequence[str]:
        self.names.append(host)
        kinds = self._chance.choice((*[(PUBLIC,)] * 5, (PRIVATE,), (PUBLIC, PRIVATE), (PUBLIC, ODD_DNS), ()))
        if not kinds:
            raise LookupError(host)
        answer = [self._chance.choice(kind) for kind in kinds]
        self._chance.shuffle(answer)
        return answer

    def respond(self, ip: str, port: int, host: str, target: str) -> tuple[int, dict[str, str], bytes]:
        self.dialled.append((ip, port))
        assert not set(target) & set("\r\n \x00"), "one request became two"
        if self._chance.random() < 0.05:
            raise ConnectionRefusedError
        if (location := next(self._redirects, None)) is not None:
            return 302, {"Location": location.replace("\r", "").replace("\n", "").replace("\x00", "")}, b""
        return 200, {"Content-Type": "text/plain"}, b"Some text."


def _mutated(chance: random.Random, seeds: Sequence[str]) -> str:
    text = chance.choice(chance.choice((READABLE, READABLE, seeds)))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        end = min(end, at + chance.choice((1, 3, 12)))
        match chance.randrange(8):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + chance.choice(SPLINTERS) + text[at:]
            case 2:
                text = text[:at] + chance.choice(SPLINTERS) + text[end:]
            case 3:
                text = chance.choice(SCHEMES) + text.partition("://")[2]
            case 4:
                ip = chance.choice(PRIVATE)
                text = text[:at] + (f"[{ip}]" if ":" in ip else ip) + text[end:]
            case 5:
                text = (
                    text[:at] + "".join(f"%{byte:02x}" for byte in text[at:end].encode(errors="replace")) + text[end:]
                )
            case 6:
                text = text[:at] + text[at:end].swapcase() + chance.choice(seeds)[:40] + text[end:]
            case _:
                text = text[:at] + chr(chance.randrange(0x110000)) + text[end:]
    return text


def _is_public(ip: str) -> bool:
    """Return the verdict of the standard library, which is independent of our table.

    Tunnels into private networks are excluded.
    """
    address = ipaddress.ip_address(ip)
    inside = any(address.version == network.version and address in network for network in TUNNELS)
    return address.is_global and not address.is_multicast and not inside


def _check(where: str, probe: ReaderProbe, network: HostileNetwork) -> None:
    assert probe.outcome in {"read", *ERRORS}, where
    assert all(_is_public(ip) and port in PORTS for ip, port in probe.connections), where
    assert len(network.names) <= MAX_REDIRECTS + 1, where
    assert all(name.isascii() and not set(name) & set("\r\n /\\@:%") for name in network.names), where
    if probe.outcome == "read":
        assert probe.connections, where


@pytest.mark.parametrize("portion", range(PORTIONS))
async def test_only_public_addresses_are_dialled(portion: int) -> None:
    """A mutation raises only errors of the reader, never connects to a private address, and resolves each name once for
    each hop.
    """
    chance = fuzz.chance(portion)
    outcomes: Counter[str] = Counter()
    for _ in range(MUTATIONS // PORTIONS):
        url, network = _mutated(chance, ADDRESSES), HostileNetwork(chance)
        probe = await probe_reader(url, network.resolve, network.respond)
        _check(f"{url!a} {probe} {network.names}", probe, network)
        outcomes[probe.outcome] += 1
    assert outcomes.total() * MIN_SHARE < min(outcomes["read"], outcomes["page_request"])
