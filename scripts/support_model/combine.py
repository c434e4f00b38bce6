"""Fit how sure the support model must be for each verdict of the words, and print what both do on sets of others.

Usage, in the environment of the product: `python -m scripts.support_model.combine OPEN [--weights FOLDER] [--write]`

OPEN has `NAME.jsonl.gz`. Of a set that the model was trained on, only the fifth of the sources counts that was held out; of the
other sets, all. The line of a set was measured with limits that were fitted to the others. Our own pairs that were looked at are
one set more. A claim is as good as its worst sentence. The limits with the best mean of the balanced
accuracies win; of those that are nearly as good, the ones that let fewest wrong claims of our own pairs pass.
"""

import argparse
import asyncio
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scripts import quality
from scripts.fit_citation_check import LOOKED_AT
from scripts.support_model.doubted import SETS, cite, is_held_out
from scripts.support_model.texts import read_open_half

from modules.llm_platform.application.research.check.support_reader import score_claims
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

UNSEEN_SETS = ("scifact", "climate-fever")
OWN = "our pairs"
ROOT = Path(__file__).resolve().parents[2]
LIMITS = ROOT / "src/modules/llm_platform/domain/text/data/support_limits.json"
VERDICTS = ("supported", "partial", "unsupported")
TRIED = {
    "supported": (-9.0, -3.5, -3.0, -2.5, -2.0, -1.75, -1.5, -1.0, -0.5, 0.0),
    "partial": (-2.5, -2.0, -1.75, -1.5, -1.0, -0.5, 0.0, 1.0),
    "unsupported": (-1.75, -1.5, -1.0, -0.5, 0.0, 1.0, 2.0, 9.0),
}
PARTIAL_BELOW = 1.5  # `partial` reaches so far below `supported`: it is not measured by the sets, which have two labels
NEARLY_BEST = 0.004  # less of the mean: the differences between such limits are chance
Limits = tuple[float, ...]  # the least log-odds of `supported`, for each of VERDICTS


@dataclass(frozen=True)
class Sentence:
    """`log_odds` is None where the words decide alone; `highest_verdict` is what the words allow."""

    verdict: str
    highest_verdict: str
    log_odds: float | None


@dataclass(frozen=True)
class Row:
    is_right: bool
    sentences: list[Sentence]


async def read_set(path: Path, model: OnnxSupportModel, *, is_trained: bool) -> list[Row]:
    rows = [row for row in read_open_half(path) if row["source"].strip()]
    kept = [row for row in rows if not is_trained or is_held_out(row["source"])]
    read = [await read_row(row["claim"], row["source"], row.get("title", ""), row["label"], model) for row in kept]
    return [row for row in read if row is not None]


async def read_written(paths: Iterable[Path], model: OnnxSupportModel) -> list[Row]:
    """Return the claims of passages that were written for this purpose and are in no training."""
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    claims = [(claim["claim"], row["source"], claim["label"]) for row in lines for claim in row["claims"]]
    read = [await read_row(claim, source, "", label, model) for claim, source, label in claims]
    return [row for row in read if row is not None]


async def read_own(model: OnnxSupportModel, *, is_trained: bool) -> list[Row]:
    loaded = quality.load()
    pairs = [pair for name in LOOKED_AT for pair in loaded[name] if pair.language == "en"]
    pairs = [pair for pair in pairs if not is_trained or is_held_out(pair.source)]
    read = [await read_row(pair.sentence, pair.source, pair.title, pair.label, model) for pair in pairs]
    return [row for row in read if row is not None]


async def read_row(claim: str, text: str, title: str, label: str, model: OnnxSupportModel) -> Row | None:
    source = Source(index=1, title=title, url="https://set.test/", text=text)
    checker = CitationChecker([source], "en")
    if not checker.check(cite(claim)).citations:
        return None
    claims = checker.undecided.list_first(1000)
    scores = await score_claims(model, claims)
    read = {
        claim.key: Sentence(claim.judgement.verdict, claim.passages[0].highest_verdict, odds)
        for claim, (odds,) in zip(claims, scores, strict=True)
    }
    alone = [
        Sentence(judged.verdict, judged.highest_verdict, None)
        for key, judged in checker._judged.items()
        if key not in read
    ]
    return Row(label == "supported", [*read.values(), *alone])


def is_supported(sentence: Sentence, limits: Limits | None) -> bool:
    if limits is None or sentence.log_odds is None:
        return sentence.verdict == "supported"
    least = limits[VERDICTS.index(sentence.verdict)]
    return sentence.highest_verdict == "supported" and sentence.log_odds >= least


def measure(rows: Iterable[Row], limits: Limits | None) -> tuple[float, float]:
    """Return the shares of right and of wrong claims that are called supported; without limits, by the words alone."""
    said: dict[bool, list[bool]] = {True: [], False: []}
    for row in rows:
        said[row.is_right].append(all(is_supported(sentence, limits) for sentence in row.sentences))
    right, wrong = (sum(said[label]) / max(1, len(said[label])) for label in (True, False))
    return right, wrong


def balance(right: float, wrong: float) -> float:
    return (1 + right - wrong) / 2


def measure_all(sets: Mapping[str, list[Row]]) -> dict[Limits, dict[str, float]]:
    """Return the balanced accuracy of each set for all limits in which surer words need less of the model."""
    tried = (limits for limits in itertools.product(*TRIED.values()) if list(limits) == sorted(limits))
    return {limits: {name: balance(*measure(rows, limits)) for name, rows in sets.items()} for limits in tried}


def choose(measured: Mapping[Limits, Mapping[str, float]], names: Iterable[str], own: list[Row]) -> Limits:
    kept = list(names)
    means = {limits: sum(of_set[name] for name in kept) / len(kept) for limits, of_set in measured.items()}
    good = [limits for limits, mean in means.items() if mean >= max(means.values()) - NEARLY_BEST]
    return min(good, key=lambda limits: (measure(own, limits)[1], -means[limits]))


def area(rows: Iterable[Row]) -> float:
    """Return the area under the curve of the model's log-odds, of claims that it decides."""
    scored = [
        (min(s.log_odds for s in row.sentences if s.log_odds is not None), row.is_right)
        for row in rows
        if any(s.log_odds is not None for s in row.sentences)
    ]
    values, right = np.array([value for value, _ in scored]), np.array([label for _, label in scored])
    above = (values[right][:, None] > values[~right]).mean() + (values[right][:, None] == values[~right]).mean() / 2
    return float(above)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open", type=Path)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--written", type=Path, nargs="*", default=[], help="written passages that are in no training")
    parser.add_argument("--without", nargs="*", default=[], help="sets that the training left out")
    parser.add_argument("--own-trained", action="store_true", help="the training had our own pairs, but for a fifth")
    parser.add_argument("--write", action="store_true")
    a = parser.parse_args()
    model = OnnxSupportModel(a.weights)
    trained = [name for name in SETS if name not in a.without]
    names = [*UNSEEN_SETS, *SETS]
    sets = {name: await read_set(a.open / f"{name}.jsonl.gz", model, is_trained=name in trained) for name in names}
    if a.written:
        sets["written, held"] = await read_written(a.written, model)
    sets[OWN] = await read_own(model, is_trained=a.own_trained)
    measured = measure_all(sets)
    print("set, rows, AUC of the model where it decides, then by words → by both: balanced, right and wrong supported")
    for name, rows in sets.items():
        limits = choose(measured, [other for other in sets if other != name], sets[OWN])
        before, after = measure(rows, None), measure(rows, limits)
        note = "  (a held fifth)" if name in trained else ""
        print(
            f"{name:18}{len(rows):6}  {area(rows):.3f}  {balance(*before):.3f} → {balance(*after):.3f}"
            f"  {before[0]:.2f} {before[1]:.2f} → {after[0]:.2f} {after[1]:.2f}  {limits}{note}",
            flush=True,
        )
    best = choose(measured, sets, sets[OWN])
    print("all sets:", best, {name: round(value, 3) for name, value in measured[best].items()})
    stored = json.loads(LIMITS.read_text(encoding="utf-8"))
    ships = tuple(float(stored["english"][verdict]["supported"]) for verdict in VERDICTS)
    for name, rows in sets.items():
        right, wrong = measure(rows, ships)
        print(f"with the limits that ship: {name:18}  {balance(right, wrong):.3f}  {right:.2f} {wrong:.2f}")
    fitted = {
        verdict: {"supported": least, "partial": least - PARTIAL_BELOW}
        for verdict, least in zip(VERDICTS, best, strict=True)
    }
    print(json.dumps(fitted))
    if a.write:
        LIMITS.write_text(
            json.dumps(stored | {"english": stored["english"] | fitted}, indent=2) + "\n", encoding="utf-8"
        )
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
