"""Write beside each pair what earlier models say about it: the English one, and the one of other languages.

    python -m scripts.support_model.earlier_scores CLAIMS.jsonl.gz OUT.jsonl.gz ENGLISH LANGUAGES [--joint JOINT]

ENGLISH, LANGUAGES and JOINT are float weights that `mix`, `distil` and `train_english` wrote, with their `tokenizer.json`. A row
gets `said`: the log-odds as the product combined them, the mean of both or the English one where that is certain; with JOINT,
the mean of this and of its log-odds. Pairs that a program made with a label, and light rewordings, get none, because the
label is certain or the models know them least.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from scripts.support_model.distil import pad
from scripts.support_model.train import encode, load_tokenizer
from transformers import AutoModelForSequenceClassification

TOKENS: Final = {"english": 104, "languages": 128, "joint": 112}
BATCH: Final = 64
OPEN_FROM, OPEN_TO = -3.3, 1.0  # English log-odds between which the other model was read, too
CERTAIN: Final = (
    "written-edited", "light", "light-edited", "attributionbench-edited", "lfqa-edited", "wice-edited", "factcheck-gpt-edited",
    "fool-me-twice-edited", "summedits-edited", "breaking-nli", "med", "packages", "manuals", "verses", "unrelated", "squad",
    "short",
)  # fmt: skip


def is_asked(row: dict[str, str]) -> bool:
    return not row["label"] or row["set"] not in CERTAIN


def score(folder: Path, rows: Sequence[dict[str, str]], tokens: int) -> np.ndarray:
    """Return the log-odds of the first head."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    model = model.to(torch.bfloat16).eval()
    encoded = encode(load_tokenizer(folder, tokens), list(rows))
    scores = np.zeros(len(rows), dtype=np.float32)
    order = np.argsort([len(ids) for ids, _ in encoded], kind="stable")
    with torch.inference_mode():
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            batch = pad([encoded[at] for at in places], 0, has_types=True)
            scores[places] = model(**batch).logits[:, 0].float().numpy()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("claims", "out", "english", "languages"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--joint", type=Path)
    a = parser.parse_args()
    with gzip.open(a.claims, "rt", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    asked = [row for row in rows if is_asked(row)]
    english, languages = (score(getattr(a, name), asked, TOKENS[name]) for name in ("english", "languages"))
    said = np.where((english >= OPEN_FROM) & (english <= OPEN_TO), (english + languages) / 2, english)
    if a.joint is not None:
        said = (said + score(a.joint, asked, TOKENS["joint"])) / 2
    for row, odds in zip(asked, said.tolist(), strict=True):
        row["said"] = round(odds, 3)
    with gzip.open(a.out, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()
