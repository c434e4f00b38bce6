"""Measure the platform on public sets of other people, and print one line for each set.

    python scripts/strangers.py DIR [PART]      PART: open (the default) or held

DIR has `open/<set>.jsonl.gz` and `held/<set>.jsonl.gz`, one JSON object a line. A set of claims has `id`, `claim`, `source`,
`label` (supported, partial, unsupported), and maybe `title`, `kind` and `shape`. The sets stay outside of the repository.

A claim gets a marker behind each of its sentences; its verdict is that of its worst sentence. Balanced accuracy and macro-F1
are those of supported against the rest, with 95 % intervals of a bootstrap over the claims.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts import quality  # noqa: E402
from scripts.fit_citation_check import PUBLIC, public_rows  # noqa: E402

from modules.llm_platform.domain.citations.checker import CitationChecker  # noqa: E402
from modules.llm_platform.domain.dtos.research_dtos import Source  # noqa: E402

CLAIMS = (*PUBLIC, "wice-tokens")
WORST_FIRST = ("unsupported", "unchecked", "partial", "supported")
SAMPLES = 1000

Outcome = tuple[bool, bool]  # whether a claim is supported, and whether it was called so


def verdict_of(pair: quality.Pair) -> str:
    """The worst verdict of the sentences of a claim; "unchecked" for a claim without one."""
    source = Source(index=1, title=pair.title, url="https://example.org/", text=pair.source)
    verdicts = [each.verdict for each in CitationChecker([source], pair.language).check(pair.sentence).citations]
    return min(verdicts, key=WORST_FIRST.index, default="unchecked")


def balanced_accuracy(outcomes: Sequence[Outcome]) -> float:
    true, wrong = ([said for label, said in outcomes if label is kind] for kind in (True, False))
    return (quality.share(true) + 1 - quality.share(wrong)) / 2


def macro_f1(outcomes: Sequence[Outcome]) -> float:
    counts = Counter(outcomes)
    wrong = counts[True, False] + counts[False, True]
    return sum(2 * counts[kind, kind] / max(1, 2 * counts[kind, kind] + wrong) for kind in (True, False)) / 2


def told(name: str, figure: Callable[[Sequence[Outcome]], float], outcomes: Sequence[Outcome]) -> str:
    """The figure with its interval."""
    drawn = random.Random(1)
    values = sorted(figure(drawn.choices(outcomes, k=len(outcomes))) for _ in range(SAMPLES))
    return f"{name} {figure(outcomes):.3f} [{values[int(0.025 * SAMPLES)]:.3f}-{values[int(0.975 * SAMPLES)]:.3f}]"


def measure_claims(name: str, pairs: Sequence[quality.Pair]) -> str:
    """The line of a set of claims."""
    began, failures, outcomes = time.process_time(), Counter[str](), list[Outcome]()
    for pair in pairs:
        try:
            verdict = verdict_of(pair)
        except Exception as error:  # noqa: BLE001  # each is told, none may happen
            verdict = "exception"
            failures[f"{type(error).__name__} at {pair.id}"] += 1
        outcomes.append((pair.label == "supported", verdict == "supported"))
    parts = [f"{name}: n {len(outcomes)}"]
    if len({label for label, _ in outcomes}) > 1:
        parts += [told("balanced accuracy", balanced_accuracy, outcomes), told("macro-F1", macro_f1, outcomes)]
        parts.append(f"true called supported {quality.share(said for label, said in outcomes if label):.3f}")
    parts.append(f"wrong called supported {quality.share(said for label, said in outcomes if not label):.3f}")
    parts.append(f"{failures.total()} exceptions {dict(failures.most_common(3)) if failures else ''}".rstrip())
    return " · ".join([*parts, f"{time.process_time() - began:.0f} s"])


def main() -> None:
    folder, part = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "open"
    for name in CLAIMS:
        if (folder / part / f"{name}.jsonl.gz").exists():
            print(measure_claims(name, list(public_rows(folder, part, (name,)))), flush=True)


if __name__ == "__main__":
    main()
