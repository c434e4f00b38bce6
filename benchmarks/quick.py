"""The price of an answer over HTTP, in under three minutes: a floor that reads as many pages, and ours, in turn.

    make bench-quick

Settings are the defaults of a server with a model: pages are read, doubted sentences are judged. Ours reads some pages before
the text is written and others, which the text cites, while it is written. CPU is compared with a floor that reads as many of
both, and the log of the fake upstreams tells how many pages each has read: no two questions have a page in common, because
researches that read the same page at once share it. Answers a second and the slowest answer are compared with a floor that
reads only the pages before the text. A deep answer is compared without its further round, which no floor
makes; what it takes with the round is told. CPU is that of the server with its parsers. Run it before and after a change of
what lies on an answer's path, on a machine that is otherwise idle.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import (
    ROOT,
    USUAL_LATENCY,
    control,
    environment,
    fake_upstreams,
    median,
    percentile,
    stopped_at_the_end,
    wait_until,
)  # fmt: skip
from benchmarks.fake_upstreams import PAGE
from benchmarks.over_http import TICKS, Load, answers, free_port

PAGE_MS = 150.0
SAMPLE_S = 0.1
ONE_S, CROWD_S, WARM_S = 6.0, 5.0, 4.0
ONE_ROUNDS, CROWD_ROUNDS = 2, 2
CROWD, PLAIN_CROWD = 20, 50
ASKED: dict[str, dict[str, object]] = {"shallow": {"depth": "shallow"}, "deep": {"depth": "deep", "rounds": 0}}
DEEP_WITH_ROUNDS: dict[str, object] = {"depth": "deep"}
# What counts as good, as a ratio to the floor.
ONE_CPU, ONE_WALL = {"shallow": 2.0, "deep": 2.0}, {"shallow": 1.05, "deep": 1.08}
CROWD_CPU, CROWD_RATE, CROWD_P99, PLAIN_CPU = 1.8, 0.9, 1.15, 2.2
CLIENT_MB, PARSERS_MB = 2.0, 110


class Server(NamedTuple):
    pid: int
    port: int


class Side(NamedTuple):
    """A server, and the fields of a request beside its question."""

    server: Server
    asked: dict[str, object]


class Figures(NamedTuple):
    """Of one run: seconds, milliseconds of CPU and pages an answer, and answers a second."""

    wall_s: float
    p99_s: float
    cpu_ms: float
    pages: float
    a_second: float
    errors: int


def processes(pid: int) -> list[int]:
    """Return the process and its children (Linux)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()  # Each thread lists the children that it started.
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return [pid, *(descendant for child in children for descendant in processes(int(child)))]


def cpu_ms(pid: int) -> float:
    """CPU time of a process and its children, also of those that have ended."""
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    total = sum(map(int, ended)) / TICKS * 1e9
    for process in processes(pid):
        for thread in Path(f"/proc/{process}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e6


def resident_mb(pid: int) -> tuple[float, float]:
    """Memory of a process, and of its children together."""
    sizes = [
        int(Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024
        for process in processes(pid)
    ]
    return sizes[0], sum(sizes[1:])


class MemoryPeak:
    """A context manager that watches a server: the peaks of its own memory and of its parsers' together, in MB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.server = self.parsers = 0.0

    async def __aenter__(self) -> MemoryPeak:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            with suppress(OSError, IndexError):  # a parser ended meanwhile
                server, parsers = resident_mb(self._pid)
                self.server, self.parsers = max(self.server, server), max(self.parsers, parsers)
            await asyncio.sleep(SAMPLE_S)


@contextmanager
def running(app: str, upstream: str, **settings: str) -> Iterator[Server]:
    port = free_port()
    words = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--no-access-log", "--log-level", "warning"]
    env = {**environment(upstream), "LLM_PLATFORM_PORT": str(port), "CITATION_JUDGE": "", "READ_PAGES": "", **settings}
    with TemporaryDirectory() as store:
        server = subprocess.Popen(
            words, env={**env, "LLM_PLATFORM_DATA_DIR": store}, cwd=ROOT / "benchmarks", text=True
        )
        with stopped_at_the_end(server):
            wait_until(lambda: answers(port) or server.poll() is not None)
            yield Server(server.pid, port)


class Numbered(Load):
    """Asks no question twice in the whole run, and no two that have the same results."""

    asked = 0

    def _body(self, query: str) -> dict[str, object]:
        Numbered.asked += 1
        return {**self.body, "query": f"{Numbered.asked} {query}"}


async def loaded(server: Server, asked: dict[str, object], clients: int, seconds: float) -> Figures:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "reset")
    load = Numbered(server.port, "/research", asked, clients)
    cpu, began = cpu_ms(server.pid), time.monotonic()
    await load.run(seconds)
    took, count = time.monotonic() - began, len(load.walls)
    used = (cpu_ms(server.pid) - cpu) / count
    pages = sum(entry["path"].startswith(PAGE) for entry in control(upstream, "log")) / count
    return Figures(median(load.walls), percentile(load.walls, 0.99), used, pages, count / took, load.errors)


async def in_turn(sides: dict[str, Side], clients: int, seconds: float, rounds: int) -> dict[str, Figures]:
    """Medians of alternating rounds, and all errors."""
    runs: dict[str, list[Figures]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sorted(sides, reverse=number % 2 == 0):
            runs[name].append(await loaded(*sides[name], clients, seconds))
    return {name: _medians(found) for name, found in runs.items()}


def _medians(runs: list[Figures]) -> Figures:
    return Figures(
        median([run.wall_s for run in runs]),
        median([run.p99_s for run in runs]),
        median([run.cpu_ms for run in runs]),
        median([run.pages for run in runs]),
        median([run.a_second for run in runs]),
        sum(run.errors for run in runs),
    )


def reads_as_many(what: str, floor: Figures, ours: Figures) -> bool:
    """Print how many pages each reads for an answer. Return whether ours reads as many as the floor."""
    print(f"{what}: pages an answer: {floor.pages:.1f} of the floor, {ours.pages:.1f} of ours", flush=True)
    return round(ours.pages, 1) >= round(floor.pages, 1)


def row(what: str, floor: float, ours: float, bar: float, unit: str, *, least: bool = False) -> bool:
    ratio = ours / floor
    held = ratio >= bar if least else ratio <= bar
    sign = ">=" if least else "<="
    verdict = "held" if held else "MISSED"
    print(f"{what:54} {floor:9.2f} {ours:9.2f} {unit:3} {ratio:6.2f}x  {sign} {bar}x  {verdict}", flush=True)
    return held


async def with_pages(upstream: str) -> list[bool]:
    held: list[bool] = []
    with (
        running("benchmarks.floor_pages_server:app", upstream) as floor,
        running("modules.llm_platform.asgi:app", upstream) as ours,
    ):
        for server in (floor, ours):
            await loaded(server, DEEP_WITH_ROUNDS, 4, WARM_S)
        sides = {
            depth: {
                "floor": Side(floor, asked),
                "equal floor": Side(floor, {**asked, "further": True}),
                "ours": Side(ours, asked),
            }
            for depth, asked in ASKED.items()
        }
        for depth, compared in sides.items():
            one = await in_turn({name: compared[name] for name in ("equal floor", "ours")}, 1, ONE_S, ONE_ROUNDS)
            equal, own = one["equal floor"], one["ours"]
            held.append(reads_as_many(f"{depth}, one client", equal, own))
            held.append(row(f"{depth}, one client, CPU", equal.cpu_ms, own.cpu_ms, ONE_CPU[depth], "ms"))
            held.append(row(f"{depth}, one client, wall", equal.wall_s, own.wall_s, ONE_WALL[depth], "s"))
        before, _ = resident_mb(ours.pid)
        for depth, compared in sides.items():
            async with MemoryPeak(ours.pid) as memory:
                crowd = await in_turn(compared, CROWD, CROWD_S, CROWD_ROUNDS)
            base, equal, own = crowd["floor"], crowd["equal floor"], crowd["ours"]
            of = f"{depth}, {CROWD} clients"
            held.append(reads_as_many(of, equal, own))
            held.append(row(f"{of}, CPU", equal.cpu_ms, own.cpu_ms, CROWD_CPU, "ms"))
            held.append(row(f"{of}, answers a second", base.a_second, own.a_second, CROWD_RATE, "/s", least=True))
            held.append(row(f"{of}, p99", base.p99_s, own.p99_s, CROWD_P99, "s"))
            held.append(own.errors == 0)
            client_mb = (memory.server - before) / CROWD
            bars = f"<= {CLIENT_MB} and {PARSERS_MB}"
            print(f"{of}: {client_mb:.2f} MB a client, parsers {memory.parsers:.0f} MB together ({bars})")
            held += [client_mb <= CLIENT_MB, memory.parsers <= PARSERS_MB]
        for clients, seconds in ((1, ONE_S), (CROWD, CROWD_S)):
            told = await loaded(ours, DEEP_WITH_ROUNDS, clients, seconds)
            figures = (
                f"{told.cpu_ms:.2f} ms of CPU, {told.wall_s:.2f} s, {told.a_second:.2f} /s, p99 {told.p99_s:.2f} s"
            )
            print(f"deep with its further round, clients: {clients}: {figures}")
    return held


async def without_pages(upstream: str) -> list[bool]:
    """Compare the CPU of the words' check; tell what it is with the support model, which no floor has."""
    plain = {"READ_PAGES": "0", "CITATION_JUDGE": "off"}
    with (
        running("benchmarks.floor_pages_server:app", upstream, FLOOR_PAGES="0") as floor,
        running("modules.llm_platform.asgi:app", upstream, **plain, CITATION_ENCODER="off") as ours,
        running("modules.llm_platform.asgi:app", upstream, **plain) as reading,
    ):
        servers = {"floor": floor, "ours": ours, "with the encoder": reading}
        sides = {name: Side(server, ASKED["shallow"]) for name, server in servers.items()}
        for side in sides.values():
            await loaded(*side, 4, WARM_S)
        told = await in_turn(sides, PLAIN_CROWD, CROWD_S, 1)
    what = f"shallow without pages and judge, {PLAIN_CROWD} clients"
    held = row(f"{what}, CPU by words", told["floor"].cpu_ms, told["ours"].cpu_ms, PLAIN_CPU, "ms")
    print(f"{what}: {told['with the encoder'].cpu_ms:.0f} ms of CPU with the support model")
    return [held]


async def main() -> bool:
    print(f"{'':54} {'floor':>9} {'ours':>9}")
    with fake_upstreams() as upstream:
        os.environ["FLOOR_UPSTREAM"] = upstream
        control(upstream, "latency", {**USUAL_LATENCY, "page": PAGE_MS})
        control(upstream, "pages", {"hosts": True})
        return all(await with_pages(upstream) + await without_pages(upstream))


if __name__ == "__main__":
    sys.exit(not asyncio.run(main()))
