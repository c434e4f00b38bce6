"""Measure the platform on public sets of other people, and print one line for each set.

    python scripts/strangers.py DIR [PART] [SET ...]      PART: open (the default) or held; SET: all by default

DIR has `open/<set>.jsonl.gz` and `held/<set>.jsonl.gz`, one JSON object a line; `scripts/public_sets` says which fields each
kind of set has. The sets stay outside of the repository. Figures in brackets are 95 % intervals of a bootstrap; progress goes
to stderr.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts.public_sets import answers, claims, follow_ups, pages, retrieval, texts  # noqa: E402

Measure = Callable[[str, Path, str], Awaitable[list[str]]]

MEASURES: Final[dict[str, Measure]] = {
    name: kind.measure for kind in (claims, pages, answers, follow_ups, retrieval, texts) for name in kind.SETS
}


async def main(folder: Path, part: str, names: list[str]) -> None:
    for name in names or MEASURES:
        if name not in texts.SETS and not (folder / part / f"{name}.jsonl.gz").exists():
            print(f"{name}: not in {folder / part}", file=sys.stderr, flush=True)
            continue
        began = time.process_time()
        parts = await MEASURES[name](name, folder, part)
        print(f"{name}: {' · '.join(parts)} · {time.process_time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or set(sys.argv[3:]) - set(MEASURES):
        raise SystemExit(f"usage: strangers.py DIR [open|held] [SET ...]\nsets: {', '.join(MEASURES)}")
    asyncio.run(main(Path(sys.argv[1]), (sys.argv[2:3] or ["open"])[0], sys.argv[3:]))
