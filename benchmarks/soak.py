"""Hours of a server in minutes: mixed load with faults of the upstreams, and what must hold at the end (`make soak`).

    python -m benchmarks.soak --minutes 20

Of the requests to the first search provider, the first model and the page reader one in ten fails (429, 500, a reset, no
answer, half of a JSON text); the second provider and the second model are healthy. Answers read pages, of which some refuse
and some hang. Clients store threads, follow them and delete some, verify texts, some of them hostile, upload files, some of
them broken, crawl sites, hang up in mid-stream, or never read their stream. Prints
the memory of the server and of its parsers as it goes, and the laws with their figures; exit code 1 if one is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.attack_texts import ATTACKS
from benchmarks.common import ROOT, control, environment, fake_upstreams, stopped_at_the_end, topic, wait_until
from benchmarks.over_http import answers, free_port

CLIENTS = 16
FAULT_SHARE = 0.1
LATENCY_MS = {"search": 30.0, "first_token": 40.0, "token": 0.2, "reader": 50.0, "page": 100.0}
LATENCY_MS |= {"jitter": 0.6, "page_jitter": 0.88}
PAGES = {"hosts": True, "refused": [3], "hung": [5]}  # ranks of each search's results
ANSWER_S = 120.0  # every request is answered within it
IDLE_S = 20.0  # pause after the load; connections and background work of it end
SAMPLE_S = 2.0
TENTHS = 10  # a sample is printed for each tenth of the run
REPEATED = 20  # questions that are asked again and again
SERVER, PARSERS, FILES = "MB of the server", "MB of its parsers", "files that it has open"
QUARTERS = 4  # caches and pools are full after the first quarter of the run
GROWTH_MB = 16.0  # growth of the server, from the median of the second quarter to that of the last
PARSERS_GROWTH_MB = 32.0  # growth of its parsers together
ERROR_SHARE = 0.01  # share of the answers that have no fault of the client
IDLE_TASKS = 2  # more tasks than before the load
WEIGHTS = {
    "search": 30,
    "cached": 20,
    "shallow": 16,
    "stream": 12,
    "deep": 8,
    "report": 2,
    "bad": 6,
    "leaver": 6,
    "thread": 8,
    "verify": 8,
    "upload": 4,
    "crawl": 2,
}
CITED_SENTENCES = 60  # of a text to verify
CRAWLED_PAGES = 4
FOLLOW_UPS = 2  # follow-up questions of a thread, at most
DELETED_SHARE = 0.5  # share of the threads
LINES_BEFORE_LEAVING = 60  # lines of a stream, at most
STALLED_CLIENTS = 3  # clients that stall at the same time, beside CLIENTS
STALLED_S = 20.0  # one that reads nothing closes its connection after it
STALLED_BUFFER_BYTES = 4096
HOSTILE_SHARE, BROKEN_SHARE = 0.2, 0.3
HOSTILE = [build() for name, build in ATTACKS.items() if "acronyms" not in name]
BAD_BODIES = (
    b"{",
    b"[]",
    b'{"query": ""}',
    b'{"query": "x", "depth": "abysmal"}',
    b'{"query": "abc", "depth": 1}',
    b"\xff",
)
STATE = "/_soak"  # tasks of the event loop, answered by `served`


def served() -> Any:
    """Return the application of the environment, with its number of tasks at STATE (for uvicorn --factory)."""
    from modules.llm_platform.asgi import make_app

    app = make_app()

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != STATE:
            await app(scope, receive, send)
            return
        body = json.dumps({"tasks": len(asyncio.all_tasks())}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return with_state


@dataclass(frozen=True)
class Sample:
    """Resident memory of the server, and of its parsers together."""

    server_mb: float
    parsers_mb: float
    parsers: int
    files: int  # files that the server has open, connections included


@dataclass
class Tally:
    """What the clients saw. `outcomes`: (kind, result) to number."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    unanswered: int = 0
    asked: int = 0
    samples: list[Sample] = field(default_factory=list)  # every SAMPLE_S

    def total(self) -> int:
        return sum(self.outcomes.values())

    def errors(self) -> Counter[tuple[str, str]]:
        return Counter({key: n for key, n in self.outcomes.items() if key[1] not in ("ok", "left")})


class Clients:
    """Clients that each send a request of a random kind as soon as the last one was answered."""

    def __init__(self, url: str, upstream: str, seed: int) -> None:
        self._upstream = upstream
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=CLIENTS)
        self.http = httpx2.AsyncClient(base_url=url, timeout=ANSWER_S, limits=limits, trust_env=False)
        self.tally = Tally()
        self._chance = random.Random(seed)

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        stalled = (self._stalled_client(until) for _ in range(STALLED_CLIENTS))
        await asyncio.gather(*(self._client(until) for _ in range(CLIENTS)), *stalled)

    async def _client(self, until: float) -> None:
        while time.monotonic() < until:
            (kind,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            self.tally.asked += 1
            try:
                async with asyncio.timeout(ANSWER_S):
                    self.tally.outcomes[kind, await self._ask(kind, self.tally.asked)] += 1
            except TimeoutError:
                self.tally.unanswered += 1
                self.tally.outcomes[kind, "no answer"] += 1
            except httpx2.TransportError as error:
                self.tally.unanswered += 1
                self.tally.outcomes[kind, type(error).__name__] += 1

    async def _ask(self, kind: str, number: int) -> str:
        if kind == "search":
            return await self._post("/llm-platform/web-search", {"query": topic(number)})
        if kind == "bad":
            reply = await self.http.post("/research", content=self._chance.choice(BAD_BODIES))
            return "ok" if reply.status_code in (400, 415, 422) else str(reply.status_code)
        if kind == "cached":
            return await self._post("/research", {"query": topic(number % REPEATED)})
        body: dict[str, object] = {"query": topic(number), "depth": kind if kind in ("deep", "report") else "shallow"}
        if kind == "leaver":
            return await self._leave(body | {"depth": self._chance.choice(("shallow", "deep", "report"))})
        if kind == "stream":
            return await self._stream(body | {"stream": True})
        if kind == "thread":
            return await self._thread(body)
        if kind == "verify":
            return await self._verify(number)
        if kind == "upload":
            return await self._upload(number)
        if kind == "crawl":
            return await self._post(
                "/tavily/crawl", {"url": self._page(number), "limit": CRAWLED_PAGES, "max_depth": 1}
            )
        return await self._post("/research", body)

    def _page(self, number: int) -> str:
        return f"{self._upstream}/page/topic-{number}/1"

    async def _verify(self, number: int) -> str:
        """Verify a text with a given source and two pages; some clients leave, and some texts are attacks."""
        if self._chance.random() < HOSTILE_SHARE:
            reply = await self.http.post("/verify", json=self._chance.choice(HOSTILE))
            return "ok" if reply.status_code in (200, 422) else f"{reply.status_code} {reply.json().get('code')}"
        sentences = (
            f"The {topic(number + at)} was measured {at} times [{at % 3 + 1}]." for at in range(CITED_SENTENCES)
        )
        pages = ({"index": at, "url": self._page(number + at)} for at in (2, 3))
        sources = [{"index": 1, "text": topic(number) * 1000}, *pages]
        body = {"text": " ".join(sentences), "sources": sources, "find_sources": self._chance.random() < 0.2}
        if self._chance.random() < 0.2:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._chance.uniform(0.01, 0.3)):
                    await self._post("/verify", body)
            return "left"
        return await self._post("/verify", body)

    async def _upload(self, number: int) -> str:
        """Ask about a file, or send one that cannot be read."""
        is_broken = self._chance.random() < BROKEN_SHARE
        content = (
            b"%PDF-1.7 broken" if is_broken else f"# {topic(number)}\n\n{topic(number)} takes 12 days.\n".encode() * 200
        )
        file = {"name": "broken.pdf" if is_broken else "notes.md", "content": b64encode(content).decode()}
        reply = await self.http.post(
            "/research", json={"query": f"How long does {topic(number)} take?", "files": [file]}
        )
        wanted = 422 if is_broken else 200
        return "ok" if reply.status_code == wanted else f"{reply.status_code} {reply.json().get('code')}"

    async def _post(self, path: str, body: Mapping[str, object]) -> str:
        reply = await self.http.post(path, json=body)
        return "ok" if reply.status_code == 200 else f"{reply.status_code} {reply.json().get('code')}"

    async def _stream(self, body: dict[str, object], most_lines: float = float("inf")) -> str:
        last, lines = "", 0
        async with self.http.stream("POST", "/research", json=body) as reply:
            async for line in reply.aiter_lines():
                lines += 1
                if lines > most_lines:
                    return "left"
                if line.startswith("event: "):
                    last = line.removeprefix("event: ")
        return "ok" if last == "done" else f"ended with {last or reply.status_code}"

    async def _leave(self, body: dict[str, object]) -> str:
        """Close the connection before the answer, or in the middle of a stream."""
        if self._chance.random() < 0.5:
            await self._stream(body | {"stream": True}, self._chance.randint(1, LINES_BEFORE_LEAVING))
            return "left"
        try:
            async with asyncio.timeout(self._chance.uniform(0.01, 0.5)):
                await self._post("/research", body)
        except TimeoutError:
            pass
        return "left"

    async def _thread(self, body: dict[str, object]) -> str:
        """Store a question with its follow-up questions, read it as a thread, and delete some of them."""
        runs: list[str] = []
        for number in range(1 + self._chance.randint(0, FOLLOW_UPS)):
            follow_up = {"previous_id": runs[-1], "query": f"and its cost in year {number}?"} if runs else {}
            reply = await self.http.post("/research", json=body | {"store": True} | follow_up)
            if reply.status_code != 200:
                return f"{reply.status_code} {reply.json().get('code')}"
            runs.append(reply.json()["metadata"]["request_id"])
        thread = f"/research/threads/{runs[-1]}"
        reply = await self.http.get(thread)
        if reply.status_code != 200 or len(reply.json()["researches"]) != len(runs):
            return f"thread of {len(runs)}: {reply.status_code}"
        if self._chance.random() < DELETED_SHARE:
            deleted, after = await self.http.delete(thread), await self.http.get(thread)
            if (deleted.status_code, after.status_code) != (200, 404):
                return f"deleted: {deleted.status_code}, then {after.status_code}"
        return "ok"

    async def _stalled_client(self, until: float) -> None:
        """Ask for streams and read nothing of them."""
        while time.monotonic() < until:
            self.tally.asked += 1
            body = json.dumps({"query": topic(self.tally.asked), "depth": "report", "stream": True}).encode()
            head = "POST /research HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STALLED_BUFFER_BYTES)
                connection.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(connection, (self.http.base_url.host, self.http.base_url.port or 80))
                await loop.sock_sendall(connection, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await asyncio.sleep(min(STALLED_S, max(0.0, until - time.monotonic())))
            self.tally.outcomes["stalled", "left"] += 1


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def children(pid: int) -> list[int]:
    """Return the parsers; other children of its threads are none."""
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def sample(pid: int) -> Sample:
    parsers = []
    for child in children(pid):
        with suppress(OSError, StopIteration):  # it ended
            parsers.append(resident_mb(child))
    return Sample(resident_mb(pid), sum(parsers), len(parsers), len(list(Path(f"/proc/{pid}/fd").iterdir())))


async def sampled(tally: Tally, pid: int, seconds: float) -> None:
    """Take samples for so long, and print one in each tenth of the run."""
    began, passed, printed = time.monotonic(), 0.0, 0
    while passed < seconds:
        with suppress(OSError):  # a file of a thread that ended
            tally.samples.append(sample(pid))
        passed = time.monotonic() - began
        if tally.samples and passed * TENTHS / seconds >= printed:
            last = tally.samples[-1]
            print(
                f"{passed:5.0f} s  server {last.server_mb:4.0f} MB, {last.files} files; {last.parsers} parsers "
                f"{last.parsers_mb:4.0f} MB; {tally.total():,} requests, {tally.errors().total()} errors",
                flush=True,
            )
            printed += 1
        await asyncio.sleep(SAMPLE_S)


def settings(faulty: str, healthy: str, store: str) -> dict[str, str]:
    models = [
        {"name": name, "kind": "openai", "base_url": f"{url}/v1", "api_key": "benchmark", "model": "fake"}
        for name, url in (("faulty", faulty), ("healthy", healthy))
    ]
    ours = {
        "SEARXNG_URL": f"{faulty},{healthy}",
        "LLM_PROVIDERS": json.dumps(models),
        "LLM_PLATFORM_DATA_DIR": store,
        "CACHE_TTL_S": "600",
        "CACHE_MAX_ENTRIES": "60",
        "SEARXNG_TIMEOUT_S": "3",
        "LLM_TIMEOUT_S": "5",
        "JINA_TIMEOUT_S": "3",
        "RATE_LIMIT_PER_MINUTE": "0",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
    }
    return {
        name: value for name, value in {**environment(faulty), **ours}.items() if name != "READ_PAGES"
    }  # its default


Law = tuple[str, str, str, bool]  # what, figure, bar, held


def laws(tally: Tally, tasks: tuple[int, int], exit_code: int, tracebacks: int) -> Iterator[Law]:
    yield "every request is answered", f"{tally.unanswered} of {tally.asked:,} not", "0", not tally.unanswered
    errors, answered = (
        tally.errors(),
        sum(n for (kind, _), n in tally.outcomes.items() if kind not in ("leaver", "stalled")),
    )
    share = errors.total() / max(1, answered)
    yield "answers that are errors", f"{share:.2%} ({errors.total()})", f"< {ERROR_SHARE:.0%}", share < ERROR_SHARE
    found = figures(tally)
    for what, bar in ((SERVER, GROWTH_MB), (PARSERS, PARSERS_GROWTH_MB)):
        _, second, _, last = quarters(found[what])
        yield what, f"{second:.0f} to {last:.0f}", f"<= +{bar:.0f}", last - second <= bar
    before, after = tasks
    yield (
        "tasks without a request",
        f"{before} before, {after} after",
        f"<= +{IDLE_TASKS}",
        after <= before + IDLE_TASKS,
    )
    yield "defects in the log", str(tracebacks), "0", not tracebacks
    yield "exit code after SIGTERM", str(exit_code), "0", exit_code == 0


def figures(tally: Tally) -> dict[str, list[float]]:
    return {
        SERVER: [taken.server_mb for taken in tally.samples],
        PARSERS: [taken.parsers_mb for taken in tally.samples],
        FILES: [float(taken.files) for taken in tally.samples],
    }


def quarters(values: Sequence[float]) -> list[float]:
    """Return the median of each quarter of the run."""
    size = max(1, len(values) // QUARTERS)
    return [median(values[at * size : (at + 1) * size]) for at in range(QUARTERS)]


async def loaded(url: str, upstream: str, pid: int, seconds: float, seed: int) -> tuple[Tally, tuple[int, int]]:
    """Return what the clients saw, and the tasks before the load and after it; the last sample is taken after it, too."""
    clients = Clients(url, upstream, seed)
    async with clients.http as http:
        before = (await http.get(STATE)).json()["tasks"]
        sampling = asyncio.create_task(sampled(clients.tally, pid, seconds))
        await clients.run(seconds)
        await sampling
        await asyncio.sleep(IDLE_S)
        after = (await http.get(STATE)).json()["tasks"]
        clients.tally.samples.append(sample(pid))
    return clients.tally, (before, after)


def soak(seconds: float, seed: int) -> int:
    port = free_port()
    words = ["-m", "uvicorn", "--factory", "benchmarks.soak:served", "--port", str(port), "--no-access-log"]
    with fake_upstreams() as faulty, fake_upstreams() as healthy, TemporaryDirectory() as folder:
        for upstream in (faulty, healthy):
            control(upstream, "latency", LATENCY_MS)
            control(upstream, "pages", PAGES)
        control(faulty, "faults", {"share": FAULT_SHARE})
        log = Path(folder) / "server.log"
        with (
            log.open("w") as file,
            stopped_at_the_end(
                subprocess.Popen(
                    [sys.executable, *words],
                    env=settings(faulty, healthy, folder),
                    cwd=ROOT / "benchmarks",
                    stderr=file,
                    text=True,
                )
            ) as server,
        ):
            wait_until(lambda: answers(port) or server.poll() is not None)
            tally, tasks = asyncio.run(loaded(f"http://127.0.0.1:{port}", healthy, server.pid, seconds, seed))
            server.send_signal(signal.SIGTERM)
            exit_code = server.wait(60)
        text = log.read_text()
    return report(tally, list(laws(tally, tasks, exit_code, text.count("Traceback"))), text)


def report(tally: Tally, found: list[Law], log: str) -> int:
    print("requests:", ", ".join(f"{kind} {n:,}" for kind, n in sorted(by_kind(tally).items())))
    for what, values in figures(tally).items():
        medians = ", ".join(f"{value:.0f}" for value in quarters(values))
        print(f"{what}: {values[0]:.0f} at the start, quarters {medians}, {values[-1]:.0f} after the load")
    for (kind, result), number in tally.errors().most_common():
        print(f"  {kind}: {result}: {number}")
    for what, figure, bar, held in found:
        print(f"{what:<28} {figure:>28}   {bar}{'' if held else '   broken'}")
    if "Traceback" in log:
        print(log[max(0, log.index("Traceback") - 500) :][:4000], file=sys.stderr)
    return 0 if all(held for *_, held in found) else 1


def by_kind(tally: Tally) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for (kind, _), number in tally.outcomes.items():
        kinds[kind] += number
    return kinds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    sys.exit(soak(chosen.minutes * 60, chosen.seed))
