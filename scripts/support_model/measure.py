"""Print the area under the curve of trained weights on labelled sets, one line a set: sets of the training are named.

Usage: `python -m scripts.support_model.measure TRAINED BASE SET.jsonl.gz…`
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from scripts.support_model.pairs import LICENSED_SETS
from scripts.support_model.passages import choose_passage
from scripts.support_model.texts import read_open_half
from scripts.support_model.train import encode, load_tokenizer, pad
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForSequenceClassification

BATCH = 32


def score(model: torch.nn.Module, encoded: list[tuple[list[int], list[int]]]) -> np.ndarray:
    order = sorted(range(len(encoded)), key=lambda at: len(encoded[at][0]))
    scores = np.zeros(len(encoded))
    with torch.no_grad():
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            scores[places] = model(**pad([encoded[at] for at in places], "cpu")).logits[:, 0].numpy()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("sets", type=Path, nargs="+")
    a = parser.parse_args()
    model = AutoModelForSequenceClassification.from_pretrained(a.trained).eval()
    tokenizer = load_tokenizer(a.base)
    for path in a.sets:
        rows = [
            {"claim": r["claim"], "source": choose_passage(r["claim"], r["source"]), "label": r["label"]}
            for r in read_open_half(path)
            if r["source"]
        ]
        right = [row["label"] == "supported" for row in rows]
        name = path.name.removesuffix(".jsonl.gz")
        seen = "  (in the training)" if name in LICENSED_SETS else ""
        print(
            f"{name:20}{len(rows):6}  AUC {roc_auc_score(right, score(model, encode(tokenizer, rows))):.3f}{seen}",
            flush=True,
        )


if __name__ == "__main__":
    main()
