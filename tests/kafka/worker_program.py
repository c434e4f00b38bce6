"""The real worker, handler and store of outcomes around stages that do as they are told; see worker_handle.py.

    python -m tests.kafka.worker_program '{"bootstrap": …}'

It says `started` when it begins to read, and ends on SIGTERM, or at the crash point that it was told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from tests.kafka.crash_points import At, Point, crash_points
from tests.kafka.stages import ToldStages
from tests.kafka.worker_handle import WorkerTold

from modules.llm_platform.infrastructure.adapters.sqlite_outcome_store import SqliteOutcomeStore
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerOptions, run_worker

OUTCOMES = "outcomes.sqlite3"
TTL_DAYS = 1.0


def crash_at(point: str, after: int) -> At:
    """Ends the process as the operating system does when it is out of memory: no cleaning up, no last word."""
    lock, left = threading.Lock(), after

    def passed(here: Point) -> None:
        nonlocal left
        if here != point:
            return
        with lock:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return passed


async def work(told: WorkerTold, started: Callable[[], None]) -> None:
    stages = ToldStages(told.name)
    store = SqliteOutcomeStore(Path(told.data_dir) / OUTCOMES, TTL_DAYS)
    handler = RagHandler(
        stages.search,
        stages.answer,
        store,
        HandlerOptions(max_message_bytes=told.max_message_bytes, timeout_s=told.timeout_s),
    )
    options = WorkerOptions(
        brokers=[told.bootstrap], group_id=told.group, concurrency=told.concurrency, drain_s=told.drain_s,
        config=dict(told.client),
    )  # fmt: skip
    asyncio.get_running_loop().call_soon(started)  # its signal handlers are in place by then
    watched = crash_points(crash_at(told.crash_at, told.crash_after)) if told.crash_at else nullcontext()
    try:
        with watched:
            await run_worker(handler, options)
    finally:
        await store.aclose()


def _say_started() -> None:
    sys.stdout.write("started\n")
    sys.stdout.flush()


def main() -> None:
    told = WorkerTold(**json.loads(sys.argv[1]))
    level = logging.DEBUG if "debug" in told.client else logging.INFO  # librdkafka's own setting for what it is doing
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(work(told, _say_started))


if __name__ == "__main__":
    main()
