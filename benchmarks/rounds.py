"""The CPU of further rounds: filling the ledger, choosing queries and links, ranking and stopping.

    python benchmarks/rounds.py QUESTIONS.jsonl[.gz] DOCUMENTS [--depth report] [--limit 20] [--tries 3] [--profile]

Searches, page reads and the writing of the text are left out. QUESTIONS has a `question` in each line, DOCUMENTS is a folder or
a file with documents. The digest is that of all sources and texts: a change that only makes the rounds cheaper keeps it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import gzip
import hashlib
import inspect
import json
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.common import percentile  # noqa: E402

from modules.llm_platform import ResearchRequest  # noqa: E402
from modules.llm_platform.application.research.find.rounds import FurtherRounds  # noqa: E402
from modules.llm_platform.container import build_platform  # noqa: E402
from shared.config import Settings  # noqa: E402

MEASURED = (
    "fill_ledger",
    "plan_next_queries",
    "choose_links",
    "select_best",
    "list_quoted_addresses",
    "evidence",
    "message",
)
PROFILED_LINES = 30


class OwnTime:
    """CPU milliseconds within the measured methods of one question. Nested calls count once."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        self.profile = profile
        self.is_within = False
        self.first_ms = 0.0  # the ledger of the first search, which each deep run pays for
        self.further_ms = 0.0
        self.answer_ms = 0.0
        self.rounds = 0
        self.reads = 0

    def begin(self) -> float:
        self.is_within = True
        if self.profile:
            self.profile.enable()
        return time.process_time()

    def end(self, began: float, method: str, rounds: FurtherRounds) -> None:
        spent_ms = (time.process_time() - began) * 1000
        if self.profile:
            self.profile.disable()
        self.is_within = False
        self.rounds = rounds.ledger.rounds
        self.reads += method == "fill_ledger"
        if method == "fill_ledger" and self.reads == 1:
            self.first_ms += spent_ms
        else:
            self.further_ms += spent_ms


def measure(own: list[OwnTime]) -> None:
    """Let the methods of the rounds add to the last of `own`."""
    for name in MEASURED:
        setattr(FurtherRounds, name, _measured(name, getattr(FurtherRounds, name), own))


def _measured(name: str, method: Callable[..., Any], own: list[OwnTime]) -> Callable[..., Any]:
    @functools.wraps(method)
    def plain(rounds: FurtherRounds, *args: Any, **options: Any) -> Any:
        if own[-1].is_within:
            return method(rounds, *args, **options)
        began = own[-1].begin()
        try:
            return method(rounds, *args, **options)
        finally:
            own[-1].end(began, name, rounds)

    @functools.wraps(method)
    async def awaited(rounds: FurtherRounds, *args: Any, **options: Any) -> Any:
        began = own[-1].begin()
        try:
            return await method(rounds, *args, **options)
        finally:
            own[-1].end(began, name, rounds)

    return awaited if inspect.iscoroutinefunction(method) else plain


def questions_of(path: Path, limit: int | None) -> list[str]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line)["question"] for line in text.splitlines()][:limit]


def documents_folder(path: Path) -> Path:
    """Return the folder itself, or one with the file, unpacked."""
    if path.is_dir():
        return path
    folder = Path(tempfile.mkdtemp(prefix="rounds-documents-"))
    packed = path.suffix == ".gz"
    (folder / path.name.removesuffix(".gz")).write_bytes(
        gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    )
    return folder


async def run(args: argparse.Namespace) -> None:
    profile = cProfile.Profile() if args.profile else None
    own: list[OwnTime] = []
    digest = hashlib.sha256()
    measure(own)
    data = Path(tempfile.mkdtemp(prefix="rounds-"))
    settings = Settings(DOCUMENTS_DIR=documents_folder(args.documents), LLM_PLATFORM_DATA_DIR=data)
    async with build_platform(settings) as platform:
        own.append(OwnTime(None))
        questions = questions_of(args.questions, args.limit)
        await platform.research.research(
            ResearchRequest(query=questions[-1], depth=args.depth)
        )  # fill caches of patterns
        best: list[OwnTime] = []
        for question in questions:
            tries: list[OwnTime] = []
            for _ in range(args.tries):
                own.append(OwnTime(profile))
                asked = ResearchRequest(
                    query=question, depth=args.depth, rounds=args.rounds, fresh=args.depth == "report"
                )
                began = time.process_time()
                answer = await platform.research.research(asked)
                own[-1].answer_ms = (time.process_time() - began) * 1000
                tries.append(own[-1])
            best.append(min(tries, key=lambda one: one.first_ms + one.further_ms))
            digest.update(json.dumps([question, [source.url for source in answer.sources], answer.synthesis]).encode())
    print(
        f"{args.questions.name} {args.depth}: {len(best)} questions, {sum(one.rounds for one in best)} further rounds"
    )
    figures = {
        "first ledger": [one.first_ms for one in best],
        "further round": [one.further_ms / one.rounds for one in best if one.rounds],
        "whole answer": [one.answer_ms for one in best],
    }
    for name, ms in figures.items():
        if ms:
            print(
                f"  {name}: p50 {percentile(ms, 0.5):.1f} ms, p95 {percentile(ms, 0.95):.1f} ms, mean {fmean(ms):.1f} ms"
            )
    print(f"  digest {digest.hexdigest()[:16]}")
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILED_LINES)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--depth", default="deep", choices=("deep", "report"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--tries", type=int, default=3, help="runs of each question, of which the cheapest counts")
    parser.add_argument("--profile", action="store_true")
    asyncio.run(run(parser.parse_args()))
