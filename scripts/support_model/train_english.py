"""Train the English support model: one encoder with two heads, for claims and for questions.

    python -m scripts.support_model.train_english CLAIMS.jsonl.gz GROUPS.jsonl.gz… TOKENIZER START OUT --steps 1260

CLAIMS is what `earlier_scores` wrote, GROUPS what `answer_groups` wrote, and START an answer model that `train_answers` wrote. A
batch has 64 claims, and four questions with their sentences. A claim's label counts most, the earlier models' score the rest; a
claim without a label has the score alone. Everything else is as in `train_answers`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file
from scripts.support_model.train import ANSWER, SUPPORT
from scripts.support_model.train_answers import (
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
from scripts.support_model.train_claims import Claim, draw_claims, measure_claim_loss, read_claims

CLAIMS, QUESTIONS = 64, 4  # of a batch
QUESTIONS_WEIGHT: Final = 0.4
FIRST_BIAS: Final = -0.5  # of the new head: more claims are wrong than right


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
    parser.add_argument("groups", type=Path, nargs="+")
    add_arguments(parser, steps=1260, rate=4e-5)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tokenizer = load_tokenizer(a.tokenizer, "longest_first")
    claims, weights = read_claims([a.claims], tokenizer)
    groups = read_groups(a.groups, tokenizer)
    print(f"{len(claims)} claims, {len(groups)} questions", flush=True)
    training = Training(load_both_heads(a.start), a.start, a.rate, lambda step: rate_at(step, a.steps, is_level=False))

    def measure(both: tuple[Sequence[Claim], Sequence[Sequence[Pair]]]) -> Sequence[torch.Tensor]:
        batch, asked = both
        scores = read_scores(training.model, [*(one.pair for one in batch), *(one for group in asked for one in group)])
        lost = measure_claim_loss(scores[:CLAIMS, SUPPORT], batch)
        return [lost, QUESTIONS_WEIGHT * measure_loss(scores[CLAIMS:, ANSWER], asked)]

    drawn = zip(draw_claims(claims, weights, a.seed, CLAIMS), draw_batches(groups, a.seed, QUESTIONS), strict=True)
    training.run(drawn, a.steps, measure)
    training.save(a.out)


if __name__ == "__main__":
    main()
