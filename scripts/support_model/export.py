"""Write the trained weights as ONNX in eight bits, and compare them with the float weights.

Usage: `python -m scripts.support_model.export TRAINED BASE OUT.onnx PAIRS.jsonl.gz`

PAIRS are only compared. They may also be the questions with sentences that `answer_groups` writes. With `--share-words`, the
vectors of the pieces are stored in a file beside OUT, which another model with the same vectors uses, too.
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from scripts.support_model.train import SUPPORT, TOKENS, encode, load_tokenizer, pad, read_pairs
from transformers import AutoModelForSequenceClassification

BLOCK = 32  # numbers of four bits with one scale
LOST = 1e-4  # at most of a number
WORDS = ("words", "words_scales")
PAGE = 4096  # bytes: onnxruntime maps the file into memory
NAMES = ("input_ids", "token_type_ids", "attention_mask")


class Scores(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.model(input_ids=ids, token_type_ids=types, attention_mask=mask).logits
        return scores


def write_float(model: torch.nn.Module, path: Path, tokens: int) -> None:
    example = tuple(torch.ones((2, 16), dtype=torch.long) for _ in NAMES)
    shape = {0: torch.export.Dim("pairs", max=4096), 1: torch.export.Dim("tokens", max=tokens)}
    torch.onnx.export(
        Scores(model).eval(), example, path, input_names=list(NAMES), output_names=["scores"],
        dynamic_shapes=(shape, shape, shape), external_data=False,
    )  # fmt: skip


def put_words_in_four_bits(path: Path, model: torch.nn.Module) -> None:
    """Store the vectors of the pieces in blocks of four bits, as they came: training left them as they are."""
    onnx_model = onnx.load(path)
    graph = onnx_model.graph
    words = model.get_input_embeddings().weight.detach().numpy()
    blocks = words.reshape(len(words), -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    scales = np.where(largest == 0, 1, largest / -8).astype(np.float32)
    numbers = np.clip(np.round(blocks / scales), -8, 7).astype(np.int8).reshape(words.shape)
    if np.abs(numbers.reshape(blocks.shape) * scales - blocks).max() > LOST:
        raise SystemExit("the vectors of the pieces are not in blocks of four bits")
    stored = next(one for one in graph.initializer if list(one.dims) == list(words.shape))
    node = next(node for node in graph.node if node.op_type == "Gather" and stored.name in node.input)
    packed = (numbers[:, ::2] & 15) | ((numbers[:, 1::2] & 15) << 4)
    graph.initializer.remove(stored)
    graph.initializer.append(
        helper.make_tensor("words", TensorProto.INT4, words.shape, packed.astype(np.uint8).tobytes(), raw=True)
    )
    graph.initializer.append(numpy_helper.from_array(scales[..., 0], "words_scales"))
    read = helper.make_node(
        "GatherBlockQuantized", ["words", node.input[1], "words_scales"], list(node.output), domain="com.microsoft",
        block_size=BLOCK, gather_axis=0, quantize_axis=1,
    )  # fmt: skip
    at = list(graph.node).index(node)
    graph.node.remove(node)
    graph.node.insert(at, read)
    if not any(one.domain == "com.microsoft" for one in onnx_model.opset_import):
        onnx_model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(onnx_model, path)


def share_words(path: Path, name: str) -> None:
    """Move the vectors of the pieces and their scales into a file beside the model. If there is one, it must be the same."""
    model, stored = onnx.load(path), b""
    for one in model.graph.initializer:
        if one.name in WORDS:
            stored += bytes(-len(stored) % PAGE)
            for key, value in (("location", name), ("offset", len(stored)), ("length", len(one.raw_data))):
                one.external_data.add(key=key, value=str(value))
            stored += one.raw_data
            one.ClearField("raw_data")
            one.data_location = TensorProto.EXTERNAL
    words = path.with_name(name)
    if words.exists() and words.read_bytes() != stored:
        raise SystemExit(f"{words} has other vectors of the pieces")
    words.write_bytes(stored)
    path.write_bytes(model.SerializeToString())


def strip_notes(path: Path) -> None:
    """Remove what the exporter notes beside each node: names of modules and paths of the machine."""
    model = onnx.load(path)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)


def list_pairs(row: dict[str, Any]) -> list[dict[str, str]]:
    """Return a pair as it is, and a question with each of its sentences."""
    if "question" not in row:
        return [row]
    return [{"claim": row["question"], "source": one["text"]} for one in row["sentences"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("trained", "base", "out", "pairs"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a pair: 128 for the model of several languages")
    parser.add_argument(
        "--words-in-four-bits", action="store_true", help="as the package of `multilingual_base` has them"
    )
    parser.add_argument("--share-words", metavar="NAME", help="store the vectors of the pieces in this file beside OUT")
    a = parser.parse_args()
    model = AutoModelForSequenceClassification.from_pretrained(a.trained, attn_implementation="eager").eval()
    whole = a.out.with_suffix(".float.onnx")
    write_float(model, whole, a.tokens)
    kept = [node.name for node in onnx.load(whole, load_external_data=False).graph.node if node.op_type == "Gather"]
    quantize_dynamic(
        whole,
        a.out,
        weight_type=QuantType.QInt8,
        per_channel=True,
        nodes_to_exclude=kept if a.words_in_four_bits else None,
    )
    strip_notes(a.out)
    if a.words_in_four_bits:
        put_words_in_four_bits(a.out, model)
    if a.share_words:
        share_words(a.out, a.share_words)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(a.out), options)
    rows = random.Random(1).sample([pair for row in read_pairs(a.pairs) for pair in list_pairs(row)], 400)
    encoded = encode(load_tokenizer(a.base, a.tokens), rows)
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
