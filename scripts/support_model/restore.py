"""Make float weights from the ONNX file of the package, to begin another stage where no earlier stage is at hand.

    python -m scripts.support_model.restore BASE OUT [--languages]

OUT can be `--start` of `train`. With `--languages` it is made of the model of other languages, and START of `train_answers`. The
weights are those of eight bits, so they differ from the trained ones in the third digit.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from scripts.support_model.train import check_base
from transformers import AutoModelForSequenceClassification

FOLDER = Path("src/modules/llm_platform/infrastructure/models/support")
HIDDEN = 384
ANSWER = 1  # the head of questions
IN_A_LAYER = (  # the order in which the exporter numbers the matrices of a layer
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


def read_floats(path: Path) -> dict[str, np.ndarray]:
    """Return all weights of the file, the quantized ones as floats."""
    stored = {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}
    floats = {name: one for name, one in stored.items() if one.dtype == np.float32 and not name.endswith("_scale")}
    for name in [name for name in stored if name.endswith("_quantized")]:
        base = name.removesuffix("_quantized")
        zero = stored[f"{base}_zero_point"].astype(np.float32)
        floats[base] = (stored[name].astype(np.float32) - zero) * stored[f"{base}_scale"]
    words, scales = stored["words"].astype(np.float32), floats.pop("words_scales")  # four bits, in blocks
    blocks = words.reshape(*scales.shape, -1) * scales[..., None]
    return floats | {"bert.embeddings.word_embeddings.weight": blocks.reshape(words.shape)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--languages", action="store_true", help="the model of other languages, with the head of questions alone"
    )
    a = parser.parse_args()
    if not a.languages:
        check_base(a.base)
    model = AutoModelForSequenceClassification.from_pretrained(a.base, num_labels=2)
    shipped = FOLDER / ("support_languages.onnx" if a.languages else "support.onnx")
    floats, state = read_floats(shipped), model.state_dict()
    numbered = sorted(
        (name for name in floats if re.fullmatch(r"val_\d+", name) and floats[name].size > HIDDEN), key=read_number
    )
    names = [
        f"bert.encoder.layer.{layer}.{part}.weight"
        for layer in range(model.config.num_hidden_layers)
        for part in IN_A_LAYER
    ]
    matrices = {name: floats[number].T for name, number in zip(names, numbered, strict=True)}
    named = {name.removeprefix("model."): values for name, values in floats.items() if name.startswith("model.")}
    for name in ("bert.pooler.dense.weight", "classifier.weight"):
        matrices[name] = named.pop(f"{name}_Transposed").T
    named["bert.embeddings.word_embeddings.weight"] = floats["bert.embeddings.word_embeddings.weight"]
    for name, values in (named | matrices).items():
        state[name] = torch.tensor(np.ascontiguousarray(values)).reshape(state[name].shape)
    model.load_state_dict(state)
    if a.languages:
        keep_head(model, ANSWER)
    model.save_pretrained(a.out)


def keep_head(model: Any, kept: int) -> None:
    """Keep only one of the heads of a model."""
    head = model.classifier
    model.classifier = torch.nn.Linear(head.in_features, 1)
    model.classifier.load_state_dict({name: one[kept : kept + 1] for name, one in head.state_dict().items()})
    model.config.num_labels = model.num_labels = 1


def read_number(name: str) -> int:
    return int(name.removeprefix("val_"))


if __name__ == "__main__":
    main()
