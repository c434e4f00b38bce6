"""CPU of one call of a chat model and of an embedder, and of a cold command with and without a model, against the fakes.

    python benchmarks/model_calls.py                 this checkout
    python benchmarks/model_calls.py --other FOLDER  also another checkout, in turn: a drift of the machine hits both

The fake runs in a process of its own, so the CPU time of the caller is measured alone. `model_after_search_s` is the time of a
cold command between the end of its search and the request to the model. Prints the median of each number.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import NO_LATENCY, ROOT, control, environment, fake_upstreams, median

CALLS, BLOCKS = 150, 5  # the first block only fills caches and pools
ROUNDS = 5
SEARCH_MS = 300.0
QUESTION = "What is tidal power?"
EMBEDDED = 16  # texts of one call


async def cpu_ms(call: Callable[[], Awaitable[object]]) -> float:
    """Median over blocks of the CPU milliseconds of one call."""
    blocks = []
    for _ in range(BLOCKS + 1):
        began = time.process_time()
        for _ in range(CALLS):
            await call()
        blocks.append((time.process_time() - began) / CALLS * 1000)
    return median(blocks[1:])


async def calls(upstream: str) -> None:
    """Print the numbers of one process."""
    from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
    from modules.llm_platform.infrastructure.http.client import make_client
    from modules.llm_platform.infrastructure.models.kinds import LLMConnection
    from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
    from modules.llm_platform.infrastructure.models.openai.embedder import EmbeddingConnection, OpenAIEmbedder

    async with make_client(upstream, 60.0) as client:
        provider = OpenAIProvider(LLMConnection("fake", "openai", "m", f"{upstream}/v1", "key"), client)
        request = LLMRequest(messages=(ChatMessage(role="user", content=QUESTION),), max_tokens=8)
        print(f"chat_ms {await cpu_ms(lambda: provider.generate(request))}")
        embedder = OpenAIEmbedder(EmbeddingConnection("openai", "m", f"{upstream}/v1", "key"), client)
        texts = [f"text number {number}" for number in range(EMBEDDED)]
        print(f"embed_ms {await cpu_ms(lambda: embedder.embed(texts))}")


def run(root: Path, upstream: str, *words: str, **variables: str) -> tuple[str, float]:
    """Run a program of a checkout. Return what it prints, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    settings = {**environment(upstream), "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", **variables}
    done = subprocess.run(
        [sys.executable, *words], env=settings, cwd=root, capture_output=True, text=True, timeout=300, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(root: Path, upstream: str) -> dict[str, float]:
    """Return the numbers of one checkout: milliseconds of calls, seconds of commands."""
    printed, _ = run(root, upstream, str(ROOT / "benchmarks" / "model_calls.py"), "--calls", upstream)
    found = {name: float(value) for name, value in (line.split() for line in printed.splitlines())}
    command = ("-m", "modules.llm_platform", "research", QUESTION)
    control(upstream, "latency", {**NO_LATENCY, "search": SEARCH_MS})
    control(upstream, "reset")
    _, found["cold_cpu_s"] = run(root, upstream, *command)
    log = control(upstream, "log")
    searched = max(entry["t1"] for entry in log if entry["path"] == "/search")
    found["model_after_search_s"] = (
        next(entry["t0"] for entry in log if entry["path"].endswith("/completions")) - searched
    )
    _, found["keyless_cpu_s"] = run(root, upstream, *command, LLM_API_KEY="", LLM_BASE_URL="", LLM_MODEL="")
    control(upstream, "latency", NO_LATENCY)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--other", type=Path)
    parser.add_argument("--calls")
    options = parser.parse_args()
    if options.calls:
        asyncio.run(calls(options.calls))
        return
    roots = {"this": ROOT, **({"other": options.other.resolve()} if options.other else {})}
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in roots}
    with fake_upstreams() as upstream:
        control(upstream, "latency", NO_LATENCY)
        for _ in range(ROUNDS):
            for name, root in roots.items():
                rows[name].append(measure(root, upstream))
    for name, got in rows.items():
        for key in got[0]:
            print(f"{name} {key} {median([row[key] for row in got]):.3f}")


if __name__ == "__main__":
    main()
