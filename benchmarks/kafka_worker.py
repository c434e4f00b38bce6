"""Our worker with its validation, its store of outcomes and stages that do nothing, or wait. Started by kafka_runs.py."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.infrastructure.stores.outcomes.sqlite import SqliteOutcomeStore
from modules.llm_platform.presentation.cli.commands.worker import get_loop_factory
from modules.llm_platform.presentation.garbage_collection import tune_gc
from modules.llm_platform.presentation.kafka.worker.handler import RagHandler
from modules.llm_platform.presentation.kafka.worker.worker import WorkerOptions, run_worker

NOTHING = RagHits(hits=())


async def work(told: dict[str, Any]) -> None:
    stage_s = float(told["stage_s"])

    async def search(_: RagSearch) -> RagHits:
        if stage_s:
            await asyncio.sleep(stage_s)
        return NOTHING

    async def answer(_: RagQuestion) -> RagAnswer:
        raise RuntimeError("these benchmarks ask no questions")

    store = SqliteOutcomeStore(Path(told["data_dir"]) / "outcomes.sqlite3", ttl_days=1.0)
    options = WorkerOptions(
        [told["bootstrap"]], told["group"], concurrency=told["concurrency"], config=dict(told["client"])
    )
    asyncio.get_running_loop().call_soon(lambda: print("started", flush=True))
    try:
        await run_worker(RagHandler(search, answer, store), options)
    finally:
        await store.aclose()


if __name__ == "__main__":  # as the command does it
    tune_gc()
    with asyncio.Runner(loop_factory=get_loop_factory()) as runner:
        runner.run(work(json.loads(sys.argv[1])))
