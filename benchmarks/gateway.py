"""What the check of the gateway adds to streams: the first token, the longest gap, and the end, for `off`, `annotate` and `mark`.

A fake service on loopback sends one token each TOKEN_S. CLIENTS read at once, each through the platform in a process of its own.
Rounds of the modes alternate, and a run straight to the fake service is the floor. Prints JSON.

    python -m benchmarks.gateway
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any, NamedTuple

from benchmarks.common import ROOT, STOP_S, environment, median

CLIENTS, ROUNDS = 20, 3
TOKEN_S, FIRST_S = 0.02, 0.2
DIRECT = "direct"
MODES = (DIRECT, "off", "annotate", "mark")
START_S = 60.0
FACTS = [f"The station number {number} delivers {number * 7} megawatts." for number in range(1, 13)]
ANSWER = " ".join(f"{fact[:-1]} [1]." if number % 3 else fact.replace("7", "9") for number, fact in enumerate(FACTS))
GIVEN = (
    "[1] Report\n"
    + "\n".join(FACTS)
    + "\n"
    + "The report was written by engineers of the region. " * 40
    + "\n\nDescribe the stations."
)
DONE = b"data: [DONE]\n\n"
FRAME = (
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",'
    '"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n'
)


class Timing(NamedTuple):
    """Milliseconds: until the first token, the longest pause between two tokens, and from the last token to the end."""

    first: float
    gap: float
    end: float


async def serve_tokens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with the stream of ANSWER."""
    with closing(writer), suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            words = ANSWER.split(" ")
            deltas = [json.dumps({"content": word if not number else f" {word}"}) for number, word in enumerate(words)]
            frames = [*(FRAME % (delta, "null") for delta in deltas), FRAME % ("{}", '"stop"')]
            for number, frame in enumerate(frames):
                await asyncio.sleep(TOKEN_S if number else FIRST_S)
                _write_chunk(writer, frame.encode())
                await writer.drain()
            _write_chunk(writer, DONE)
            writer.write(b"0\r\n\r\n")
            await writer.drain()


def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def time_stream(port: int, mode: str) -> Timing:
    body = json.dumps({"model": "vllm/fake", "messages": [{"role": "user", "content": GIVEN}], "stream": True}).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([] if mode == DIRECT else [f"X-Verify: {mode}"]),
    ]
    head = "\r\n".join([*lines, "", ""])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        began = time.perf_counter()
        writer.write(head.encode() + body)
        times: list[float] = []
        while line := await reader.readline():
            if b'"content":' in line and b'"evidence":' not in line:
                times.append(time.perf_counter())
            elif line.startswith(b"data: [DONE]"):
                break
        ended = time.perf_counter()
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return Timing((times[0] - began) * 1000, max(gaps) * 1000, (ended - times[-1]) * 1000)


async def measure() -> dict[str, Any]:
    upstream = await asyncio.start_server(serve_tokens, "127.0.0.1", 0)
    upstream_port = upstream.sockets[0].getsockname()[1]
    with closing(await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)) as probe:
        port = probe.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        values = {
            **environment(f"http://127.0.0.1:{upstream_port}"),
            "LLM_KIND": "vllm",
            "PYTHONPATH": f"{ROOT}/src:{ROOT}",
            "LLM_PLATFORM_DATA_DIR": folder,
            "RATE_LIMIT_PER_MINUTE": "0",
        }
        server = subprocess.Popen(
            [sys.executable, "-m", "modules.llm_platform", "serve", "--port", str(port)],
            env=values, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await _wait_until_ready(port)
            await asyncio.gather(*(time_stream(port, mode) for mode in MODES[1:]))  # Everything is loaded.
            found: dict[str, list[Timing]] = {mode: [] for mode in MODES}
            for _ in range(ROUNDS):
                for mode in MODES:
                    target = upstream_port if mode == DIRECT else port
                    found[mode] += await asyncio.gather(*(time_stream(target, mode) for _ in range(CLIENTS)))
        finally:
            server.terminate()
            server.wait(STOP_S)
            upstream.close()
    return {mode: _summarize(timings) for mode, timings in found.items()}


async def _wait_until_ready(port: int) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return writer.close()


def _summarize(timings: list[Timing]) -> dict[str, float]:
    """Return the median of each time, and the worst first token and gap of all streams, in milliseconds."""
    named = {name: [getattr(timing, name) for timing in timings] for name in Timing._fields}
    medians = {f"{name}_ms": round(median(values), 1) for name, values in named.items()}
    return {**medians, **{f"worst_{name}_ms": round(max(named[name]), 1) for name in ("first", "gap")}}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure()), indent=2))
