"""What a filled-in sheet says, once its key is opened: wins, ties, marks, citations, and whether it may be chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import fmean
from typing import Any

from scripts.blind_sheet import SIDES, Judgement, SheetError

CHANCE = 0.05  # a difference that chance alone would show more often than this proves nothing
CITATION_GOAL = 0.95  # share of the cited sentences that are borne out (docs/reference/success-criteria.md)
VARIANTS = ("a", "b")


@dataclass
class Tally:
    """What was said of one variant, and what its answers took."""

    name: str
    wins: int = 0
    quality: list[float] = field(default_factory=list)
    citations_right: int = 0
    citations_seen: int = 0
    ambiguity: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    writers: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    @property
    def accuracy(self) -> float | None:
        return self.citations_right / self.citations_seen if self.citations_seen else None


@dataclass(frozen=True)
class Score:
    """Both tallies. `p` is the two-sided sign test over the questions that were not a tie."""

    tallies: Mapping[str, Tally]
    asked: int
    judged: int
    ties: int
    p: float


def score(key: Mapping[str, Any], judgements: Mapping[int, Judgement]) -> Score:
    """Return the judgements of a sheet by variant; SheetError where the two do not belong together."""
    rows: Sequence[Mapping[str, Any]] = key["questions"]
    if not set(judgements) <= set(range(1, len(rows) + 1)):
        raise SheetError("the sheet has questions that its key does not know")
    tallies = {variant: Tally(str(key["variants"][variant])) for variant in VARIANTS}
    for row in rows:
        _measured(tallies, row)
    filled = {number: judgement for number, judgement in judgements.items() if not judgement.empty}
    for number, judgement in filled.items():
        _count(tallies, judgement, rows[number - 1]["first"])
    ties = sum(judgement.better == 0 for judgement in filled.values())
    wins, losses = (tallies[variant].wins for variant in VARIANTS)
    return Score(tallies, len(rows), len(filled), ties, sign_test(wins, losses))


def _measured(tallies: Mapping[str, Tally], row: Mapping[str, Any]) -> None:
    for variant, tally in tallies.items():
        took = row[variant]
        tally.seconds.append(float(took["seconds"]))
        tally.tokens += int(took["tokens"])
        tally.failed += bool(took["failed"])
        tally.writers[str(took["writer"])] += 1


def _count(tallies: Mapping[str, Tally], judgement: Judgement, first: str) -> None:
    second = VARIANTS[1 - VARIANTS.index(first)]
    for side, variant in zip(SIDES, (first, second), strict=True):
        tally = tallies[variant]
        tally.wins += judgement.better == side
        if side in judgement.quality:
            tally.quality.append(judgement.quality[side])
        right, seen = judgement.citations.get(side, (0, 0))
        tally.citations_right += right
        tally.citations_seen += seen
        if side in judgement.ambiguity:
            tally.ambiguity.append(judgement.ambiguity[side])


def sign_test(wins: int, losses: int) -> float:
    """Return how often a fair coin would fall at least as unevenly, either way: 1.0 where nothing was decided."""
    tosses = wins + losses
    tail = sum(comb(tosses, heads) for heads in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / float(2**tosses))


def lines(result: Score) -> Iterator[str]:
    """Yield the score for people."""
    yield f"{result.judged} of {result.asked} questions judged"
    for variant, tally in result.tallies.items():
        yield f"{variant.upper()}  {tally.name}"
        yield "   " + " · ".join(_verdict_lines(tally))
        yield "   " + " · ".join(_took(tally))
    yield f"ties: {result.ties}"
    yield _verdict(result)


def _verdict_lines(tally: Tally) -> Iterator[str]:
    yield f"better in {tally.wins}"
    if tally.quality:
        yield f"quality {fmean(tally.quality):.2f} (of {len(tally.quality)})"
    if tally.accuracy is not None:
        held = "above" if tally.accuracy > CITATION_GOAL else "not above"
        counted = f"{tally.citations_right} of {tally.citations_seen}"
        yield f"citations right {counted} = {tally.accuracy:.0%}, {held} {CITATION_GOAL:.0%}"
    if tally.ambiguity:
        yield f"ambiguity handled in {sum(tally.ambiguity)} of {len(tally.ambiguity)}"


def _took(tally: Tally) -> Iterator[str]:
    yield f"{fmean(tally.seconds):.1f} s" if tally.seconds else "no time"
    yield f"{tally.tokens} tokens"
    yield "written by " + ", ".join(f"{writer} ({count})" for writer, count in tally.writers.most_common())
    if tally.failed:
        yield f"{tally.failed} failed"


def _verdict(result: Score) -> str:
    wins = {variant: tally.wins for variant, tally in result.tallies.items()}
    decided = sum(wins.values())
    if result.p >= CHANCE:
        return f"sign test over {decided} decided questions: p = {result.p:.3f}; chance may show such a difference"
    best = max(wins, key=lambda variant: wins[variant])
    return f"sign test over {decided} decided questions: p = {result.p:.3f}; {best.upper()} is better"
