"""Fine-tune all-MiniLM-L6-v2 as a cross-encoder (claim, passage) → support, on one core of a CPU or on an accelerator.

A second head reads (question, sentence) → answer: the pairs of the sets in QUESTIONS train it, all others the first one.

    python -m scripts.support_model.train PAIRS.jsonl.gz… BASE OUT --minutes 120 --steps 5500

A run keeps its weights, optimizer and place in OUT every 200 steps and continues from there; the same seed and pairs give the
same order. BASE holds config.json, tokenizer.json and model.safetensors, whose digests are checked.
"""

import argparse
import collections
import gzip
import hashlib
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

TOKENS, BATCH, POOL = 104, 32, 1024
PEAK_RATE, LAST_RATE, WARM_STEPS = 5e-5, 2e-6, 150
SMOOTHING = 0.02  # labels are noisy: no pair counts as wholly right or wrong
DIGESTS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
QUESTIONS = ("questions", "clapnq")
SUPPORT, ANSWER = 0, 1  # the heads
Encoded = tuple[list[int], list[int]]


def check_base(base: Path) -> None:
    for name, digest in DIGESTS.items():
        if hashlib.sha256((base / name).read_bytes()).hexdigest() != digest:
            raise SystemExit(f"{name} of {base} is not the file that the weights are made from: see README.md")


def load_tokenizer(base: Path, tokens: int = TOKENS) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens, strategy="longest_first")
    return tokenizer


def read_pairs(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def encode(tokenizer: Tokenizer, rows: list[dict[str, str]]) -> list[Encoded]:
    return [(e.ids, e.type_ids) for e in tokenizer.encode_batch([(row["claim"], row["source"]) for row in rows])]


def pad(items: list[Encoded], device: str) -> dict[str, torch.Tensor]:
    length = max(len(ids) for ids, _ in items)
    ids, types, mask = (torch.zeros((len(items), length), dtype=torch.long) for _ in range(3))
    for row, (tokens, kinds) in enumerate(items):
        ids[row, : len(tokens)], types[row, : len(tokens)] = torch.tensor(tokens), torch.tensor(kinds)
        mask[row, : len(tokens)] = 1
    return {"input_ids": ids.to(device), "token_type_ids": types.to(device), "attention_mask": mask.to(device)}


def weigh(rows: list[dict[str, str]]) -> torch.Tensor:
    """Right and wrong pairs of one set count the same, within limits."""
    counts = collections.Counter((row["set"], row["label"]) for row in rows)
    totals = collections.Counter(row["set"] for row in rows)
    return torch.tensor([min(3.0, max(0.4, totals[r["set"]] / 2 / counts[r["set"], r["label"]])) for r in rows])


def draw_batches(encoded: list[Encoded], seed: int) -> Iterator[list[int]]:
    """Endless batches of pairs of similar length, in an order that the seed decides."""
    shuffled = random.Random(seed)
    while True:
        order = list(range(len(encoded)))
        shuffled.shuffle(order)
        batches = []
        for start in range(0, len(order), POOL):
            alike = sorted(order[start : start + POOL], key=lambda at: len(encoded[at][0]))
            batches += [alike[at : at + BATCH] for at in range(0, len(alike), BATCH)]
        shuffled.shuffle(batches)
        yield from batches


def rate_at(step: int, steps: int) -> float:
    """The share of the peak rate: up in a line, down in a cosine."""
    if step < WARM_STEPS:
        return (step + 1) / WARM_STEPS
    done = min(1.0, (step - WARM_STEPS) / max(1, steps - WARM_STEPS))
    low = LAST_RATE / PEAK_RATE
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done))


def load_model(base: Path, start: Path | None) -> Any:
    """Return the model with both heads. Weights of an earlier stage may have the first head alone."""
    model = AutoModelForSequenceClassification.from_pretrained(
        start or base, num_labels=2, ignore_mismatched_sizes=True
    )
    kept = load_file(start / "model.safetensors") if start else {}
    for name, value in model.classifier.named_parameters():
        earlier = kept.get(f"classifier.{name}")
        if earlier is not None and len(earlier) == 1:
            value.data[SUPPORT] = earlier[SUPPORT]
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("base", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, help="weights of an earlier stage to begin with, in place of BASE")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--steps", type=int, default=5500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    check_base(a.base)
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # A processor without AVX-512 takes thirty times as long for them.
    is_half_fast = device == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    a.out.mkdir(parents=True, exist_ok=True)
    rows = [row for path in a.pairs for row in read_pairs(path)]
    encoded = encode(load_tokenizer(a.base), rows)
    labels = torch.tensor([float(row["label"] == "supported") for row in rows])
    weights = weigh(rows)
    heads = torch.tensor([ANSWER if row["set"] in QUESTIONS else SUPPORT for row in rows])
    model = load_model(a.base, a.start).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, a.steps))
    kept, step = a.out / "training.pt", 0
    if kept.exists():
        state: dict[str, Any] = torch.load(kept, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]
        torch.manual_seed(a.seed + step)

    def keep() -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        torch.save(state | {"step": step}, kept.with_suffix(".new"))
        kept.with_suffix(".new").replace(kept)

    began, losses = time.monotonic(), collections.deque[float](maxlen=100)
    for number, batch in enumerate(draw_batches(encoded, a.seed)):
        if number < step:
            continue
        if step >= a.steps or time.monotonic() - began > 60 * a.minutes:
            break
        wanted = labels[batch].to(device) * (1 - 2 * SMOOTHING) + SMOOTHING
        with torch.autocast(device, dtype=torch.bfloat16, enabled=is_half_fast):
            logits = model(**pad([encoded[at] for at in batch], device)).logits
            scores = logits.gather(1, heads[batch][:, None].to(device))[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            scores.float(), wanted, weight=weights[batch].to(device)
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        step += 1
        if step % 50 == 0:
            print(f"{step} steps, {time.monotonic() - began:.0f} s, loss {sum(losses) / len(losses):.3f}", flush=True)
        if step % 200 == 0:
            keep()
    keep()
    model.save_pretrained(a.out)


if __name__ == "__main__":
    main()
