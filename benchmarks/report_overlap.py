"""Sixteen questions at uneven delays, the platform's report beside the staged floor's. Prints JSON; see run.py.

A few run at a time: they mostly wait. What is compared is each question with itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.common import NO_LATENCY, UNEVEN_LATENCY, control, topic
from benchmarks.floor_report import ReportFloor
from benchmarks.in_process import LOG_DELAY_S, Work
from benchmarks.report_alone import report_of

from modules.llm_platform.container import build_platform

QUESTIONS = 16
AT_A_TIME = 4
COUNTED = ("tokens_in", "tokens_out")


async def wall_s(work: Work, question: str) -> float:
    began = time.monotonic()
    assert await work(question)
    return time.monotonic() - began


async def several(upstream: str, work: Work, questions: Sequence[str]) -> dict[str, Any]:
    """Return the wall of each question, and what all of them asked of the upstreams together."""
    control(upstream, "reset")
    walls = await asyncio.gather(*(wall_s(work, question) for question in questions))
    await asyncio.sleep(LOG_DELAY_S)
    log = control(upstream, "log")
    counts = {name: sum(entry.get(name, 0) for entry in log) for name in COUNTED}
    return {"walls": walls, "calls": sum("tokens_out" in entry for entry in log), **counts}


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    floor = ReportFloor(upstream)
    rows: dict[str, list[dict[str, Any]]] = {"floor": [], "ours": []}
    async with build_platform() as platform:
        sides = (("floor", floor.staged), ("ours", report_of(platform)))
        control(upstream, "latency", NO_LATENCY)
        for _, work in sides:
            await work(topic(QUESTIONS))  # opens connections, loads what is loaded late
        control(upstream, "latency", UNEVEN_LATENCY)
        for start in range(0, QUESTIONS, AT_A_TIME):
            questions = [topic(number) for number in range(start, start + AT_A_TIME)]
            for name, work in sides:
                rows[name].append(await several(upstream, work, questions))
    await floor.close()
    print(json.dumps({name: _together(parts) for name, parts in rows.items()}))


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all walls in the order of the questions; counts for one question."""
    counts = {name: sum(part[name] for part in parts) / QUESTIONS for name in ("calls", *COUNTED)}
    return {"walls": [wall for part in parts for wall in part["walls"]], **counts}


if __name__ == "__main__":
    asyncio.run(main())
