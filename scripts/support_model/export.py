"""Write the trained weights as ONNX in eight bits, and compare them with the float weights.

Usage: `python -m scripts.support_model.export TRAINED BASE OUT.onnx PAIRS.jsonl.gz`
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from scripts.support_model.train import SUPPORT, TOKENS, encode, load_tokenizer, pad, read_pairs
from transformers import AutoModelForSequenceClassification

NAMES = ("input_ids", "token_type_ids", "attention_mask")


class Scores(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.model(input_ids=ids, token_type_ids=types, attention_mask=mask).logits
        return scores


def write_float(model: torch.nn.Module, path: Path) -> None:
    example = tuple(torch.ones((2, 16), dtype=torch.long) for _ in NAMES)
    shape = {0: torch.export.Dim("pairs", max=4096), 1: torch.export.Dim("tokens", max=TOKENS)}
    torch.onnx.export(
        Scores(model).eval(), example, path, input_names=list(NAMES), output_names=["scores"],
        dynamic_shapes=(shape, shape, shape), external_data=False,
    )  # fmt: skip


def strip_notes(path: Path) -> None:
    """Remove what the exporter notes beside each node: names of modules and paths of the machine."""
    model = onnx.load(path)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("trained", "base", "out", "pairs"):
        parser.add_argument(name, type=Path)
    a = parser.parse_args()
    model = AutoModelForSequenceClassification.from_pretrained(a.trained, attn_implementation="eager").eval()
    whole = a.out.with_suffix(".float.onnx")
    write_float(model, whole)
    quantize_dynamic(whole, a.out, weight_type=QuantType.QInt8, per_channel=True)
    strip_notes(a.out)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(a.out), options)
    rows = random.Random(1).sample(read_pairs(a.pairs), 400)
    encoded = encode(load_tokenizer(a.base), rows)
    small: list[float] = []
    large: list[float] = []
    spent = 0.0
    for item in encoded:
        batch = pad([item], "cpu")
        before = time.process_time()
        small += [float(session.run(None, {name: batch[name].numpy() for name in NAMES})[0][0, SUPPORT])]
        spent += time.process_time() - before
        with torch.no_grad():
            large += [float(model(**batch).logits[0, SUPPORT])]
    tokens = np.mean([len(ids) for ids, _ in encoded])
    print(
        f"{a.out.stat().st_size / 1e6:.1f} MB; {1000 * spent / len(rows):.1f} ms of CPU a pair of {tokens:.0f} tokens"
    )
    print(f"eight bits against float: correlation {np.corrcoef(small, large)[0, 1]:.4f}")


if __name__ == "__main__":
    main()
