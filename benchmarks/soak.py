"""Hours of a server in minutes: mixed load with faults of the upstreams, and what must hold at the end (`make soak`).

    python -m benchmarks.soak --minutes 20

Of the requests to the first search provider, the first model and the page reader one in ten fails (429, 500, a reset, no
answer, half of a JSON text); the second provider and the second model are healthy. Prints the laws with their figures; exit
code 1 if one is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import ROOT, control, environment, fake_upstreams, stopped_at_the_end, topic, wait_until
from benchmarks.over_http import answers, free_port

CLIENTS = 16
FAULT_SHARE = 0.1
LATENCY_MS = {"search": 30.0, "first_token": 40.0, "token": 0.2, "reader": 50.0, "jitter": 0.6}
ANSWER_S = 120.0  # within which every request is answered
IDLE_S = 20.0  # after the load; connections and background work of it end
SAMPLE_S = 2.0
REPEATED = 20  # questions that are asked again and again
TENTHS, WARM_TENTHS = 10, 3  # of the run; caches and pools are full after the first three
GROWTH_MB = 16.0  # from the time after warming up to the end
ERROR_SHARE = 0.01  # of the answers that have no fault of the client
IDLE_TASKS = 2  # more tasks than before the load
WEIGHTS = {
    "search": 30, "cached": 20, "shallow": 16, "stream": 12, "deep": 8, "report": 2, "bad": 6, "leaver": 6,
}
BAD_BODIES = (b"{", b"[]", b'{"query": ""}', b'{"query": "x", "depth": "abysmal"}', b'{"query": "abc", "depth": 1}', b"\xff")
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


@dataclass
class Tally:
    """What the clients saw. `outcomes`: (kind, result) to number."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    unanswered: int = 0
    asked: int = 0
    samples: list[float] = field(default_factory=list)  # MB of the server, every SAMPLE_S

    def total(self) -> int:
        return sum(self.outcomes.values())

    def errors(self) -> Counter[tuple[str, str]]:
        return Counter({key: n for key, n in self.outcomes.items() if key[1] not in ("ok", "left")})


class Clients:
    """Clients that each send a request of a random kind as soon as the last one was answered."""

    def __init__(self, url: str, seed: int) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=CLIENTS)
        self.http = httpx2.AsyncClient(base_url=url, timeout=ANSWER_S, limits=limits, trust_env=False)
        self.tally = Tally()
        self._chance = random.Random(seed)

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(self._client(until) for _ in range(CLIENTS)))

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
        return await self._post("/research", body)

    async def _post(self, path: str, body: Mapping[str, object]) -> str:
        reply = await self.http.post(path, json=body)
        return "ok" if reply.status_code == 200 else f"{reply.status_code} {reply.json().get('code')}"

    async def _stream(self, body: dict[str, object]) -> str:
        last = ""
        async with self.http.stream("POST", "/research", json=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("event: "):
                    last = line.removeprefix("event: ")
        return "ok" if last == "done" else f"ended with {last or reply.status_code}"

    async def _leave(self, body: dict[str, object]) -> str:
        """Close the connection before the answer, in one case of two in the middle of a stream."""
        stream = self._chance.random() < 0.5
        try:
            async with asyncio.timeout(self._chance.uniform(0.01, 0.5)):
                await (self._stream(body | {"stream": True}) if stream else self._post("/research", body))
        except TimeoutError:
            pass
        return "left"


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def sampled(tally: Tally, pid: int) -> None:
    while True:
        tally.samples.append(resident_mb(pid))
        await asyncio.sleep(SAMPLE_S)


def settings(faulty: str, healthy: str, store: str) -> dict[str, str]:
    models = [
        {"name": name, "kind": "openai", "base_url": f"{url}/v1", "api_key": "benchmark", "model": "fake"}
        for name, url in (("faulty", faulty), ("healthy", healthy))
    ]
    ours = {
        "SEARXNG_URL": f"{faulty},{healthy}", "LLM_PROVIDERS": json.dumps(models), "LLM_PLATFORM_DATA_DIR": store,
        "CACHE_TTL_S": "600", "CACHE_MAX_ENTRIES": "300", "SEARXNG_TIMEOUT_S": "3", "LLM_TIMEOUT_S": "5",
        "JINA_TIMEOUT_S": "3", "RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
    }
    return {**environment(faulty), **ours}


Law = tuple[str, str, str, bool]  # what, figure, bar, held


def laws(tally: Tally, tasks: tuple[int, int], exit_code: int, tracebacks: int) -> Iterator[Law]:
    yield "every request is answered", f"{tally.unanswered} of {tally.asked:,} not", "0", not tally.unanswered
    errors, answered = tally.errors(), sum(n for (kind, _), n in tally.outcomes.items() if kind != "leaver")
    share = errors.total() / max(1, answered)
    yield "answers that are errors", f"{share:.2%} ({errors.total()})", f"< {ERROR_SHARE:.0%}", share < ERROR_SHARE
    tenths = by_tenth(tally)
    warm, end = tenths[WARM_TENTHS], tenths[-1]
    growth = end - warm
    yield "memory of the server", f"{warm:.0f} to {end:.0f} MB", f"<= +{GROWTH_MB:.0f} MB", growth <= GROWTH_MB
    before, after = tasks
    yield "tasks without a request", f"{before} before, {after} after", f"<= +{IDLE_TASKS}", after <= before + IDLE_TASKS
    yield "defects in the log", str(tracebacks), "0", not tracebacks
    yield "exit code after SIGTERM", str(exit_code), "0", exit_code == 0


def by_tenth(tally: Tally) -> list[float]:
    """Mean MB in each tenth of the run."""
    size = max(1, len(tally.samples) // TENTHS)
    return [fmean(tally.samples[at * size : (at + 1) * size]) for at in range(TENTHS)]


async def loaded(url: str, pid: int, seconds: float, seed: int) -> tuple[Tally, tuple[int, int]]:
    """Return what the clients saw, and the tasks before the load and after it."""
    clients = Clients(url, seed)
    async with clients.http as http:
        before = (await http.get(STATE)).json()["tasks"]
        sampling = asyncio.create_task(sampled(clients.tally, pid))
        await clients.run(seconds)
        sampling.cancel()
        await asyncio.sleep(IDLE_S)
        after = (await http.get(STATE)).json()["tasks"]
    return clients.tally, (before, after)


def soak(seconds: float, seed: int) -> int:
    port = free_port()
    words = ["-m", "uvicorn", "--factory", "benchmarks.soak:served", "--port", str(port), "--no-access-log"]
    with fake_upstreams() as faulty, fake_upstreams() as healthy, TemporaryDirectory() as folder:
        for upstream in (faulty, healthy):
            control(upstream, "latency", LATENCY_MS)
        control(faulty, "faults", {"share": FAULT_SHARE})
        log = Path(folder) / "server.log"
        with log.open("w") as file, stopped_at_the_end(
            subprocess.Popen(
                [sys.executable, *words], env=settings(faulty, healthy, folder), cwd=ROOT / "benchmarks", stderr=file, text=True
            )
        ) as server:
            wait_until(lambda: answers(port) or server.poll() is not None)
            tally, tasks = asyncio.run(loaded(f"http://127.0.0.1:{port}", server.pid, seconds, seed))
            server.send_signal(signal.SIGTERM)
            exit_code = server.wait(60)
        text = log.read_text()
    return report(tally, list(laws(tally, tasks, exit_code, text.count("Traceback"))), text)


def report(tally: Tally, found: list[Law], log: str) -> int:
    print("requests:", ", ".join(f"{kind} {n:,}" for kind, n in sorted(by_kind(tally).items())))
    print("memory by tenth of the run:", ", ".join(f"{mb:.0f}" for mb in by_tenth(tally)), "MB")
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
