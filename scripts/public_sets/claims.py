"""Sets of claims (AttributionBench, WiCE, SciFact, Factcheck-GPT, LFQA): verdicts against the labels of people.

A row has `id`, `claim`, `source`, `label` (supported, partial, unsupported), and maybe `title`. A claim gets a marker after
each of its sentences; its verdict is that of its worst sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts import quality
from scripts.fit_citation_check import PUBLIC, public_rows
from scripts.public_sets.figures import Failures, mean, with_interval, with_progress

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source

SETS: Final = (*PUBLIC, "wice-tokens")
WORST_FIRST: Final = ("unsupported", "unchecked", "partial", "supported")

Outcome = tuple[bool, bool]  # whether a claim is supported, and whether it was called so


async def measure(name: str, folder: Path, part: str) -> list[str]:
    """Balanced accuracy and macro-F1 of supported against the rest."""
    failures, outcomes = Failures(), list[Outcome]()
    for pair in with_progress(name, list(public_rows(folder, part, (name,)))):
        try:
            verdict = verdict_of(pair)
        except Exception as error:  # noqa: BLE001  # each is told, none may happen
            verdict = "exception"
            failures.add(pair.id, error)
        outcomes.append((pair.label == "supported", verdict == "supported"))
    parts = [f"n {len(outcomes)}"]
    if len({label for label, _ in outcomes}) > 1:
        parts.append(with_interval("balanced accuracy", balanced_accuracy, outcomes))
        parts.append(with_interval("macro-F1", macro_f1, outcomes))
        parts.append(f"true called supported {mean(said for label, said in outcomes if label):.3f}")
    wrong = [said for label, said in outcomes if not label]
    return [*parts, f"wrong called supported {mean(wrong):.3f}", str(failures)]


def verdict_of(pair: quality.Pair) -> str:
    """Return the worst verdict of the sentences of a claim; "unchecked" for a claim without one."""
    source = Source(index=1, title=pair.title, url="https://example.org/", text=pair.source)
    verdicts = [
        citation.verdict for citation in CitationChecker([source], pair.language).check(pair.sentence).citations
    ]
    return min(verdicts, key=WORST_FIRST.index, default="unchecked")


def balanced_accuracy(outcomes: Sequence[Outcome]) -> float:
    true, wrong = ([said for label, said in outcomes if label is kind] for kind in (True, False))
    return (mean(true) + 1 - mean(wrong)) / 2


def macro_f1(outcomes: Sequence[Outcome]) -> float:
    counts = Counter(outcomes)
    wrong = counts[True, False] + counts[False, True]
    return sum(2 * counts[kind, kind] / max(1, 2 * counts[kind, kind] + wrong) for kind in (True, False)) / 2
