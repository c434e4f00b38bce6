"""Which addresses the safe reader opens, and which IP addresses it connects to, case by case and without sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.cases import for_each

from modules.llm_platform.infrastructure.http.guarded.url import is_public, parse_ip
from modules.llm_platform.testing import ReaderProbe, probe_reader
from shared.config import Settings

CORPUS = Path(__file__).with_name("ssrf.tsv")


class Case(NamedTuple):
    expect: str
    url: str
    dns: str
    redirects: tuple[str, ...]
    why: str


def cases() -> Iterator[Case]:
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            expect, url, dns, redirects, why = line.split("\t")
            yield Case(expect, json.loads(url), dns, () if redirects == "-" else tuple(json.loads(redirects)), why)


CASES = list(cases())


class Network:
    """DNS and the servers of one case."""

    def __init__(self, case: Case) -> None:
        self.answers = case.dns.split(";")
        self.redirects = list(case.redirects)
        self.names: list[str] = []
        self.asked: list[tuple[str, int, str, str]] = []

    def resolve(self, host: str) -> Sequence[str]:
        self.names.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer in ("NXDOMAIN", "-"):
            raise LookupError(host)
        return [] if answer == "EMPTY" else answer.split(",")

    def respond(self, ip: str, port: int, host: str, target: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((ip, port, host, target))
        if self.redirects:
            return 302, {"Location": self.redirects.pop(0)}, b"moved"
        return 200, {"Content-Type": "text/html; charset=utf-8"}, b"<title>Page</title><p>Some text.</p>"


async def probed(case: Case, **settings: str) -> tuple[ReaderProbe, Network]:
    network = Network(case)
    given = Settings(_env_file=None, **settings) if settings else None
    return await probe_reader(case.url, network.resolve, network.respond, given), network


def all_public(probe: ReaderProbe) -> bool:
    ips = [parse_ip(ip) for ip, _ in probe.connections]
    return all(ip is not None and is_public(ip) for ip in ips) and {p for _, p in probe.connections} <= {
        80,
        443,
        8080,
        8443,
    }


def test_the_corpus_is_large() -> None:
    """Every rule has cases on both sides of each boundary."""
    expects = [case.expect for case in CASES]
    assert len(expects) >= 400
    assert expects.count("allow") >= 60


@for_each("case", CASES)
async def test_only_public_addresses_are_opened(case: Case) -> None:
    """A non-public address is refused before a connection. A public address is read."""
    probe, network = await probed(case)
    assert all_public(probe), probe
    if case.expect == "block":
        assert probe.outcome in ("page_request", "page_connection", "page_error")
    elif case.expect == "allow":
        assert probe.outcome == "read"
        assert len(probe.connections) == len(case.redirects) + 1
    assert len(network.asked) == len(probe.connections)


@for_each("case", CASES)
async def test_a_name_is_resolved_once_for_each_hop(case: Case) -> None:
    """Each hop resolves one name. Only a refused name is resolved without a connection."""
    probe, network = await probed(case)
    assert len(network.names) <= len(probe.connections) + 1
    assert all(name.isascii() and not name.endswith(".") for name in network.names)


@for_each(
    ("url", "dns", "allowed", "outcome"),
    [
        ("http://127.0.0.1:9999/", "-", "127.0.0.1:9999", "read"),
        ("http://127.0.0.1:9998/", "-", "127.0.0.1:9999", "page_request"),
        ("http://127.0.0.1/", "-", "127.0.0.1:9999", "page_request"),
        ("http://127.0.0.1:1/", "-", "127.0.0.1", "read"),
        ("http://127.1/", "-", "127.0.0.1", "page_request"),
        ("http://u@127.0.0.1/", "-", "127.0.0.1", "page_request"),
        ("ftp://127.0.0.1/", "-", "127.0.0.1", "page_request"),
        ("http://localhost:3000/", "127.0.0.1", "localhost", "read"),
        ("http://LOCALHOST:3000/", "127.0.0.1", "LocalHost:3000", "read"),
        ("http://wiki/page", "10.0.0.5", "wiki", "read"),
        ("http://wiki./page", "10.0.0.5", "wiki", "read"),
        ("http://wiki.corp.internal/", "10.0.0.5", "wiki.corp.internal:80", "read"),
        ("http://www.wiki/", "10.0.0.5", "wiki", "page_request"),
        ("http://evil.example.net:9999/", "127.0.0.1", "127.0.0.1:9999", "page_request"),
        ("http://evil.example.net/", "10.0.0.5", "wiki", "page_request"),
        ("http://10.1.2.3:5000/", "-", "10.1.0.0/16", "read"),
        ("http://10.2.0.1/", "-", "10.1.0.0/16", "page_request"),
        ("http://pages.example.net:5000/", "10.1.2.3", "10.1.0.0/16", "read"),
        ("http://pages.example.net:5000/", "93.184.215.14", "10.1.0.0/16", "page_request"),
        ("http://pages.example.net/", "10.1.2.3,93.184.215.14", "10.1.0.0/16", "read"),
        ("http://pages.example.net/", "10.1.2.3,192.168.0.1", "10.1.0.0/16", "page_request"),
        ("http://pages.example.net:5000/", "10.1.2.3,93.184.215.14", "10.1.0.0/16", "page_request"),
        ("http://db/", "10.1.2.3", "10.1.0.0/16", "page_request"),
        ("http://[::1]:81/", "-", "[::1]:81", "read"),
        ("http://[::1]:82/", "-", "[::1]:81", "page_request"),
        ("http://[0:0::1]:82/", "-", "::1", "read"),
        ("http://[fd12::9]/", "-", "fd00::/8", "read"),
        ("http://93.184.215.14/", "-", "wiki,127.0.0.1:1", "read"),
    ],
)
async def test_allowed_hosts_are_read(url: str, dns: str, allowed: str, outcome: str) -> None:
    """READER_ALLOWED_HOSTS permits only the listed host, host and port, or network."""
    probe, _ = await probed(Case("", url, dns, (), ""), READER_ALLOWED_HOSTS=allowed)
    assert probe.outcome == outcome
    assert bool(probe.connections) == (outcome == "read")


async def test_a_public_page_cannot_redirect_inside_by_permission_of_another_host() -> None:
    """Every redirect is checked against the same permissions."""
    inside = Case("", "http://a.example.net/", "93.184.215.14", ("http://10.0.0.5/",), "")
    assert (await probed(inside, READER_ALLOWED_HOSTS="10.0.0.5"))[0].outcome == "read"
    assert (await probed(inside, READER_ALLOWED_HOSTS="10.0.0.6"))[0].outcome == "page_request"


async def test_the_connection_uses_the_checked_address() -> None:
    """The connection goes to the checked IP address.

    The Host header has the name, and the target is the path and query in ASCII.
    """
    case = Case("", "https://münchen.example.net:8443/ü?q=a b#c".replace(" ", "%20"), "93.184.215.14", (), "")
    _, network = await probed(case)
    assert network.names == ["xn--mnchen-3ya.example.net"]
    assert network.asked == [("93.184.215.14", 8443, "xn--mnchen-3ya.example.net", "/%C3%BC?q=a%20b")]


async def test_the_next_address_is_dialled_when_one_does_not_answer() -> None:
    """A name with two addresses is reachable if one of them answers."""
    tried: list[str] = []

    def respond(ip: str, port: int, host: str, target: str) -> tuple[int, dict[str, str], bytes]:
        tried.append(ip)
        if len(tried) == 1:
            raise ConnectionRefusedError
        return 200, {"Content-Type": "text/plain"}, b"text"

    probe = await probe_reader("http://a.example.net/", lambda host: ["2620:fe::9", "9.9.9.9"], respond)
    assert probe == ReaderProbe("read", [("2620:fe::9", 80), ("9.9.9.9", 80)])
    assert tried == ["2620:fe::9", "9.9.9.9"]


async def test_no_address_answers() -> None:
    """If none answers, there is one error after at most four addresses."""

    def respond(ip: str, port: int, host: str, target: str) -> tuple[int, dict[str, str], bytes]:
        raise ConnectionRefusedError

    probe = await probe_reader("http://a.example.net/", lambda host: [f"9.9.9.{n}" for n in range(1, 9)], respond)
    assert probe.outcome == "page_connection"
    assert len(probe.connections) == 4
