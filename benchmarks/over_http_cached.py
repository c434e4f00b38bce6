"""Cached answers against a bare route with the same bytes, and two server processes against one. Prints JSON; see run.py.

The clients are one process that sends prepared bytes, so that they take little of the two cores.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.common import NO_LATENCY, control, environment, stopped_at_the_end, topic, wait_until
from benchmarks.over_http import ROUTES, answers, cpu_seconds, free_port

CLIENTS = 50
LOAD_S = 5.0
WARM_S = 1.5
OURS, BARE = "modules.llm_platform.asgi:app", "benchmarks.floor_server:bare"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Repeater(asyncio.Protocol):
    """One connection that sends the same request again as soon as it was answered."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.answered = self.errors = self.missing = 0
        self.open = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self.missing:
            self.missing -= len(data)
        else:
            self.open += data
            head, end, body = self.open.partition(b"\r\n\r\n")
            if not end:
                return
            found = _LENGTH.search(head + b"\r\n")
            assert found is not None
            self.missing = int(found[1]) - len(body)
            self.errors += not head.startswith(b"HTTP/1.1 200 ")
            self.open = b""
        if not self.missing:
            self.answered += 1
            self.transport.write(self.request)


def request_bytes(path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps({**body, "query": topic(1)}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\nAccept: application/json\r\n\r\n".encode() + content


async def load(port: int, request: bytes, seconds: float) -> tuple[int, int, float]:
    """Return the answers, the errors among them, and the seconds that they took."""
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    made = [await loop.create_connection(lambda: Repeater(request), "127.0.0.1", port) for _ in range(CLIENTS)]
    await asyncio.sleep(seconds)
    clients, took = [client for _, client in made], time.monotonic() - began
    for transport, _ in made:
        transport.abort()
    return sum(client.answered for client in clients), sum(client.errors for client in clients), took


def processes(pid: int) -> list[int]:
    """Return a process and its children (Linux)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(process for child in children for process in processes(int(child)))]


def loaded(app: str, request: bytes, env: dict[str, str], workers: int = 1) -> dict[str, float]:
    port = free_port()
    words = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--no-access-log", "--log-level", "warning"]
    more = ["--workers", str(workers)] if workers > 1 else []
    with stopped_at_the_end(subprocess.Popen([*words, *more], env=env, text=True)) as server:
        wait_until(lambda: answers(port) or server.poll() is not None)
        asyncio.run(load(port, request, WARM_S))  # fills the caches of all processes
        before = {pid: cpu_seconds(pid) for pid in processes(server.pid)}
        answered, errors, took = asyncio.run(load(port, request, LOAD_S))
        cpu = sum(cpu_seconds(pid) - before.get(pid, 0.0) for pid in processes(server.pid))
    return {"cpu_us": cpu / answered * 1e6, "a_second": answered / took, "errors": errors}


def answer_of(path: str, body: dict[str, Any], env: dict[str, str]) -> bytes:
    """Return what our server answers the second time."""
    port = free_port()
    words = [sys.executable, "-m", "uvicorn", OURS, "--port", str(port), "--no-access-log", "--log-level", "warning"]
    with stopped_at_the_end(subprocess.Popen(words, env=env, text=True)) as server:
        wait_until(lambda: answers(port) or server.poll() is not None)
        content = json.dumps({**body, "query": topic(1)}).encode()
        url, headers = f"http://127.0.0.1:{port}{path}", {"Content-Type": "application/json"}
        for _ in range(2):
            with _OPEN(urllib.request.Request(url, content, headers), timeout=10) as reply:
                found: bytes = reply.read()
    return found


def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", NO_LATENCY)
    folder = Path(os.environ["LLM_PLATFORM_DATA_DIR"])
    env = {**environment(upstream), "CACHE_TTL_S": "3600", "LLM_PLATFORM_DATA_DIR": str(folder)}
    result: dict[str, Any] = {}
    for route, (path, body) in ROUTES.items():
        same = folder / f"{route}.json"
        same.write_bytes(answer_of(path, body, env))
        request = request_bytes(path, body)
        bare = {**env, "BARE_PATH": path, "BARE_FILE": str(same)}
        result[route] = {"floor": loaded(BARE, request, bare), "ours": loaded(OURS, request, env)}
    one = result["shallow"]["ours"]
    two = loaded(OURS, request_bytes(*ROUTES["shallow"]), env, workers=2)
    print(json.dumps({"cached": result, "processes": {"one": one, "two": two}}))


if __name__ == "__main__":
    main()
