"""Do follow-up questions find their answers? The answers of whole conversations become a folder of documents.

Usage, in the environment of the product: `python -m scripts.public_sets.follow_up_answers OPEN cast ikat`

OPEN has `NAME.jsonl.gz` with the rows that `follow_ups` describes. An answer is known if a later row of its conversation has it.
A turn is asked with the turns before it, and is right if the answer cites the known one. The earlier answers of the conversation
are documents too, so they compete.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from scripts.public_sets.figures import Row, mean, read_rows, with_interval, with_progress
from scripts.public_sets.platform import quiet_settings

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import MAX_TURNS, Depth, ResearchRequest, Turn
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS

MIN_ANSWER_CHARS: Final = 40
MAX_ANSWER_CHARS: Final = 20_000


@dataclass(frozen=True)
class Asked:
    """A turn: its conversation, whether its answer cites the known one, whether it is an answer at all, and the searches."""

    group: str
    is_found: bool
    is_answered: bool
    searches: int


def name_of(answer: str) -> str:
    return f"{sha256(answer.encode()).hexdigest()[:16]}.txt"


def read_known(rows: Sequence[Row]) -> dict[tuple[str, int, str], str]:
    """Return the known answers by conversation, place and question."""
    return {
        (row["group"], place, turn["question"]): turn["answer"][:MAX_ANSWER_CHARS]
        for row in rows
        for place, turn in enumerate(row["source"])
        if len(turn["answer"]) >= MIN_ANSWER_CHARS
    }


async def ask(platform: LLMPlatform, row: Row, known: str, depth: Depth, *, is_rewritten: bool) -> Asked:
    """Ask a turn with those before it, or the question that a person made of it alone."""
    history = tuple(
        Turn(question=turn["question"][:MAX_QUERY_CHARS], answer=turn["answer"][:MAX_ANSWER_CHARS])
        for turn in row["source"][-MAX_TURNS:]
        if turn["question"]
    )
    question = row["label" if is_rewritten else "claim"][:MAX_QUERY_CHARS]
    response = await platform.research.research(
        ResearchRequest(
            query=question,
            history=() if is_rewritten else history,
            language="en",
            depth=depth,
            sources=("documents",),
        )
    )
    cited = {source.url for source in response.sources}
    return Asked(row["group"], f"doc:{name_of(known)}" in cited, bool(response.citations), response.metadata.searches)


async def measure(folder: Path, name: str, depth: Depth, *, is_rewritten: bool, most: int) -> str:
    rows = read_rows(folder, "open", name)
    known = read_known(rows)
    with tempfile.TemporaryDirectory() as documents:
        for answer in set(known.values()):
            (Path(documents) / name_of(answer)).write_text(answer, encoding="utf-8")
        asked = [
            (row, known[key]) for row in rows if (key := (row["group"], len(row["source"]), row["claim"])) in known
        ][:most]
        began, done = time.monotonic(), list[Asked]()
        with quiet_settings(DOCUMENTS_DIR=documents) as settings:
            async with build_platform(settings) as platform:
                for row, answer in with_progress(name, asked):
                    done.append(await ask(platform, row, answer, depth, is_rewritten=is_rewritten))
    threads = [[turn for turn in done if turn.group == group] for group in dict.fromkeys(turn.group for turn in done)]
    found = with_interval("known answer cited", lambda groups: mean(t.is_found for g in groups for t in g), threads)
    return (
        f"{name}: n {len(done)}, {found}, answered {mean(turn.is_answered for turn in done):.3f}, "
        f"searches {mean(turn.searches for turn in done):.2f}, {(time.monotonic() - began) / len(done):.2f} s each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open", type=Path)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--depth", choices=("shallow", "deep"), default="shallow")
    parser.add_argument("--rewritten", action="store_true", help="ask the questions that people made of the turns")
    parser.add_argument("--most", type=int, default=10_000, help="how many turns of each set are asked")
    a = parser.parse_args()
    for name in a.sets:
        print(asyncio.run(measure(a.open, name, a.depth, is_rewritten=a.rewritten, most=a.most)), flush=True)


if __name__ == "__main__":
    main()
