"""How well the citation checker tells what a source bears out: figures over the labelled pairs, with and without vectors.

    python scripts/quality.py          all figures; tests/quality holds the bars
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from modules.llm_platform.domain.citations import CitationChecker, Similarity  # noqa: E402
from modules.llm_platform.domain.dtos.research_dtos import Source, Verdict  # noqa: E402
from modules.llm_platform.domain.text import sentence_spans  # noqa: E402

PAIRS = ROOT / "tests" / "quality" / "citation_pairs.jsonl"
FACTS = frozenset({"number", "date", "name", "identifier"})


@dataclass(frozen=True)
class Pair:
    """A sentence, the source that it cites, and what a person says of the two."""

    id: str
    kind: str
    sentence: str
    source: str
    label: Verdict
    language: str
    held_out: bool


@dataclass(frozen=True)
class Figures:
    """Shares of right answers, 0..1; `flagged` counts unsupported sentences that were not called supported."""

    pairs: int
    three_class: float
    flagged: float
    numbers: float
    names: float
    verbatim: float
    false_alarms: float
    wrong: tuple[tuple[Pair, Verdict], ...]


def load(path: Path = PAIRS) -> list[Pair]:
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]


def verdict_of(sentence: str, source: str, language: str, similarity: Similarity | None = None) -> Verdict:
    sources = [Source(index=1, title="", url="https://example.org/", text=source)]
    checked = CitationChecker(sources, language, similarity).check(f"{sentence} [1]")
    return checked.citations[-1].verdict


def measure(pairs: Sequence[Pair], similarity: Similarity | None = None) -> Figures:
    verdicts = [(pair, verdict_of(pair.sentence, pair.source, pair.language, similarity)) for pair in pairs]
    bad = [(pair, verdict) for pair, verdict in verdicts if pair.label == "unsupported"]
    good = [verdict for pair, verdict in verdicts if pair.label == "supported"]
    return Figures(
        pairs=len(pairs),
        three_class=share(verdict == pair.label for pair, verdict in verdicts),
        flagged=share(verdict != "supported" for _, verdict in bad),
        numbers=share(verdict != "supported" for pair, verdict in bad if pair.kind in {"number", "date"}),
        names=share(verdict != "supported" for pair, verdict in bad if pair.kind in {"name", "identifier"}),
        verbatim=share(_verbatim(pairs, similarity)),
        false_alarms=share(verdict != "supported" for verdict in good),
        wrong=tuple((pair, verdict) for pair, verdict in verdicts if verdict != pair.label),
    )


def _verbatim(pairs: Iterable[Pair], similarity: Similarity | None) -> Iterable[bool]:
    for source, language in sorted({(pair.source, pair.language) for pair in pairs}):
        for start, end in sentence_spans(source, language):
            yield verdict_of(source[start:end], source, language, similarity) == "supported"


def share(outcomes: Iterable[bool]) -> float:
    counted = Counter(outcomes)
    return counted[True] / max(1, counted.total())


def report(title: str, figures: Figures) -> None:
    print(f"{title}: {figures.pairs} pairs")
    for name in ("three_class", "flagged", "numbers", "names", "verbatim", "false_alarms"):
        print(f"  {name:13} {getattr(figures, name):.2f}")
    for pair, verdict in figures.wrong:
        print(f"    {pair.id} ({pair.kind}): {verdict}, should be {pair.label}")


def main() -> None:
    pairs = load()
    report("tuned on", measure([pair for pair in pairs if not pair.held_out]))
    if "--held-out" in sys.argv: report("held out", measure([pair for pair in pairs if pair.held_out]))


if __name__ == "__main__":
    main()
