"""How soon a streamed research shows something: the first step and the first token of each route that streams.

The floor sends each token of the model at once; ours holds a line or sentence back until it is complete and sanitized. Rounds
alternate, one client asks at a time, and the median counts. Prints JSON; started by run.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from benchmarks.common import USUAL_LATENCY, control, median, topic
from benchmarks.watched_http import running

ROUNDS = 10
OURS, FLOOR = "modules.llm_platform.asgi:app", "benchmarks.floor_server:app"
READ_BYTES = 65_536


class Door(NamedTuple):
    """A route that streams. `step` and `token` match what its first event or chunk of each kind contains."""

    app: str
    path: str
    body: Callable[[str], dict[str, Any]]
    step: re.Pattern[bytes]
    token: re.Pattern[bytes]


def _chat(model: str) -> Callable[[str], dict[str, Any]]:
    return lambda query: {"model": model, "messages": [{"role": "user", "content": query}], "stream": True}


_EVENT, _DATA = re.compile(rb"event: \w"), re.compile(rb"data: \{")
_TOKEN, _DELTA = re.compile(rb"event: token"), re.compile(rb'"delta":\{[^{}]*"content":"[^"]')
DOORS = {
    "floor": Door(FLOOR, "/stream", lambda query: {"query": query}, _EVENT, _TOKEN),
    "floor, searched": Door(FLOOR, "/stream", lambda query: {"query": query}, re.compile(rb"event: searched"), _TOKEN),
    "/research": Door(OURS, "/research", lambda query: {"query": query, "stream": True}, _EVENT, _TOKEN),
    "/v1/chat/completions": Door(OURS, "/v1/chat/completions", _chat("research-shallow"), _DATA, _DELTA),
    "/v1/responses": Door(
        OURS,
        "/v1/responses",
        lambda query: {"model": "research-shallow", "input": query, "stream": True},
        _EVENT,
        re.compile(rb"event: response\.output_text\.delta"),
    ),
    "/perplexity": Door(OURS, "/perplexity/chat/completions", _chat("sonar"), _DATA, _DELTA),
}


async def first(door: Door, port: int, query: str) -> tuple[float, float]:
    """Seconds until the first step and the first token."""
    body = json.dumps(door.body(query)).encode()
    head = f"POST {door.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began, step_s, read = time.perf_counter(), None, b""
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        while not door.token.search(read):
            part = await reader.read(READ_BYTES)
            if not part:
                raise RuntimeError(f"{door.path} sent no token: {read[-500:]!r}")
            read += part
            if step_s is None and door.step.search(read):
                step_s = time.perf_counter() - began
        token_s = time.perf_counter() - began
        while await reader.read(READ_BYTES):  # the rest of this research must not run beside the next one
            pass
    finally:
        writer.close()
    return token_s if step_s is None else step_s, token_s


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", USUAL_LATENCY)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in DOORS}
    with ExitStack() as stack:
        ports = {app: stack.enter_context(running(app, upstream))[1] for app in (OURS, FLOOR)}
        for number in range(-1, ROUNDS):  # the first round warms up
            for position, name in enumerate(sorted(DOORS, reverse=number % 2 == 0)):
                door = DOORS[name]
                times = await first(door, ports[door.app], topic(1000 + number * len(DOORS) + position))
                if number >= 0:
                    found[name].append(times)
    figures = {
        name: {"step_s": median([step for step, _ in times]), "token_s": median([token for _, token in times])}
        for name, times in found.items()
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
