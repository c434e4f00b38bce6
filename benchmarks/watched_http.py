"""What limits, metrics, log lines and circuit breakers cost a search request: our server without and with them, in turn.

Short rounds alternate, so that a drift of the machine hits both; the median of their ratios counts. Prints JSON; started by
run.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from benchmarks.common import USUAL_LATENCY, control, environment, median, stopped_at_the_end, wait_until
from benchmarks.over_http import ROUTES, WARM_S, Load, answers, free_port

SERVERS = {"without": "benchmarks.bare_server:app", "with": "modules.llm_platform.asgi:app"}
ROUNDS, ROUND_S = 20, 1.0


def cpu_ns(pid: int) -> int:
    """CPU time of a process, in steps that are fine enough for a short round (Linux)."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


@contextmanager
def running(app: str, upstream: str, **settings: str) -> Iterator[tuple[int, int]]:
    """Pid and port of a server that writes its log lines to a file."""
    port = free_port()
    words = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--no-access-log", "--log-level", "warning"]
    usual = {"LLM_PLATFORM_PORT": str(port), "LOG_LEVEL": "INFO", "LOG_FORMAT": "json"}
    env = {**environment(upstream), **usual, **settings}
    with TemporaryFile() as log, stopped_at_the_end(subprocess.Popen(words, env=env, text=True, stderr=log)) as server:
        wait_until(lambda: answers(port) or server.poll() is not None)
        yield server.pid, port


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", USUAL_LATENCY)
    path, body = ROUTES["search"]
    with ExitStack() as stack:
        servers = {name: stack.enter_context(running(app, upstream)) for name, app in SERVERS.items()}
        for _, port in servers.values():
            await Load(port, path, body).run(WARM_S)
        rounds: list[dict[str, float]] = []
        errors = 0
        for number in range(ROUNDS):
            cpu_ms = {}
            for name in sorted(servers, reverse=number % 2 == 0):  # a drift within a round must not favour one of them
                pid, port = servers[name]
                load, began = Load(port, path, body), cpu_ns(pid)
                await load.run(ROUND_S)
                cpu_ms[name] = (cpu_ns(pid) - began) / len(load.walls) / 1e6
                errors += load.errors
            rounds.append(cpu_ms)
    ratio = median([round_["with"] / round_["without"] for round_ in rounds])
    figures = {f"{name}_ms": median([round_[name] for round_ in rounds]) for name in SERVERS}
    print(json.dumps({**figures, "ratio": ratio, "errors": errors}))


if __name__ == "__main__":
    asyncio.run(main())
