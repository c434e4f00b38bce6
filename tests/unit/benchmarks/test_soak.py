"""The soak run breaks a law exactly if it is broken, and its fake spoils the share of requests that it is told to."""

from __future__ import annotations

from collections import Counter

import httpx2
from benchmarks.common import NO_LATENCY, control, fake_upstreams
from benchmarks.over_http_cached import Repeater
from benchmarks.soak import GROWTH_MB, PARSERS, PARSERS_GROWTH_MB, SERVER, Sample, Tally, laws, report
from tests.support.cases import for_each

STEADY = [100.0, 150.0, 180.0] + [200.0] * 7
GROWING = [*STEADY[:6], *[201 + GROWTH_MB] * 4]


def tally(errors: int = 0, unanswered: int = 0, server: list[float] = STEADY, parsers: list[float] = STEADY) -> Tally:
    samples = [Sample(server_mb, parsers_mb, 2, 50) for server_mb, parsers_mb in zip(server, parsers, strict=True)]
    outcomes = Counter({("search", "ok"): 1000 - errors, ("leaver", "left"): 50, ("deep", "503 x"): errors})
    return Tally(outcomes, unanswered, 1050, samples)


@for_each(
    ("seen", "tasks", "exit_code", "tracebacks", "broken"),
    [
        (tally(errors=9), (3, 5), 0, 0, []),
        (tally(unanswered=1), (3, 3), 0, 0, ["every request is answered"]),
        (tally(errors=10), (3, 3), 0, 0, ["answers that are errors"]),
        (tally(server=GROWING), (3, 3), 0, 0, [SERVER]),
        (tally(parsers=[mb + PARSERS_GROWTH_MB * (mb > 200) for mb in GROWING]), (3, 3), 0, 0, [PARSERS]),
        (tally(), (3, 6), 0, 0, ["tasks without a request"]),
        (tally(), (3, 3), 1, 2, ["defects in the log", "exit code after SIGTERM"]),
    ],
)
def test_each_law_breaks_alone(
    seen: Tally, tasks: tuple[int, int], exit_code: int, tracebacks: int, broken: list[str]
) -> None:
    """The growth of the first minutes is none; the exit code of the run is 1 if a law is broken."""
    found = list(laws(seen, tasks, exit_code, tracebacks))
    assert [what for what, _, _, held in found if not held] == broken
    assert report(seen, found, "") == bool(broken)


KINDS = {"answer", "half of a JSON text", "429", "500", "no answer", "reset"}


async def test_fake_spoils_requests_in_each_way() -> None:
    """Each fault occurs, some requests are answered, and control is never spoilt."""
    with fake_upstreams() as upstream:
        control(upstream, "latency", NO_LATENCY)
        control(upstream, "faults", {"share": 0.5})
        seen: set[str] = set()
        async with httpx2.AsyncClient(base_url=upstream, trust_env=False, timeout=1.0) as client:
            for number in range(400):
                seen.add(await _outcome(client, number))
                if seen == KINDS:
                    break
        control(upstream, "faults", {"share": 0.0})
    assert seen == KINDS


async def _outcome(client: httpx2.AsyncClient, number: int) -> str:
    try:
        reply = await client.get("/search", params={"q": f"tides {number}"})
    except httpx2.TimeoutException:
        return "no answer"
    except httpx2.TransportError:
        return "reset"
    if reply.status_code != 200:
        return str(reply.status_code)
    return "half of a JSON text" if reply.content.endswith(b"http") else "answer"


class Wire:
    """A transport that counts what is sent."""

    def __init__(self) -> None:
        self.sent = 0

    def write(self, data: bytes) -> None:
        self.sent += 1


def test_repeater_counts_answers_in_any_parts() -> None:
    """However an answer is cut into packets, it is one answer, and the next request follows."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
    for step in range(1, len(answer) + 1):
        client, wire = Repeater(b"request"), Wire()
        client.transport = wire  # type: ignore[assignment]
        for data in (answer, answer.replace(b"200 OK", b"503 No")):
            for at in range(0, len(data), step):
                client.data_received(data[at : at + step])
        assert (client.answered, client.errors, wire.sent) == (2, 1, 2), step
