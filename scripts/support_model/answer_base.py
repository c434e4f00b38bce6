"""Make float weights from the ONNX file of the English sentence encoder, with which the training of the answer model begins.

    python -m scripts.support_model.answer_base OUT

The encoder has eight bits, so its weights differ from those of e5-small-v2 in the third digit. The head is new.
"""

import argparse
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from scripts.support_model.restore import IN_A_LAYER
from transformers import BertConfig, BertForSequenceClassification

SHIPPED: Final = Path("src/modules/llm_platform/infrastructure/models/sentences/sentences_english.onnx")
CONFIG: Final = BertConfig(
    vocab_size=30522,
    hidden_size=384,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=1536,
    num_labels=1,
)
TABLES: Final = ("word_embeddings", "position_embeddings", "token_type_embeddings")


def read_floats(path: Path) -> dict[str, np.ndarray]:
    """Return the weights by the names of transformers. The matrices are in the order of the layers."""
    graph = onnx.load(path).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}

    def dequantize(name: str) -> np.ndarray:
        numbers, zero = stored[f"{name}_quantized"].astype(np.float32), stored[f"{name}_zero_point"].astype(np.float32)
        floats: np.ndarray = (numbers - zero) * stored[f"{name}_scale"]
        return floats

    products = [node.input[1] for node in graph.node if node.op_type == "MatMulInteger"]
    floats = {name: one for name, one in stored.items() if name.startswith(("encoder.", "embeddings.LayerNorm"))}
    for number, product in enumerate(products):
        layer, part = divmod(number, len(IN_A_LAYER))
        floats[f"encoder.layer.{layer}.{IN_A_LAYER[part]}.weight"] = dequantize(product.removesuffix("_quantized")).T
    for table in TABLES:
        floats[f"embeddings.{table}.weight"] = dequantize(f"embeddings.{table}.weight")
    return floats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    a = parser.parse_args()
    torch.manual_seed(1)
    model = BertForSequenceClassification(CONFIG)
    floats = {name: torch.tensor(np.ascontiguousarray(one)) for name, one in read_floats(SHIPPED).items()}
    lacking = set(model.bert.load_state_dict(floats, strict=False).missing_keys)
    if lacking != {"pooler.dense.weight", "pooler.dense.bias"}:
        raise SystemExit(f"the file lacks {sorted(lacking)}")
    model.save_pretrained(a.out)


if __name__ == "__main__":
    main()
