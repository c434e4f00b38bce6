"""A server process with its own upstream, started like users start it: `llm-platform serve`, or uvicorn.

A test that is not about the start or the end of the process uses one of FORKED_SERVERS, which start faster.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2
from tests.support.forked_command import COMMAND_LINE, UVICORN, forked
from tests.support.loopback_upstream import Exchange, Loopback, json_reply, serving

TIMEOUT_S = 60.0
START_S = 180.0  # limit on a busy machine; four or five seconds of CPU time are usual
LOOK_S = 0.1
SLEEPING_LOOKS = 3
SERVE = ("serve", "--port", "0")
SERVERS = {
    "serve": ["-m", "modules.llm_platform", *SERVE],
    "uvicorn": ["-m", "uvicorn", "modules.llm_platform.asgi:app", "--port", "0"],
}
SEVERAL_PROCESSES = {"workers": [*SERVERS["uvicorn"], "--workers", "2"]}  # answer in turn, so no state is to be seen
RESULT = {
    "title": "asyncio",
    "url": "https://example.org/a",
    "content": "asyncio is a library to write concurrent code.",
}
FORKED = "forked"
FORKED_SERVERS = {  # program and arguments
    FORKED: (COMMAND_LINE, SERVE),
    "forked uvicorn": (UVICORN, ("modules.llm_platform.asgi:app", "--port", "0")),
}
STREAM = {"Accept": "text/event-stream"}


class HasPid(Protocol):
    """A process, however it was started."""

    @property
    def pid(self) -> int: ...


class ServerProcess(HasPid, Protocol):
    """What tests do with an asyncio process and with a forked one."""

    @property
    def returncode(self) -> int | None: ...

    def send_signal(self, number: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


class GatedSearch:
    """A SearXNG that answers only when `gate` is set."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def handle(self, exchange: Exchange) -> None:
        gone = asyncio.create_task(exchange.reader.read(1))
        opened = asyncio.create_task(self.gate.wait())
        await asyncio.wait({gone, opened}, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        gone.cancel()
        if not self.gate.is_set():
            raise ConnectionResetError
        await json_reply({"query": "q", "results": [RESULT], "unresponsive_engines": []})(exchange)


@dataclass
class Served:
    process: ServerProcess
    client: httpx2.AsyncClient
    upstream: Loopback
    search: GatedSearch
    log: Path

    def research(self, number: int, **headers: str) -> asyncio.Task[httpx2.Response]:
        body = {"query": f"What is Python asyncio {number}?"}
        return asyncio.create_task(self.client.post("/research", json=body, headers=headers))

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), TIMEOUT_S)


@asynccontextmanager
async def served(kind: str, folder: Path, **settings: str) -> AsyncIterator[Served]:
    search = GatedSearch()
    async with serving(search.handle) as upstream:
        environment = {
            **os.environ,
            "SEARXNG_URL": upstream.url,
            "CACHE_TTL_S": "0",
            "RATE_LIMIT_PER_MINUTE": "0",
            "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
            "LLM_PLATFORM_DATA_DIR": str(folder),
            "ANSWER_ENCODER": "off",  # the first answer loads weights, which takes seconds while other tests run
            "RESEARCH_TIMEOUT_S": str(TIMEOUT_S),
            "SEARXNG_TIMEOUT_S": str(TIMEOUT_S),
            **settings,
        }
        async with _started(kind, folder, environment) as (process, log):
            found = await until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), START_S)
            async with httpx2.AsyncClient(
                base_url=found[0], timeout=TIMEOUT_S, limits=httpx2.Limits(max_connections=1000)
            ) as client:
                yield Served(process, client, upstream, search, log)


@asynccontextmanager
async def _started(
    kind: str, folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[tuple[ServerProcess, Path]]:
    """Yield the process, which ends with the block, and its log."""
    log = folder / "server.log"
    if kind in FORKED_SERVERS:
        program, arguments = FORKED_SERVERS[kind]
        async with forked(arguments, environment, log, program) as command:
            yield command, log
        return
    with log.open("w") as file:
        words = (SERVERS | SEVERAL_PROCESSES)[kind]
        process = await asyncio.create_subprocess_exec(sys.executable, *words, env=environment, stderr=file)
    try:
        yield process, log
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def asleep(process: HasPid) -> None:
    """Wait until no thread of the process and its children, such as parsers, is running or waiting for a processor or a
    disk. The process then has nothing to do until something arrives. A busy machine does not matter, because a runnable
    thread does not count as sleeping.
    """
    looks = 0
    while looks < SLEEPING_LOOKS:
        await asyncio.sleep(LOOK_S)
        looks = looks + 1 if _thread_states(process.pid) <= {"S", "Z"} else 0


def _thread_states(pid: int) -> set[str]:
    """Return the thread states of a process and its children, or nothing for an ended one."""
    states: set[str] = set()
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            states.add((thread / "stat").read_text().rpartition(") ")[2][0])
            for child in (thread / "children").read_text().split():
                states |= _thread_states(int(child))
    return states


async def until(condition: Callable[[], Any], within_s: float = TIMEOUT_S) -> Any:
    async with asyncio.timeout(within_s):
        while not (value := condition()):
            await asyncio.sleep(0.02)
    return value


def events_of(response: httpx2.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
