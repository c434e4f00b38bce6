"""Memory of one worker through which many requests pass, on Apache Kafka: `make worker-memory`, or with another number

    python -m benchmarks.kafka_memory --messages 200000

One line for each tenth. Its own memory is flat when the growth after the first 100,000 requests is small; the file of outcomes
grows, and its pages in memory belong to the system.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.kafka_parts import BACKLOG, LONG_WAIT_S, OURS
from benchmarks.kafka_runs import KB, TOPICS, Load, resident_mb, started
from tests.kafka.real_broker import FAST, RealBroker

WARM = 100_000  # requests, after which nothing should grow any more
ALLOWED_MB = 24.0  # what an allocator may still take
LINES = 10


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of a worker over many messages")
    parser.add_argument("--messages", type=int, default=1_000_000)
    messages = parser.parse_args().messages
    warm = min(WARM, messages // 2)
    sizes: list[tuple[int, float]] = []
    with RealBroker(TOPICS, jvm=FAST) as broker, started(broker, OURS) as (worker,):
        load, began, shown = Load(broker), time.monotonic(), 0
        while load.sent < messages:
            load.send(min(BACKLOG, messages - load.sent))
            load.wait_for(load.sent - BACKLOG, LONG_WAIT_S)
            sizes.append((load.sent, resident_mb(worker)))
            if load.sent * LINES // messages > shown:
                shown = load.sent * LINES // messages
                own, seconds = sizes[-1][1], time.monotonic() - began
                print(
                    f"{load.sent:>9} messages {seconds:6.0f} s  own {own:6.1f} MB  RSS {rss_mb(worker):6.1f} MB",
                    flush=True,
                )
        load.wait_for(load.sent, LONG_WAIT_S)
    before = max(size for sent, size in sizes if sent <= warm)
    after = max(size for sent, size in sizes if sent > warm)
    print(f"most until {warm}: {before:.1f} MB; most after: {after:.1f} MB; growth {after - before:+.1f} MB")
    return 1 if after - before > ALLOWED_MB else 0


def rss_mb(process: subprocess.Popen[str]) -> float:
    """Return all pages in memory, those of mapped files included."""
    lines = Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / KB


if __name__ == "__main__":
    sys.exit(main())
