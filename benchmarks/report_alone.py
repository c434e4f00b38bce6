"""Floor and platform in one process, in turn: one report after the other, and one from the store. Prints JSON; see run.py."""

from __future__ import annotations

import asyncio
import json
import os
import time

from benchmarks.common import NO_LATENCY, USUAL_LATENCY, control, median, topic
from benchmarks.floor_report import ReportFloor
from benchmarks.in_process import Work, researches

from modules.llm_platform import LLMPlatform, ResearchRequest
from modules.llm_platform.container import build_platform

AT_ONCE_ROUNDS = 20  # upstreams at 0 ms
USUAL_ROUNDS = 3
REPLAYS = 5


def report_of(platform: LLMPlatform) -> Work:
    async def report(query: str) -> str:
        text = ""
        asked = ResearchRequest(query=query, depth="report", omit_raw=True, rounds=0)  # no floor makes a further round
        async for event in platform.research.stream(asked):
            if event.type == "done":
                text = event.response.synthesis
            elif event.type == "failed":
                raise RuntimeError(str(event.problem))
        return text

    return report


async def replay_s(report: Work) -> float:
    """Return a report that is in the store already, from its question to the last event."""
    question = topic(0)
    await report(question)
    walls = []
    for _ in range(REPLAYS):
        began = time.perf_counter()
        assert await report(question)
        walls.append(time.perf_counter() - began)
    return median(walls)


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    floor = ReportFloor(upstream)
    async with build_platform() as platform:
        report = report_of(platform)
        control(upstream, "latency", NO_LATENCY)
        result: dict[str, object] = {"none": await researches(upstream, floor.chained, report, AT_ONCE_ROUNDS)}
        result["replay_s"] = await replay_s(report)
        control(upstream, "latency", USUAL_LATENCY)
        result["usual"] = await researches(upstream, floor.chained, report, USUAL_ROUNDS, first=AT_ONCE_ROUNDS + 1)
    await floor.close()
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
