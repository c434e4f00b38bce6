"""Floor server and our server under the same load, in turn. Prints JSON; started by run.py."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import USUAL_LATENCY, control, environment, percentile, stopped_at_the_end, topic, wait_until

CLIENTS, CROWD = 50, 500
LOAD_S = 5.0
ROUNDS = {CLIENTS: 3, CROWD: 1}  # their medians count: single ones of 50 clients scatter by a third
WARM_S = 1.5
ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "search": ("/llm-platform/web-search", {"count": 10}),
    "shallow": ("/research", {"depth": "shallow"}),
    "deep": ("/research", {"depth": "deep", "rounds": 0}),  # no floor makes a further round
}
SERVERS = {"floor": "benchmarks.floor_server:app", "ours": "modules.llm_platform.asgi:app"}
TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all threads (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Load:
    """As many clients, each asking again as soon as it was answered, over one kept-alive connection."""

    def __init__(self, port: int, path: str, body: dict[str, Any], clients: int = CLIENTS) -> None:
        self.port, self.path, self.body, self.clients = port, path, body, clients
        self.walls: list[float] = []
        self.errors = 0
        self._asked = 0

    async def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(self._client(until) for _ in range(self.clients)))

    async def _client(self, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.monotonic() < until:
            self._asked += 1
            began = time.monotonic()
            status = await self._ask(reader, writer, topic(self._asked))
            self.walls.append(time.monotonic() - began)
            self.errors += status != 200
        writer.close()

    def _body(self, query: str) -> dict[str, Any]:
        return {**self.body, "query": query}

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: str) -> int:
        body = json.dumps(self._body(query)).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = answer.partition("content-length:")[2].partition("\r\n")[0]
        await reader.readexactly(int(length))
        return int(answer.split(" ", 2)[1])


async def loaded(upstream: str, app: str, path: str, body: dict[str, Any], clients: int) -> dict[str, float]:
    port = free_port()
    words = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--no-access-log", "--log-level", "warning"]
    env = {**environment(upstream), "LLM_PLATFORM_PORT": str(port)}
    with stopped_at_the_end(subprocess.Popen(words, env=env, text=True)) as server:
        wait_until(lambda: answers(port) or server.poll() is not None)
        await Load(port, path, body, clients).run(WARM_S)
        load, cpu, began = Load(port, path, body, clients), cpu_seconds(server.pid), time.monotonic()
        await load.run(LOAD_S)
        took = time.monotonic() - began
        cpu = cpu_seconds(server.pid) - cpu
    return {
        "cpu_ms": cpu / len(load.walls) * 1e3,
        "p99_s": percentile(load.walls, 0.99),
        "a_second": len(load.walls) / took,
        "errors": load.errors,
    }


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", USUAL_LATENCY)
    rounds = [(clients, route) for clients, routes in ((CLIENTS, ROUTES), (CROWD, ["shallow"])) for route in routes]
    result: dict[int, dict[str, Any]] = {CLIENTS: {}, CROWD: {}}
    for clients, route in rounds:
        path, body = ROUTES[route]
        told = [
            {name: await loaded(upstream, app, path, body, clients) for name, app in SERVERS.items()}
            for _ in range(ROUNDS[clients])
        ]
        result[clients][route] = {name: _median([figures[name] for figures in told]) for name in SERVERS}
    print(json.dumps(result))


def _median(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure, and all errors."""
    return {name: (sum if name == "errors" else median)(round_[name] for round_ in rounds) for name in rounds[0]}


if __name__ == "__main__":
    asyncio.run(main())
