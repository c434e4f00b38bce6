"""Rows of a public set, and figures of what came of them with 95 % intervals of a bootstrap."""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

SAMPLES: Final = 1000
PROGRESS_S: Final = 30.0  # pause between two lines of progress

Row = dict[str, Any]
T = TypeVar("T")


def read_rows(folder: Path, part: str, name: str) -> list[Row]:
    """Return the rows of `<folder>/<part>/<name>.jsonl.gz`."""
    with gzip.open(folder / part / f"{name}.jsonl.gz", "rt", encoding="utf-8", errors="surrogatepass") as lines:
        return [json.loads(line) for line in lines]


def mean(values: Iterable[float]) -> float:
    """0 for no values."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def with_interval(name: str, figure: Callable[[Sequence[T]], float], items: Sequence[T]) -> str:
    """Return the figure of the items, and the interval of it over samples of them."""
    drawn = random.Random(1)
    values = sorted(figure(drawn.choices(items, k=len(items))) for _ in range(SAMPLES)) if items else [0.0]
    low, high = (values[min(len(values) - 1, int(share * SAMPLES))] for share in (0.025, 0.975))
    return f"{name} {figure(items):.3f} [{low:.3f}-{high:.3f}]"


def ndcg(right: Sequence[bool], relevant: int) -> float:
    """Normalised discounted cumulative gain of a ranking, of which `relevant` documents exist."""
    best = sum(1 / math.log2(position + 2) for position in range(min(relevant, len(right))))
    return sum(1 / math.log2(position + 2) for position, hit in enumerate(right) if hit) / best if best else 0.0


class Failures:
    """The exceptions of a run. Each is counted and told, so that one row does not hide the others."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def add(self, case: str, error: Exception) -> None:
        self._seen[f"{type(error).__name__} at {case}"] += 1

    def __str__(self) -> str:
        first = dict(self._seen.most_common(3)) if self._seen else ""
        return f"{self._seen.total()} exceptions {first}".rstrip()


def with_progress(name: str, rows: Sequence[T]) -> Iterator[T]:
    """Yield the rows, with a line on stderr every PROGRESS_S."""
    told = time.monotonic()
    for done, row in enumerate(rows):
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            print(f"{name}: {done} of {len(rows)}", file=sys.stderr, flush=True)
        yield row
