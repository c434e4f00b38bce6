"""CPU of one search request over loopback through three transports of httpx2: ours, the openai package's, and httpx2's own.

    python benchmarks/transports.py

The fake runs in a process of its own. The transports take turns in blocks, so a drift of the machine hits all of them. Prints
the median, the least and the most CPU milliseconds of a call over the blocks.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import httpx2
from benchmarks.common import NO_LATENCY, control, fake_upstreams, median

from modules.llm_platform.infrastructure.http.aiohttp_transport import AiohttpTransport
from modules.llm_platform.infrastructure.http.client import KEEPALIVE_S, MAX_CONNECTIONS

CALLS, BLOCKS = 200, 10  # 2,000 calls of each
TIMEOUT_S = 30.0


def clients(upstream: str) -> Mapping[str, httpx2.AsyncClient]:
    from openai import DefaultAioHttpClient

    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_S)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def make(kind: Callable[..., httpx2.AsyncClient], **options: object) -> httpx2.AsyncClient:
        return kind(base_url=upstream, timeout=TIMEOUT_S, trust_env=False, limits=limits, verify=tls, **options)

    return {
        "ours": make(httpx2.AsyncClient, transport=AiohttpTransport(tls, limits)),
        "openai": make(DefaultAioHttpClient),
        "httpx2": make(httpx2.AsyncClient),
    }


async def cpu_ms(client: httpx2.AsyncClient, callers: int) -> float:
    """Return the CPU milliseconds of one call in a block of CALLS."""

    async def call() -> None:
        for _ in range(CALLS // callers):
            response = await client.get("/search", params={"q": "tidal power", "format": "json"})
            response.raise_for_status()

    began = time.process_time()
    await asyncio.gather(*(call() for _ in range(callers)))
    return (time.process_time() - began) / CALLS * 1000


async def measure(upstream: str) -> None:
    for callers in (1, 50):
        made = clients(upstream)
        blocks = [{name: await cpu_ms(client, callers) for name, client in made.items()} for _ in range(BLOCKS + 1)]
        for name, client in made.items():
            times = [block[name] for block in blocks[1:]]  # The first block only fills caches and pools.
            print(f"{callers} callers, {name}: {median(times):.3f} ms ({min(times):.3f} to {max(times):.3f})")
            await client.aclose()


def main() -> None:
    with fake_upstreams() as upstream:
        control(upstream, "latency", NO_LATENCY)
        asyncio.run(measure(upstream))


if __name__ == "__main__":
    main()
