"""The real worker, handler and outcome store with scripted stages. worker_handle.py forks it and passes WorkerConfig as JSON.

It prints `started` when it starts to consume. It ends on SIGTERM or at the crash point of its configuration.
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
from tests.kafka.delivery_trace import delivery_trace, trace_file
from tests.kafka.stages import ScriptedStages
from tests.kafka.worker_handle import WorkerConfig

from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.infrastructure.stores.database.migrations import check_schema
from modules.llm_platform.infrastructure.stores.database.postgres import Database
from modules.llm_platform.infrastructure.stores.outcomes.postgres import PostgresOutcomeStore
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerOptions, run_worker

OUTCOMES = "outcomes.sqlite3"
TTL_DAYS = 1.0


def crash_at(point: str, after: int) -> At:
    """Return a callback that kills the process at the crash point, without cleanup."""
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


async def work(config: WorkerConfig, started: Callable[[], None]) -> None:
    stages = ScriptedStages(config.name)
    database, store = outcome_store(config)
    handler = RagHandler(
        stages.search,
        stages.answer,
        store,
        HandlerOptions(max_message_bytes=config.max_message_bytes, timeout_s=config.timeout_s),
    )
    options = WorkerOptions(
        brokers=[config.bootstrap],
        group_id=config.group,
        concurrency=config.concurrency,
        drain_s=config.drain_s,
        config=dict(config.client),
    )
    asyncio.get_running_loop().call_soon(started)  # by then the signal handlers are in place
    watched = crash_points(crash_at(config.crash_at, config.crash_after)) if config.crash_at else nullcontext()
    try:
        with delivery_trace(trace_file(Path(config.data_dir), config.name)), watched:
            await run_worker(handler, options)
    finally:
        await store.aclose()
        if database is not None:
            await database.aclose()


def outcome_store(config: WorkerConfig) -> tuple[Database | None, IOutcomeStore]:
    if config.database_url is None:
        return None, SqliteOutcomeStore(Path(config.data_dir) / OUTCOMES, TTL_DAYS)
    database = Database(config.database_url, check_schema)
    return database, PostgresOutcomeStore(database, TTL_DAYS)


def _print_started() -> None:
    sys.stdout.write("started\n")
    sys.stdout.flush()


def main() -> None:
    config = WorkerConfig(**json.loads(sys.argv[1]))
    level = logging.DEBUG if "debug" in config.client else logging.INFO  # librdkafka's debug setting
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(work(config, _print_started))
