"""A hundred reports at once, floor and platform each in a process of its own. Prints JSON; see run.py.

python -m benchmarks.report_crowd floor|ours        one of the two alone
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import USUAL_LATENCY, control, percentile, topic
from benchmarks.floor_report import ReportFloor
from benchmarks.in_process import Work
from benchmarks.report_alone import report_of

from modules.llm_platform.container import build_platform

REPORTS = 100
SIDES = ("floor", "ours")


def resident_mb(key: str) -> float:
    """VmRSS: now; VmHWM: at most so far (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


async def crowd(work: Work) -> dict[str, float]:
    assert await work(topic(REPORTS))
    before, cpu, began = resident_mb("VmRSS"), time.process_time(), time.monotonic()
    walls = await asyncio.gather(*(_wall_s(work, topic(number)) for number in range(REPORTS)))
    took = time.monotonic() - began
    return {
        "mb": (resident_mb("VmHWM") - before) / REPORTS,
        "cpu_s": (time.process_time() - cpu) / REPORTS,
        "p99_s": percentile(walls, 0.99),
        "took_s": took,
    }


async def _wall_s(work: Work, question: str) -> float:
    began = time.monotonic()
    assert await work(question)
    return time.monotonic() - began


async def alone(side: str) -> dict[str, float]:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", USUAL_LATENCY)
    if side == "ours":
        async with build_platform() as platform:
            return await crowd(report_of(platform))
    floor = ReportFloor(upstream)
    try:
        return await crowd(floor.chained)
    finally:
        await floor.close()


def main(arguments: Sequence[str]) -> None:
    if arguments:
        print(json.dumps(asyncio.run(alone(arguments[0]))))
        return
    words = [sys.executable, "-m", "benchmarks.report_crowd"]
    told = {side: subprocess.run([*words, side], capture_output=True, text=True, check=True).stdout for side in SIDES}
    print(json.dumps({side: json.loads(text.splitlines()[-1]) for side, text in told.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
