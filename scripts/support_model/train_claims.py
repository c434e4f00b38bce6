"""Train the claim model: a cross-encoder that reads a claim and a passage, and says whether the passage supports the claim.

    python -m scripts.support_model.train_claims CLAIMS.jsonl.gz… TOKENIZER START OUT --steps 1250

CLAIMS is what `earlier_scores` and `light_edits` wrote. A batch has 96 claims unless `--batch` says otherwise. A claim's label
counts most, the earlier models' score the rest; a claim without a label has the score alone. The second head stays as it is.
Everything else is as in `train_answers`.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from scripts.support_model.train import SUPPORT, TOKENS
from scripts.support_model.train_answers import (
    SMOOTHING,
    Pair,
    Training,
    add_arguments,
    load_model,
    load_tokenizer,
    rate_at,
    read_scores,
)
from tokenizers import Tokenizer

CLAIMS: Final = 96  # of a batch
LABEL_SHARE: Final = 0.6  # of what is learnt of a labelled claim; the earlier models' score has the rest
WRITTEN_LABEL_SHARE: Final = 0.8
# How often a pair of each set is drawn, compared with a claim without a label.
TIMES: Final = {
    "light": 5.0, "light-edited": 1.5, "near-copy": 1.0, "written": 3.0, "written-edited": 0.8, "attributionbench": 3.0,
    "lfqa": 3.0, "wice": 4.0, "factcheck-gpt": 2.0, "fool-me-twice": 4.0, "summedits": 5.0, "summedits-edited": 1.5,
    "summedits-sentences": 2.0, "own": 2.0, "breaking-nli": 0.5, "med": 0.6, "packages": 0.5, "manuals": 0.5, "verses": 0.4,
    "unrelated": 1.2, "squad": 2.0, "short": 10.0, "contrast": 10.0,
}  # fmt: skip
LESS_CERTAIN: Final = {"squad": 0.06}  # label smoothing for claims that a program generated


@dataclass(frozen=True)
class Claim:
    pair: Pair
    wanted: float  # probability


def compute_wanted(row: dict[str, Any]) -> float:
    smoothing = LESS_CERTAIN.get(row["set"], SMOOTHING)
    label = float(row["label"] == "supported") * (1 - 2 * smoothing) + smoothing
    if "said" not in row:
        return label
    said = float(1 / (1 + np.exp(-row["said"])))
    share = (WRITTEN_LABEL_SHARE if row["set"] == "written" else LABEL_SHARE) if row["label"] else 0.0
    return share * label + (1 - share) * said


def read_claims(paths: Sequence[Path], tokenizer: Tokenizer) -> tuple[list[Claim], np.ndarray]:
    """Return the claims, and how likely each is drawn."""
    rows = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows += [json.loads(line) for line in lines]
    encoded = tokenizer.encode_batch([(row["claim"], row["source"]) for row in rows])
    claims = [
        Claim(Pair(e.ids, e.type_ids, False, True), compute_wanted(row)) for e, row in zip(encoded, rows, strict=True)
    ]
    weights = np.array([TIMES.get(row["set"], 1.0) if row["label"] else 1.0 for row in rows])
    return claims, weights / weights.sum()


def draw_claims(claims: Sequence[Claim], weights: np.ndarray, seed: int, count: int) -> Iterator[list[Claim]]:
    drawn = np.random.default_rng(seed)
    while True:
        yield [claims[at] for at in drawn.choice(len(claims), count, p=weights)]


def measure_claim_loss(scores: torch.Tensor, claims: Sequence[Claim]) -> torch.Tensor:
    wanted = torch.tensor([one.wanted for one in claims], dtype=torch.float)
    return torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", type=Path, nargs="+")
    add_arguments(parser, steps=1250, rate=6e-5)
    parser.add_argument("--batch", type=int, default=CLAIMS, help="claims of a batch")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    claims, weights = read_claims(a.claims, load_tokenizer(a.tokenizer, "longest_first", TOKENS))
    print(f"{len(claims)} claims", flush=True)
    dtype = torch.float32 if a.floats else torch.bfloat16
    rates = partial(rate_at, steps=a.steps, is_level=False)
    training = Training(load_model(a.start, 2), a.start, a.rate, rates, dtype)

    def measure(batch: Sequence[Claim]) -> Sequence[torch.Tensor]:
        scores = read_scores(training.model, [one.pair for one in batch])
        return [measure_claim_loss(scores[:, SUPPORT], batch)]

    training.run(draw_claims(claims, weights, a.seed, a.batch), a.steps, measure)
    training.save(a.out)


if __name__ == "__main__":
    main()
