"""Memory of research runs under way, of open event streams, and of the rate limiter. Prints JSON; see run.py.

    python -m benchmarks.memory shallow|deep|stream|limiter        one of them alone

Each is measured in a process of its own, as the growth of its resident memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.common import USUAL_LATENCY, control, environment, stopped_at_the_end, topic, wait_until
from benchmarks.in_process import ours
from benchmarks.over_http import answers, free_port
from benchmarks.report_crowd import resident_mb
from benchmarks.soak import resident_mb as resident_mb_of

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter

RESEARCHES = 200
WARM = 20  # research runs that fill pools and caches
STREAMS = 1000
ADDRESSES = 1_000_000
OPEN_S = 100.0  # a search keeps its stream open for this long
OPEN_FILES = 4096


async def of_researches(depth: str) -> float:
    """MB of each of RESEARCHES at once, at their peak."""
    control(os.environ["FLOOR_UPSTREAM"], "latency", USUAL_LATENCY)
    async with build_platform() as platform:
        work = ours(platform)[depth]
        await asyncio.gather(*(work(topic(RESEARCHES + number)) for number in range(WARM)))
        before = resident_mb("VmRSS")
        assert all(await asyncio.gather(*(work(topic(number)) for number in range(RESEARCHES))))
    return (resident_mb("VmHWM") - before) / RESEARCHES


async def of_streams() -> float:
    """KB of a server for each of STREAMS, all of which have sent their first event and wait for a search."""
    upstream = os.environ["FLOOR_UPSTREAM"]
    port = free_port()
    words = [
        sys.executable,
        "-m",
        "uvicorn",
        "modules.llm_platform.asgi:app",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    more = {"MAX_CONCURRENT_RESEARCHES": "0", "SEARXNG_TIMEOUT_S": str(OPEN_S), "RESEARCH_TIMEOUT_S": str(2 * OPEN_S)}
    more |= {"LLM_PLATFORM_DATA_DIR": os.environ["LLM_PLATFORM_DATA_DIR"], "DRAIN_TIMEOUT_S": "0"}
    with stopped_at_the_end(subprocess.Popen(words, env={**environment(upstream), **more}, text=True)) as server:
        wait_until(lambda: answers(port) or server.poll() is not None)
        control(upstream, "latency", USUAL_LATENCY)
        for writer in await asyncio.gather(*(_opened(port, number) for number in range(WARM))):
            writer.close()
        control(upstream, "latency", {"search": OPEN_S * 1e3})
        before = resident_mb_of(server.pid)
        writers = [await _opened(port, WARM + number) for number in range(STREAMS)]
        await asyncio.sleep(1)
        grown = resident_mb_of(server.pid) - before
        for writer in writers:
            writer.close()
    return grown / STREAMS * 1024


async def _opened(port: int, number: int) -> asyncio.StreamWriter:
    """Return a connection whose stream has begun."""
    body = json.dumps({"query": topic(number), "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /research HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    writer.write(f"{head}\r\n\r\n".encode() + body)
    await reader.readuntil(b"event: started")
    return writer


async def of_the_limiter() -> float:
    """MB of a limiter that has seen ADDRESSES."""
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 30, 60, 5), RateLimit("server", 10**8, 3600, 10**8)))
    await limiter.take("first")
    before = resident_mb("VmRSS")
    for number in range(ADDRESSES):
        await limiter.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    return resident_mb("VmRSS") - before


MEASURES: dict[str, Any] = {
    "shallow": lambda: of_researches("shallow"),
    "deep": lambda: of_researches("deep"),
    "stream_kb": of_streams,
    "limiter_mb": of_the_limiter,
}


def main(arguments: Sequence[str]) -> None:
    if arguments:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        print(json.dumps(asyncio.run(MEASURES[arguments[0]]())))
        return
    words = [sys.executable, "-m", "benchmarks.memory"]
    told = {
        name: subprocess.run([*words, name], capture_output=True, text=True, check=True).stdout for name in MEASURES
    }
    print(json.dumps({name: json.loads(text.splitlines()[-1]) for name, text in told.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
