"""Train the support model by a teacher: a larger encoder learns the labelled pairs, labels all pairs, and the model learns these.

    python -m scripts.support_model.distil POOL.jsonl.gz… TEACHER BASE OUT [--start STAGE]

A row with `english`, a claim and its passage as JSON, is read by the teacher in English: `parallel` writes such rows. The
vectors of the pieces stay as they are with `--keep-words`. Needs an accelerator: six minutes on one of 2025, days without.
TEACHER is what `teacher` wrote. OUT gets the weights, as `train` writes them, and `teacher.npy`, the teacher's log-odds for each
row of POOL; with this file there, the teacher is not trained again.
"""

import argparse
import collections
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scripts.support_model.train import ANSWER, QUESTIONS, SUPPORT, TOKENS, load_model, load_tokenizer, read_pairs
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

TEACHER_TOKENS, TEACHER_BATCH = 160, 96
TEACHER_TIMES, MODEL_TIMES = (
    4,
    12,
)  # how often a row is read at most: few labelled ones are read oftener by the weights of sets
# How much each set weighs in what is drawn; another set weighs as much as MADE.
WEIGHTS = {
    "written": 12.0, "attributionbench": 6.0, "lfqa": 6.0, "wice": 6.0, "factcheck-gpt": 4.0, "fool-me-twice": 5.0,
    "summedits": 3.0, "summedits-sentences": 5.0, "own": 1.0, "breaking-nli": 2.0, "med": 2.0, "written-edited": 4.0,
    "unrelated": 3.0, "manuals": 4.0, "packages": 6.0, "verses": 2.0, "questions": 16.0, "clapnq": 6.0, "claims": 6.0,
    "cut": 6.0, "doubted-elsewhere": 4.0, "clapnq-sentences": 6.0, "help": 36.0, "descriptions": 18.0,
}  # fmt: skip
MADE = 2.0
UNLABELLED = "unlabelled "  # before the name of a set, where its rows have no label
SMOOTHING = 0.02
KEPT_WEIGHTS = 0.999  # of the running mean of the weights, which is what is written
Encoded = list[tuple[list[int], list[int]]]


def name_set(row: dict[str, str]) -> str:
    return row["set"] if row["label"] else UNLABELLED + row["set"]


def weigh_rows(rows: list[dict[str, str]], draws: int, times: int, *, is_labelled_only: bool) -> np.ndarray:
    """Return how likely each row is drawn: by its set, half of a set's weight by its labels; no row about more than `times`."""
    groups = [(name_set(row), row["label"]) for row in rows]
    counts = collections.Counter(groups)
    labels, totals = collections.Counter(name for name, _ in counts), collections.Counter(name for name, _ in groups)
    shares = {
        (name, label): WEIGHTS.get(name.removeprefix(UNLABELLED), MADE)
        * (0.5 / labels[name] + 0.5 * count / totals[name])
        for (name, label), count in counts.items()
        if label or not is_labelled_only
    }
    whole = sum(shares.values())
    shares = {group: min(share / whole, times * counts[group] / draws) for group, share in shares.items()}
    weights = np.array([shares.get(group, 0.0) / counts[group] for group in groups])
    normed: np.ndarray = weights / weights.sum()
    return normed


def encode(tokenizer: Tokenizer, rows: list[dict[str, str]], *, is_teacher: bool) -> Encoded:
    """Return the tokens of each pair. The teacher reads the passage first, and English."""
    pairs = [json.loads(row["english"])[::-1] if "english" in row else (row["source"], row["claim"]) for row in rows]
    read = pairs if is_teacher else [(row["claim"], row["source"]) for row in rows]
    return [(e.ids, e.type_ids) for e in tokenizer.encode_batch(read)]


def pad(items: Encoded, padding: int, *, has_types: bool) -> dict[str, torch.Tensor]:
    length = -(-max(len(ids) for ids, _ in items) // 8) * 8
    ids = np.full((len(items), length), padding, dtype=np.int64)
    types, mask = np.zeros_like(ids), np.zeros_like(ids)
    for row, (tokens, kinds) in enumerate(items):
        ids[row, : len(tokens)], types[row, : len(tokens)], mask[row, : len(tokens)] = tokens, kinds, 1
    batch = {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if has_types else {})
    return {name: torch.from_numpy(one).to(DEVICE, non_blocking=True) for name, one in batch.items()}


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Reader:
    """A model with two heads, and how its pairs are encoded."""

    def __init__(self, model: Any, tokenizer: Tokenizer, *, is_teacher: bool) -> None:
        self.model = model.to(DEVICE)
        self._tokenizer = tokenizer
        self._is_teacher = is_teacher

    def encode(self, rows: list[dict[str, str]]) -> Encoded:
        return encode(self._tokenizer, rows, is_teacher=self._is_teacher)

    def read(self, items: Encoded, heads: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda"):
            logits = self.model(**pad(items, 0, has_types=not self._is_teacher)).logits
        return logits.float().gather(1, heads[:, None])[:, 0]

    def score(self, encoded: Encoded, heads: np.ndarray, batch: int = 1024) -> np.ndarray:
        self.model.eval()
        order = np.argsort([len(ids) for ids, _ in encoded], kind="stable")
        scores = np.zeros(len(encoded), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), batch):
                places = order[start : start + batch]
                read = self.read([encoded[at] for at in places], torch.tensor(heads[places]).to(DEVICE))
                scores[places] = read.cpu().numpy()
        self.model.train()
        return scores


def draw_batches(encoded: Encoded, weights: np.ndarray, batch: int, seed: int) -> Iterator[np.ndarray]:
    """Endless batches of pairs of similar length."""
    drawn = np.random.default_rng(seed)
    lengths = np.array([len(ids) for ids, _ in encoded])
    while True:
        chosen = drawn.choice(len(encoded), size=batch * 64, p=weights)
        chosen = chosen[np.argsort(lengths[chosen], kind="stable")].reshape(64, batch)
        yield from drawn.permutation(chosen)


def rate_at(step: int, steps: int) -> float:
    warm = max(1, steps // 20)
    return (
        (step + 1) / warm
        if step < warm
        else 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))
    )


def train(
    reader: Reader, encoded: Encoded, heads: np.ndarray, wanted: np.ndarray, weights: np.ndarray,
    *, steps: int, batch: int, rate: float, seed: int,
) -> None:  # fmt: skip
    """Train in place. In the end the weights are the running mean of the trained ones."""
    torch.manual_seed(seed)
    model = reader.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=DEVICE == "cuda")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, steps))
    mean = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(KEPT_WEIGHTS)
    )
    began, losses = time.monotonic(), 0.0
    for step, places in zip(range(1, steps + 1), draw_batches(encoded, weights, batch, seed), strict=False):
        scores = reader.read([encoded[at] for at in places], torch.tensor(heads[places]).to(DEVICE))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, torch.tensor(wanted[places]).to(DEVICE))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step > steps // 20:
            mean.update_parameters(model)
        losses += loss.detach()
        if step % 250 == 0:
            print(f"{step} steps, {time.monotonic() - began:.0f} s, loss {float(losses) / 250:.3f}", flush=True)
            losses = 0.0
    model.load_state_dict(mean.module.state_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path, nargs="+")
    for name in ("teacher", "base", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--start", type=Path, help="weights of an earlier stage to begin with, in place of BASE")
    parser.add_argument("--teacher-steps", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument(
        "--hard-share",
        type=float,
        default=0.4,
        help="of a label in what is learnt of a labelled pair; the teacher has the rest",
    )
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a pair: 128 for the model of several languages")
    parser.add_argument("--keep-words", action="store_true", help="leave the vectors of the pieces as they are")
    parser.add_argument("--without-teacher", action="store_true", help="learn from the labels alone, to compare")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    rows = [row for path in a.pool for row in read_pairs(path)]
    heads = np.array([ANSWER if row["set"] in QUESTIONS else SUPPORT for row in rows])
    labels = (
        np.array([float(row["label"] == "supported") for row in rows], dtype=np.float32) * (1 - 2 * SMOOTHING)
        + SMOOTHING
    )
    is_labelled = np.array([bool(row["label"]) for row in rows])
    wanted = labels
    if not a.without_teacher:
        said = 1 / (1 + np.exp(-ask_teacher(a, rows, heads, labels)))
        wanted = np.where(is_labelled, a.hard_share * labels + (1 - a.hard_share) * said, said).astype(np.float32)
    weights = weigh_rows(rows, a.steps * a.batch, MODEL_TIMES, is_labelled_only=a.without_teacher)
    model = Reader(load_model(a.base, a.start), load_tokenizer(a.base, a.tokens), is_teacher=False)
    model.model.get_input_embeddings().weight.requires_grad_(not a.keep_words)
    train(model, model.encode(rows), heads, wanted, weights, steps=a.steps, batch=a.batch, rate=a.rate, seed=a.seed)
    model.model.save_pretrained(a.out)


def load_teacher(folder: Path) -> Reader:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TEACHER_TOKENS, strategy="longest_first")
    return Reader(AutoModelForSequenceClassification.from_pretrained(folder), tokenizer, is_teacher=True)


def ask_teacher(a: argparse.Namespace, rows: list[dict[str, str]], heads: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the teacher's log-odds for each row."""
    kept = a.out / "teacher.npy"
    if not kept.exists():
        teacher = load_teacher(a.teacher)
        encoded = teacher.encode(rows)
        weights = weigh_rows(rows, a.teacher_steps * TEACHER_BATCH, TEACHER_TIMES, is_labelled_only=True)
        train(
            teacher, encoded, heads, labels, weights, steps=a.teacher_steps, batch=TEACHER_BATCH, rate=6e-5, seed=a.seed
        )
        np.save(kept, teacher.score(encoded, heads))
        teacher.model.save_pretrained(a.out / "teacher")
    scores: np.ndarray = np.load(kept)
    return scores


if __name__ == "__main__":
    main()
