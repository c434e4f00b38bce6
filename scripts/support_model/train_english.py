"""Train the English support model: one encoder with two heads, for claims and for questions.

    python -m scripts.support_model.train_english CLAIMS.jsonl.gz GROUPS.jsonl.gz… TOKENIZER START OUT --steps 1260

CLAIMS is what `earlier_scores` wrote, GROUPS what `answer_groups` wrote, and START an answer model that `train_answers` wrote. A
batch has 64 claims, and four questions with their sentences. A claim's label counts most, the earlier models' score the rest; a
claim without a label has the score alone. Everything else is as in `train_answers`.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import load_file
from scripts.support_model.train import ANSWER, SUPPORT
from scripts.support_model.train_answers import (
    SMOOTHING,
    Pair,
    Training,
    add_arguments,
    draw_batches,
    load_model,
    load_tokenizer,
    measure_loss,
    rate_at,
    read_groups,
    read_scores,
)
from tokenizers import Tokenizer

CLAIMS, QUESTIONS = 64, 4  # of a batch
LABEL_SHARE: Final = 0.65  # of what is learnt of a labelled claim; the earlier models' score has the rest
WRITTEN_LABEL_SHARE: Final = 0.85
QUESTIONS_WEIGHT: Final = 0.4
FIRST_BIAS: Final = -0.5  # of the new head: more claims are wrong than right
# How often a pair of each set is drawn, compared with a claim without a label.
TIMES: Final = {
    "written": 3.0, "written-edited": 0.8, "attributionbench": 3.0, "lfqa": 3.0, "wice": 4.0,
    "factcheck-gpt": 2.0,
    "fool-me-twice": 4.0, "summedits": 4.0, "summedits-sentences": 1.5, "own": 2.0, "breaking-nli": 0.5, "med": 0.6,
    "packages": 0.5, "manuals": 0.5, "verses": 0.4, "unrelated": 0.6,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    pair: Pair
    wanted: float  # probability


def compute_wanted(row: dict[str, Any]) -> float:
    label = float(row["label"] == "supported") * (1 - 2 * SMOOTHING) + SMOOTHING
    if "said" not in row:
        return label
    said = float(1 / (1 + np.exp(-row["said"])))
    share = (WRITTEN_LABEL_SHARE if row["set"] == "written" else LABEL_SHARE) if row["label"] else 0.0
    return share * label + (1 - share) * said


def read_claims(path: Path, tokenizer: Tokenizer) -> tuple[list[Claim], np.ndarray]:
    """Return the claims, and how likely each is drawn."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    encoded = tokenizer.encode_batch([(row["claim"], row["source"]) for row in rows])
    claims = [
        Claim(Pair(e.ids, e.type_ids, False, True), compute_wanted(row)) for e, row in zip(encoded, rows, strict=True)
    ]
    weights = np.array([TIMES.get(row["set"], 1.0) if row["label"] else 1.0 for row in rows])
    return claims, weights / weights.sum()


def draw_claims(claims: Sequence[Claim], weights: np.ndarray, seed: int) -> Iterator[list[Claim]]:
    drawn = np.random.default_rng(seed)
    while True:
        yield [claims[at] for at in drawn.choice(len(claims), CLAIMS, p=weights)]


def load_both_heads(start: Path) -> Any:
    """Return the answer model with a new first head."""
    model, stored = load_model(start, 2), load_file(start / "model.safetensors")
    if len(stored["classifier.bias"]) == 1:
        with torch.no_grad():
            for name, value in model.classifier.named_parameters():
                value[ANSWER] = stored[f"classifier.{name}"][0]
            model.classifier.bias[SUPPORT] = FIRST_BIAS
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", type=Path)
    add_arguments(parser, steps=1260, rate=4e-5)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = load_tokenizer(a.tokenizer, "longest_first")
    claims, weights = read_claims(a.claims, tokenizer)
    groups = read_groups(a.groups, tokenizer)
    print(f"{len(claims)} claims, {len(groups)} questions", flush=True)
    training = Training(load_both_heads(a.start), a.start, a.rate, lambda step: rate_at(step, a.steps, is_level=False))
    began, losses = time.monotonic(), np.zeros(2)
    drawn = zip(draw_claims(claims, weights, a.seed), draw_batches(groups, a.seed, QUESTIONS), strict=True)
    for step, (batch, asked) in zip(range(1, a.steps + 1), drawn, strict=False):
        pairs = [*(one.pair for one in batch), *(one for group in asked for one in group)]
        scores = read_scores(training.model, pairs)
        wanted = torch.tensor([one.wanted for one in batch], dtype=torch.float)
        lost = torch.nn.functional.binary_cross_entropy_with_logits(scores[:CLAIMS, SUPPORT], wanted)
        lost_of_questions = measure_loss(scores[CLAIMS:, ANSWER], asked)
        training.take_step(lost + QUESTIONS_WEIGHT * lost_of_questions, counts=step > a.steps // 10)
        losses += lost.item(), lost_of_questions.item()
        if step % 50 == 0:
            print(f"{step} steps, {time.monotonic() - began:.0f} s, losses {losses / 50}", flush=True)
            losses = np.zeros(2)
    training.save(a.out)


if __name__ == "__main__":
    main()
