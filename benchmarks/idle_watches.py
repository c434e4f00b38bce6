"""What watched questions cost a server between their runs: its CPU with and without them, in alternating servers.

python -m benchmarks.idle_watches                         1,000 watches, 3 rounds of 30 seconds
python -m benchmarks.idle_watches --watches 100 --rounds 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import ROOT, median

sys.path[:0] = [str(ROOT / "src")]

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402
from modules.llm_platform.domain.dtos.watch_dtos import NewWatch, NextRun, WatchReading, WatchRun  # noqa: E402
from modules.llm_platform.infrastructure.stores.watches.sqlite import SqliteWatchStore  # noqa: E402

DAY_S = 86_400
START_S = 60.0
SETTLE_S = 10.0  # the start is over, and what it left to do is done


async def fill(folder: Path, watches: int) -> None:
    """Store watches whose first run is over."""
    store = SqliteWatchStore(folder / "watches.sqlite3")
    for number in range(watches):
        request = ResearchRequest(query=f"What is the toll on bridge {number}?", depth="deep")
        await store.add(NewWatch(f"watch-{number}", request, DAY_S), watches)
        watch = await store.claim(str(number), 60.0)
        assert watch is not None
        now = time.time()
        run = WatchRun.model_validate({"number": 1, "job_id": watch.job_id, "at": now, "status": "done"})
        reading = WatchReading.model_validate({"at": now, "language": "en"})
        await store.finish(watch, run, (), reading, NextRun(DAY_S))


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, seconds: float) -> float:
    """Return the share of a core that a server takes which nobody asks."""
    env = {**os.environ, "LLM_PLATFORM_DATA_DIR": str(folder), "PYTHONPATH": str(ROOT / "src")}
    log = folder / "server.log"
    with log.open("w") as errors:
        words = [sys.executable, "-m", "modules.llm_platform", "serve", "--port", "0", "--offline"]
        server = subprocess.Popen(words, env=env, stdout=errors, stderr=errors)
    try:
        until = time.monotonic() + START_S
        while not re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            if time.monotonic() > until:
                raise RuntimeError(f"the server did not start: {log.read_text()[-300:]}")
            time.sleep(0.1)
        time.sleep(SETTLE_S)
        before, began = cpu_s(server.pid), time.monotonic()
        time.sleep(seconds)
        return (cpu_s(server.pid) - before) / (time.monotonic() - began)
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="What watched questions cost a server between their runs.")
    parser.add_argument("--watches", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        empty, full = Path(temporary, "empty"), Path(temporary, "full")
        for folder in (empty, full):
            folder.mkdir(mode=0o700)
        asyncio.run(fill(full, options.watches))
        pairs = [(measure(empty, options.seconds), measure(full, options.seconds)) for _ in range(options.rounds)]
    result = {
        "watches": options.watches,
        "core_without": round(median([without for without, _ in pairs]), 4),
        "core_with": round(median([with_watches for _, with_watches in pairs]), 4),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
