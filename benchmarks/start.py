"""Import time, and the time from a process's start to its first upstream request. Prints JSON; started by run.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import NO_LATENCY, ROOT, control, environment, median, topic

RUNS = 5
DEADLINE_S = 30.0


def process_s(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)
    return time.perf_counter() - began


def import_s(statement: str) -> float:
    """Return what the statement adds to a bare start of the interpreter."""
    pairs = [(process_s("pass"), process_s(statement)) for _ in range(RUNS)]
    return median([loaded for _, loaded in pairs]) - median([bare for bare, _ in pairs])


def first_request_s(upstream: str, words: list[str]) -> float:
    control(upstream, "reset")
    began = time.monotonic()
    env = environment(upstream)
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed: {done.stderr[-300:]}")
    log = control(upstream, "log")
    return float(min(entry["t0"] for entry in log)) - began


def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", NO_LATENCY)
    command = str(Path(sys.executable).with_name("llm-platform"))
    floor = [sys.executable, str(ROOT / "benchmarks" / "floor.py")]
    runs = [
        (first_request_s(upstream, [*floor, topic(n)]), first_request_s(upstream, [command, "research", topic(n)]))
        for n in range(RUNS)
    ]
    first = {"floor": median([a for a, _ in runs]), "ours": median([b for _, b in runs])}
    print(json.dumps({"import_s": import_s("import modules.llm_platform"), "first_request_s": first}))


if __name__ == "__main__":
    main()
