"""What the benchmarks share: the fake, a clean environment, the arithmetic of own time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NO_LATENCY = {
    "search": 0.0,
    "first_token": 0.0,
    "token": 0.0,
    "reader": 0.0,
    "page": 0.0,
    "jitter": 0.0,
    "page_jitter": 0.0,
}
USUAL_LATENCY = {**NO_LATENCY, "search": 300.0, "first_token": 200.0, "token": 2.0, "reader": 400.0, "page": 400.0}
UNEVEN_LATENCY = {**USUAL_LATENCY, "jitter": 0.6}
PAGES_LATENCY = {**USUAL_LATENCY, "page": 425.0, "page_jitter": 0.88}  # pages of 50 to 800 ms
TOPICS = ("tidal power stations", "grid scale battery storage", "vector database indexing", "urban flood protection")
STOP_S = 10.0
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def topic(number: int) -> str:
    """Return a question that was not asked before in this run: no cache can help anybody."""
    return f"{TOPICS[number % len(TOPICS)]} case {number}"


def environment(upstream: str) -> dict[str, str]:
    """Return the platform's settings and nothing of the person who runs this."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    ours = {
        "FLOOR_UPSTREAM": upstream,
        "SEARXNG_URL": upstream,
        "SEARCH_PROVIDERS": "searxng",
        "CACHE_TTL_S": "0",
        "LLM_BASE_URL": f"{upstream}/v1",
        "LLM_API_KEY": "benchmark",
        "LLM_MODEL": "fake",
        "LOG_LEVEL": "WARNING",
        "JINA_BASE_URL": f"{upstream}/r",
        "READER_ALLOWED_HOSTS": "127.0.0.0/8",
        "READ_PAGES": "0",  # the floors read none; benchmarks/pages.py measures reading
        "SEARXNG_RPM": "600000",
        "LLM_RPS": "10000",
        "JINA_RPS": "10000",
        "QUERY_LANGUAGES": "ru,en",  # six searches, as the floors make
        # counted as always, and never refused
        "RATE_LIMIT_PER_MINUTE": "10000000",
        "RATE_LIMIT_BURST": "1000000",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "100000000",
        "CITATION_JUDGE": "off",  # the floors verify nothing
    }
    return {**kept, **ours, "PYTHONPATH": str(ROOT)}


def control(upstream: str, command: str, body: object = None) -> Any:
    request = urllib.request.Request(f"{upstream}/_ctl/{command}", json.dumps(body).encode(), method="POST")
    with _OPEN(request, timeout=5) as answer:
        return json.load(answer)


@contextmanager
def stopped_at_the_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


@contextmanager
def fake_upstreams() -> Iterator[str]:
    words = [sys.executable, str(ROOT / "benchmarks" / "fake_upstreams.py")]
    with stopped_at_the_end(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def own_time(log: Sequence[dict[str, Any]], began: float, ended: float) -> float:
    """Seconds of the span in which no upstream request was under way."""
    busy, covered = 0.0, began
    for entry in sorted(log, key=lambda e: e["t0"]):
        start, stop = max(entry["t0"], covered), min(entry.get("t1", ended), ended)
        if stop > start:
            busy += stop - start
            covered = stop
    return ended - began - busy


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def wait_until(ready: Any, limit_s: float = 30.0) -> None:
    began = time.monotonic()
    while not ready():
        if time.monotonic() - began > limit_s:
            raise TimeoutError(f"not ready after {limit_s:.0f} s")
        time.sleep(0.02)
