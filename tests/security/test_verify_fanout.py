"""Verifying a text cannot flood a host that it does not name. benchmarks/attack_verify_fanout.py measures this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.support.cases import for_each
from tests.support.reading_pages import HTML, html, reader

from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.domain.concurrency.page_allowance import MANY_OF_HOST, MAX_PAGES_PER_HOST
from modules.llm_platform.testing.web_search import FakeWebSearch

VICTIM = "victim.example.net"
SOURCES = 160


class Redirecting:
    """Every host redirects to a page of the victim, directly or through another page. `seen` counts requests by host."""

    def __init__(self, hops: int) -> None:
        self.hops = hops
        self.seen: Counter[str] = Counter()
        self.robots: Counter[str] = Counter()

    def respond(self, ip: str, port: int, host: str, target: str) -> tuple[int, Mapping[str, str], bytes]:
        self.seen[host] += 1
        if target == "/robots.txt":
            self.robots[host] += 1
            return 404, HTML, b""
        hop = target.count("x")
        if host == VICTIM:
            return 200, HTML, html("<p>Tea is a drink that is made of leaves.</p>")
        location = f"{target}x" if hop + 1 < self.hops else f"http://{VICTIM}{target}"
        return 302, {"Location": location}, b""


def text_citing(sources: int) -> str:
    sentences = " ".join(f"Tea number {number} is a drink [{number}]." for number in range(1, sources + 1))
    entries = "\n".join(f"[{number}] http://a{number % 7}.example.org/{number}" for number in range(1, sources + 1))
    return f"{sentences}\n\n{entries}"


@for_each("hops, robots", [(1, False), (3, False), (2, True)])
async def test_redirects_count_for_their_target_host(hops: int, robots: bool) -> None:
    """The limit of pages for one host applies to redirect targets and to robots.txt.

    Sources beyond the limit are reported.
    """
    web = Redirecting(hops)
    verified = await VerificationService(reader(web.respond, robots=robots), FakeWebSearch()).verify(
        text_citing(SOURCES)
    )
    assert web.seen[VICTIM] == MAX_PAGES_PER_HOST
    assert web.robots[VICTIM] == robots
    states = Counter(source.state for source in verified.sources)
    assert states == {"read": MAX_PAGES_PER_HOST - robots, "refused": SOURCES - MAX_PAGES_PER_HOST + robots}
    assert {source.reason for source in verified.sources if source.state == "refused"} == {MANY_OF_HOST}
