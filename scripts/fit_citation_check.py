"""Fit the score of the citation check to labelled sentences, and print how good and how well calibrated it is.

    python scripts/fit_citation_check.py DIR            prints the figures
    python scripts/fit_citation_check.py DIR --write    and writes the weights

DIR has `open/<set>.jsonl.gz` with `claim`, `source`, `label` and `title` on each line. The sets are other people's, so they
stay outside of the repository. Our own pairs that were looked at (scripts/quality.py) are fitted too, as one set more; the
blind ones are not. Each set and each label in it weighs the same, so 0.5 is as likely true as wrong where both are as many.

"Across sources": the score of each sentence by weights that were fitted without its source. "Across sets": without its set.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts import quality  # noqa: E402

from modules.llm_platform.domain.citations.compare.alignment import prepare_source  # noqa: E402
from modules.llm_platform.domain.citations.compare.comparison import Comparison  # noqa: E402
from modules.llm_platform.domain.citations.compare.facts import find_mismatch, is_partial_at_best  # noqa: E402
from modules.llm_platform.domain.citations.compare.score import Features, compute_features  # noqa: E402
from modules.llm_platform.domain.citations.compare.verdicts import is_verbatim  # noqa: E402
from modules.llm_platform.domain.citations.read.claims import read_claim  # noqa: E402
from modules.llm_platform.domain.citations.read.sentences import read_answer  # noqa: E402

PUBLIC: Final = ("attributionbench", "wice", "scifact", "factcheck-gpt", "lfqa")
OWN: Final = "our pairs"
LOOKED_AT: Final = ("tuned on", "written last", "second author", "second author, later", quality.PAGES)
WEIGHTS: Final = ROOT / "src/modules/llm_platform/domain/text/data/citation_weights.json"
FOLDS: Final = 5
RIDGE: Final = 3.0  # applies to standardised features, against a total weight of 2000 a set
SET_WEIGHT: Final = 1000.0  # weight of each label of a set
ROUNDS: Final = 2  # the first finds out which sentence of a wrong claim is the wrong one
NEWTON_STEPS: Final = 12
BINS: Final = 5
SENTENCE_END: Final = re.compile(r"(?<=[a-z0-9)\]”\"'%][.!?])\s+(?=[A-Z“\"'(])")
MARKER: Final = re.compile(r"\s*\[\d+(?:\s*(?:,|and|&|-|–)\s*\d+)*\]")

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Labelled:
    """A claim of one or more sentences, and what they were found to be against its source."""

    set: str
    label: str
    fold: int
    features: Array  # one row for each sentence
    refuted: bool
    verbatim: tuple[bool, ...]


def public_rows(folder: Path, part: str = "open", sets: Sequence[str] = PUBLIC) -> Iterator[quality.Pair]:
    """Yield the claims of others, each sentence with a marker; `kind` is the set."""
    for name in sets:
        with gzip.open(folder / part / f"{name}.jsonl.gz", "rt", encoding="utf-8", errors="surrogatepass") as lines:
            for row in map(json.loads, lines):
                sentences = SENTENCE_END.split(" ".join(MARKER.sub("", row["claim"]).split()))
                answer = " ".join(
                    re.sub(r"([.!?…]*[\"'”’)]*)\s*$", r" [1]\1", sentence, count=1) for sentence in sentences
                )
                yield quality.Pair(
                    row["id"], name, answer, row["source"], row["label"], "en", title=row.get("title", "")
                )


def own_rows() -> Iterator[quality.Pair]:
    sets = quality.load()
    for pair in (pair for name in LOOKED_AT for pair in sets[name]):
        yield quality.Pair(**vars(pair) | {"kind": OWN, "sentence": f"{pair.sentence} [1]"})


def examine(pair: quality.Pair) -> Labelled | None:
    """None for a source without text and for a claim without a word of its source, which need no score."""
    source = prepare_source(pair.source, pair.title, pair.language)
    rows, refuted, verbatim = [], False, []
    for sentence in read_answer(pair.sentence, pair.language).sentences:
        claim = read_claim(html.unescape(sentence.claim), pair.language)
        passage = source.find_best_passage(claim)
        if passage is None or not sentence.cited:
            continue
        compared = Comparison(claim, source, passage)
        rows.append(compute_features(compared))
        verbatim.append(is_verbatim(claim, source))
        is_kept = not find_mismatch(compared) and not is_partial_at_best(compared)
        refuted |= not verbatim[-1] and not is_kept
    if not rows:
        return None
    fold = zlib.crc32(pair.source.encode("utf-8", "replace")) % FOLDS
    return Labelled(pair.kind, pair.label, fold, np.array(rows, float), refuted, tuple(verbatim))


def newton(rows: Array, labels: Array, weights: Array) -> Array:
    """Return the weights of a logistic regression, the bias first; rows are standardised within."""
    mean, spread = rows.mean(0), rows.std(0) + 1e-9
    design = np.column_stack([np.ones(len(rows)), (rows - mean) / spread])
    ridge = RIDGE * np.r_[0.0, np.ones(rows.shape[1])]
    fitted = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        said = 1 / (1 + np.exp(-np.clip(design @ fitted, -30, 30)))
        slope = design.T @ (weights * (labels - said)) - ridge * fitted
        curve = (design * (weights * said * (1 - said))[:, None]).T @ design + np.diag(ridge + 1e-9)
        fitted += np.linalg.solve(curve, slope)
    plain = fitted[1:] / spread
    found: Array = np.r_[fitted[0] - plain @ mean, plain]
    return found


def fit(claims: Sequence[Labelled]) -> Array:
    """Return the weights for these claims: of a wrong one its least likely sentence counts, of a true one all do."""
    counts = {(claim.set, claim.label == "supported"): 0 for claim in claims}
    for claim in claims:
        counts[claim.set, claim.label == "supported"] += 1
    fitted: Array = np.r_[0.0, np.ones(2), np.zeros(len(Features._fields) - 2)]
    for _ in range(ROUNDS):
        rows, labels, weights = [], [], []
        for claim in claims:
            true = claim.label == "supported"
            some = claim.features if true else claim.features[[np.argmin(claim.features @ fitted[1:])]]
            rows.append(some)
            labels += [float(true)] * len(some)
            weights += [SET_WEIGHT / counts[claim.set, true] / len(some)] * len(some)
        fitted = newton(np.concatenate(rows), np.array(labels), np.array(weights))
    return fitted


def score_of(claim: Labelled, fitted: Array) -> float:
    """Return the probability of the least likely sentence; one that is in the source word for word is certain."""
    found = 1 / (1 + np.exp(-np.clip(fitted[0] + claim.features @ fitted[1:], -30, 30)))
    return float(np.where(claim.verbatim, 1.0, found).min())


def across(claims: Sequence[Labelled], part_of: Callable[[Labelled], object]) -> list[float]:
    """Return the score of each claim by the weights of all claims of other parts."""
    fitted = {
        part: fit([claim for claim in claims if part_of(claim) != part])
        for part in {part_of(claim) for claim in claims}
    }
    return [score_of(claim, fitted[part_of(claim)]) for claim in claims]


def report(title: str, claims: Sequence[Labelled], scores: Sequence[float], least: float) -> None:
    """Balanced accuracy, and what was called supported of the wrong and of the true claims, for each set."""
    print(title)
    means = []
    for name in dict.fromkeys(claim.set for claim in claims):
        said = [
            (claim.label == "supported", score >= least and not claim.refuted)
            for claim, score in zip(claims, scores, strict=True)
            if claim.set == name
        ]
        true, wrong = (quality.share(found for label, found in said if label is kind) for kind in (True, False))
        means.append((true + 1 - wrong) / 2)
        print(
            f"  {name:17} balanced {means[-1]:.3f}, called supported: wrong {wrong:.2f}, true {true:.2f}, n {len(said)}"
        )
    print(f"  mean of the public sets {np.mean(means[: len(PUBLIC)]):.3f}")


def calibration(claims: Sequence[Labelled], scores: Sequence[float]) -> float:
    """Print for five bins of the scores of claims without a changed fact the mean score and the share that is supported.

    Returns the share that is supported of those with a changed fact.
    """
    print("calibration, each set and label weighing the same: score, share supported, claims")
    kept = [(claim, score) for claim, score in zip(claims, scores, strict=True) if not claim.refuted]
    size = {
        (name, true): sum(claim.set == name and (claim.label == "supported") is true for claim in claims)
        for name in {claim.set for claim in claims}
        for true in (True, False)
    }
    weight = [1 / size[claim.set, claim.label == "supported"] for claim, _ in kept]
    for number in range(BINS):
        inside = [
            (w, claim, score)
            for w, (claim, score) in zip(weight, kept, strict=True)
            if number <= min(score, 0.999) * BINS < number + 1
        ]
        total = sum(w for w, _, _ in inside) or 1.0
        mean = sum(w * score for w, _, score in inside) / total
        true = sum(w for w, claim, _ in inside if claim.label == "supported") / total
        print(f"  {mean:.2f}  {true:.2f}  {len(inside)}")
    gone = [(1 / size[claim.set, claim.label == "supported"], claim) for claim in claims if claim.refuted]
    share = sum(w for w, claim in gone if claim.label == "supported") / (sum(w for w, _ in gone) or 1.0)
    print(f"  a fact differs: {share:.2f}  {len(gone)}")
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    options = parser.parse_args()
    pairs = [*public_rows(options.folder), *own_rows()]
    claims = [claim for claim in map(examine, pairs) if claim is not None]
    known = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    scores = across(claims, lambda claim: claim.fold)
    report("across sources", claims, scores, known["supported"])
    report("across sets", claims, across(claims, lambda claim: claim.set), known["supported"])
    refuted = calibration(claims, scores)
    fitted = [round(float(value), 3) for value in fit(claims)]
    known |= {"bias": fitted[0], "features": dict(zip(Features._fields, fitted[1:], strict=True))}
    known["refuted"] = round(refuted, 2)
    print(json.dumps(known, indent=2))
    if options.write:
        WEIGHTS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
