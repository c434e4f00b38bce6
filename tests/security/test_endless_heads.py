"""Endless request heads sent to real processes are cut off, while other clients are served.

To see the measurements: `pytest -s -p no:cacheprovider --hypothesis-profile=thorough
tests/security/test_endless_heads.py`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.forked_command import COMMAND_LINE, UVICORN, ForkedPython
from tests.support.fuzz import chosen

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

START_S = 180.0
ATTACK_MS = chosen(1500, 9000)  # for all attacks on a server; attacker and server each use a whole processor
BUSY_TIMES = 30  # further attacks if a busy machine has not yet let the server cut a connection
CONNECTIONS = 9  # one and eight
MAX_GROWTH_MB = 96  # buffers of closed connections until they are freed; without limits a second takes several hundred
ANSWER_S = 60.0
BLOCK_BYTES = 1 << 16
WORKER = """
import asyncio
from modules.llm_platform.presentation.kafka.worker.http import WorkerHttp
async def main():
    async with WorkerHttp(list, str).listening("127.0.0.1", 0) as port:
        print(f"http://127.0.0.1:{port}", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
ASGI = ("modules.llm_platform.asgi:app", "--port", "0", "--http")
SERVERS = {  # program and arguments
    "serve": (COMMAND_LINE, "serve", "--port", "0"),
    "uvicorn with httptools": (UVICORN, *ASGI, "httptools"),
    "uvicorn with h11": (UVICORN, *ASGI, "h11"),
    "worker": (WORKER,),
}
START = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /research HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT_HEADERS = b"a: b\r\n" * (BLOCK_BYTES // 6)
ONE_HEADER = b"x" * BLOCK_BYTES
ATTACKS = {  # the start of a request, and the endless data that follows
    "short headers": (START, SHORT_HEADERS),
    "one header": (START + b"a: ", ONE_HEADER),
    "an address": (b"GET /", ONE_HEADER),
    "short trailers": (CHUNKED + b"0\r\n", SHORT_HEADERS),
    "one trailer": (CHUNKED + b"0\r\na: ", ONE_HEADER),
}


@dataclass
class Target:
    kind: str
    pid: int
    port: int
    statuses: Counter[int] = field(default_factory=Counter)
    sent: int = 0

    def memory_mb(self, name: str) -> float:
        """Return VmRSS (the current memory) or VmHWM (its peak)."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) / 1024  # type: ignore[index]


@pytest.fixture(scope="module", params=SERVERS)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "sails.md").write_text("# Solar sails\n\nSolar sails are pushed by light.\n")
    environment = {
        **os.environ,
        "DOCUMENTS_DIR": str(folder),
        "LLM_PLATFORM_OFFLINE": "true",
        "EMBEDDER": "none",
        "LLM_PLATFORM_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        "RATE_LIMIT_PER_MINUTE": "0",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
    }
    log = folder.parent / f"log of {request.param}"
    with log.open("w") as file:
        process = ForkedPython(*SERVERS[request.param], env=environment, stdout=file, stderr=file)
    try:
        until_s = time.monotonic() + START_S
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.05)
        yield Target(request.param, process.pid, int(found[1]))
    finally:
        process.kill()
        process.wait()


async def health_s(port: int) -> float:
    """Return how long /health takes on a new connection."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(START + b"Connection: close\r\n\r\n")
    try:
        answer = await reader.read()
    finally:
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    return time.monotonic() - began


async def attack(target: Target, start: bytes, block: bytes, until_s: float) -> None:
    """Send endless data, and open a new connection whenever one is cut off."""
    while time.monotonic() < until_s:
        writer = None
        with suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
            answering = asyncio.create_task(reader.read(12))
            writer.write(start)
            while time.monotonic() < until_s and not answering.done():
                writer.write(block)
                target.sent += len(block)
                draining = asyncio.create_task(writer.drain())
                await asyncio.wait({draining, answering}, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                draining.cancel()
            with suppress(ConnectionError, TimeoutError):
                answer = await asyncio.wait_for(answering, 0.5)
                target.statuses[int(answer[9:12] or 0)] += 1
        if writer is not None:
            writer.transport.abort()


async def slowest_health(target: Target, attacks: list[asyncio.Task[None]]) -> float:
    """Return the slowest of repeated requests of another client, with at least one request."""
    slowest = 0.0
    while slowest == 0.0 or not all(task.done() for task in attacks):
        slowest = max(slowest, await asyncio.wait_for(health_s(target.port), ANSWER_S))
        await asyncio.sleep(0.1)
    return slowest


async def test_endless_heads_take_no_memory_and_block_no_client(target: Target) -> None:
    """Nine connections with endless headers, addresses or trailers are cut off.

    Memory stays almost constant, and another client is answered.
    """
    await health_s(target.port)
    for name, (start, block) in ATTACKS.items():
        before, target.statuses, target.sent = target.memory_mb("VmRSS"), Counter(), 0
        duration_s = ATTACK_MS / 1000 / len(ATTACKS)
        until_s = time.monotonic() + duration_s
        attacks = [asyncio.create_task(attack(target, start, block, until_s)) for _ in range(CONNECTIONS)]
        slowest = await slowest_health(target, attacks)
        await asyncio.gather(*attacks)
        for _ in range(BUSY_TIMES):
            if not target.statuses:
                await attack(target, start, block, time.monotonic() + duration_s)
        growth = target.memory_mb("VmHWM") - before
        sys.stderr.write(
            f"{target.kind}, {name}: {target.sent >> 20} MB sent, {before:.0f} MB + {growth:.0f} MB, "
            f"/health {slowest:.2f} s, {dict(target.statuses)}\n"
        )
        assert target.statuses, f"nothing was cut: {name}"
        assert growth < MAX_GROWTH_MB, name


def request(address: bytes, headers: bytes) -> bytes:
    return b"GET " + address + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + b"\r\n"


def numbered(count: int) -> bytes:
    return b"".join(b"x-%d: y\r\n" % number for number in range(count))


LARGEST_ADDRESS = b"/health?" + b"x" * (16 * 1024 - 8)
REQUESTS = {
    "all that is allowed": (request(LARGEST_ADDRESS, numbered(98)), 200, ""),
    "a header more": (request(b"/health", numbered(99)), 431, "headers_too_large"),
    "64,000 bytes of headers": (request(b"/health", b"x: " + b"y" * 64_000 + b"\r\n"), 200, ""),
    "more than 64 KiB of headers": (request(b"/health", b"x: " + b"y" * 65_536 + b"\r\n"), 431, "headers_too_large"),
    "a longer address": (request(LARGEST_ADDRESS + b"x", b""), 414, "address_too_long"),
}


async def sent(port: int, raw: bytes, piece: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for start in range(0, len(raw), piece):
            writer.write(raw[start : start + piece])
            await writer.drain()
        return await asyncio.wait_for(reader.read(), ANSWER_S)
    finally:
        writer.close()


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_limits_of_a_head(target: Target, name: str) -> None:
    """100 headers of 64 KiB together and an address of 16 KiB are accepted.

    A larger head gets a 431 or 414 problem, however it is split, and the connection is closed.
    """
    raw, status, code = REQUESTS[name]
    for piece in (len(raw), 1000):
        answer = await sent(target.port, raw, piece)
        assert answer[9:12] == str(status).encode(), (piece, answer[:500])
        if status != 200:
            assert b"application/problem+json" in answer
            assert target.kind == "worker" or code.encode() in answer
