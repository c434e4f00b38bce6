"""Floor and platform in one process, in turn: one search, shallow and deep. Prints JSON; started by run.py."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from benchmarks.common import NO_LATENCY, USUAL_LATENCY, control, median, own_time, topic
from benchmarks.floor import Floor

from modules.llm_platform import LLMPlatform, ResearchRequest, WebSearchRequest
from modules.llm_platform.container import build_platform

SEARCH_BLOCKS, SEARCHES_A_BLOCK = 15, 40
RESEARCHES = 40
USUAL_ROUNDS = 6
LOG_DELAY_S = 0.003  # the fake closes its log entry just after the last byte

Work = Callable[[str], Awaitable[object]]


def ours(platform: LLMPlatform) -> dict[str, Work]:
    async def search(query: str) -> object:
        return (await platform.web_search.search(WebSearchRequest(query=query))).results

    async def research(query: str, depth: Literal["shallow", "deep"]) -> object:
        text = ""
        rounds = 0 if depth == "deep" else None  # no floor makes a further round
        asked = ResearchRequest(query=query, depth=depth, omit_raw=True, rounds=rounds)
        async for event in platform.research.stream(asked):
            if event.type == "done":
                text = event.response.synthesis
        return text

    return {"search": search, "shallow": lambda q: research(q, "shallow"), "deep": lambda q: research(q, "deep")}


async def searches(floor: Work, platform: Work) -> dict[str, float]:
    """Microseconds of one search; blocks in turn, the first of each only fills caches and pools."""
    walls: dict[str, list[float]] = {"floor": [], "ours": []}
    for block in range(SEARCH_BLOCKS + 1):
        for name, work in (("floor", floor), ("ours", platform)):
            began = time.perf_counter()
            for number in range(SEARCHES_A_BLOCK):
                assert await work(topic(number))
            if block:
                walls[name].append((time.perf_counter() - began) / SEARCHES_A_BLOCK * 1e6)
    return {name: median(values) for name, values in walls.items()}


async def measured(upstream: str, work: Work, question: str) -> tuple[float, float, float]:
    """Wall, own and CPU seconds of one research."""
    control(upstream, "reset")
    cpu, began = time.process_time(), time.monotonic()
    assert await work(question)
    ended, cpu = time.monotonic(), time.process_time() - cpu
    await asyncio.sleep(LOG_DELAY_S)
    return ended - began, own_time(control(upstream, "log"), began, ended), cpu


async def researches(
    upstream: str, floor: Work, platform: Work, rounds: int, first: int = 0
) -> dict[str, dict[str, float]]:
    """Medians of as many questions as `rounds`, the `first` one only fills caches and pools."""
    rows: dict[str, list[tuple[float, float, float]]] = {"floor": [], "ours": []}
    for number in range(rounds + 1):
        for name, work in (("floor", floor), ("ours", platform)):
            row = await measured(upstream, work, topic(first + number))
            if number:
                rows[name].append(row)
    kinds = ("wall_s", "own_s", "cpu_s")
    return {name: dict(zip(kinds, map(median, zip(*got, strict=True)), strict=True)) for name, got in rows.items()}


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    floor = Floor(upstream)
    async with build_platform() as platform:
        work = ours(platform)
        control(upstream, "latency", NO_LATENCY)
        result: dict[str, object] = {"search_us": await searches(floor.search, work["search"])}
        result["shallow"] = await researches(upstream, floor.shallow, work["shallow"], RESEARCHES)
        result["deep"] = await researches(upstream, floor.deep, work["deep"], RESEARCHES)
        control(upstream, "latency", USUAL_LATENCY)
        result["shallow_usual"] = await researches(upstream, floor.shallow, work["shallow"], USUAL_ROUNDS)
        result["deep_usual"] = await researches(upstream, floor.deep, work["deep"], USUAL_ROUNDS)
    await floor.close()
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
