"""Make the pairs that a teacher labels: the labelled ones of all stages, and further claims beside further passages.

Usage, in the environment of the product: `python -m scripts.support_model.pool OUT.jsonl.gz PAIRS.jsonl.gz QUESTIONS.jsonl.gz
--open OPEN --support SUPPORT --written PASSAGES.jsonl…`

A row without a label is one that nobody has labelled: `distil` lets the teacher do it. Such rows are claims beside passages with
the same words, beside one sentence of their passage, beside their passage without that sentence, and beside each other.
"""

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scripts.support_model.doubted import SETS, SUPPORT_SETS, edit_supported, read_own, read_undecided, read_written
from scripts.support_model.texts import read_open_half, split_sentences, write_pairs
from sklearn.feature_extraction.text import TfidfVectorizer

NEAREST = 3  # passages with most of a claim's words, beside which it stands
FREE = {
    "manuals": 12000,
    "packages": 12000,
    "verses": 3000,
}  # pairs of the first stage that are beside other passages
CLAPNQ_SENTENCES = 6000
BESIDE = 6  # claims of the same passage that one claim is beside
BATCH = 2000

Pair = dict[str, str]


def pair(claim: str, source: str, label: str, name: str) -> Pair:
    return {"claim": claim, "source": source, "label": label, "set": name}


def find_nearest(claims: Sequence[str], passages: Sequence[str], count: int) -> Iterator[list[int]]:
    """Yield for each claim the places of the passages that share most of its rare words, the best first."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    passages_read = vectorizer.fit_transform(passages).T.tocsr()
    claims_read = vectorizer.transform(claims)
    for start in range(0, len(claims), BATCH):
        scores = (claims_read[start : start + BATCH] @ passages_read).toarray()
        yield from np.argsort(-scores, axis=1)[:, :count].tolist()


def place_beside_others(rows: Sequence[Pair], label: str, name: str, drawn: random.Random) -> Iterator[Pair]:
    """Yield each claim beside passages of other rows: the nearest by their words, and one by chance."""
    claims = list(dict.fromkeys(row["claim"] for row in rows))
    own = {row["claim"]: row["source"] for row in rows}
    passages = list(dict.fromkeys(row["source"] for row in rows))
    for claim, places in zip(claims, find_nearest(claims, passages, NEAREST + 1), strict=True):
        others = [passages[at] for at in places if passages[at] != own[claim]][:NEAREST]
        for passage in (*others, drawn.choice(passages)):
            if passage != own[claim]:
                yield pair(claim, passage, label, name)


def cut_passages(rows: Iterable[Pair], name: str) -> Iterator[Pair]:
    """Yield each claim beside the sentence that has most of its words, and beside the passage without this sentence."""
    for row in rows:
        sentences = split_sentences(row["source"])
        if len(sentences) > 1:
            words = read_words(row["claim"])
            best = max(range(len(sentences)), key=lambda at: len(words & read_words(sentences[at])))
            yield pair(row["claim"], sentences[best], "", name)
            yield pair(row["claim"], " ".join(sentences[:best] + sentences[best + 1 :]), "", name)


def read_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}|\d+", text.lower()))


def place_beside_each_other(rows: Sequence[Pair], drawn: random.Random) -> Iterator[Pair]:
    """Yield claims beside other claims about the same passage."""
    about: dict[str, list[str]] = {}
    for row in rows:
        about.setdefault(row["source"], []).append(row["claim"])
    for claims in about.values():
        for claim in claims:
            others = [other for other in claims if other != claim]
            for other in drawn.sample(others, min(BESIDE, len(others))):
                yield pair(claim, other, "", "claims")


def read_clapnq(path: Path, drawn: random.Random) -> Iterator[Pair]:
    """Yield sentences of passages about other things than the claims of the sets. Their full stops have spaces before them."""
    passages = [re.sub(r" (?=[.,;:?!%)])", "", row["source"]) for row in read_open_half(path)]
    rows = [
        pair(sentence, passage, "supported", "clapnq-sentences")
        for passage in passages
        for sentence in split_sentences(passage)
        if 6 <= len(sentence.split()) <= 40
    ]
    chosen = drawn.sample(rows, min(CLAPNQ_SENTENCES, len(rows)))
    yield from (row | {"label": ""} for row in edit_supported(chosen, drawn, 1.0))
    yield from place_beside_others(chosen, "", "clapnq-sentences", drawn)
    yield from cut_passages(chosen, "clapnq-sentences")


def place_questions(rows: Sequence[Pair], drawn: random.Random) -> Iterator[Pair]:
    """Yield each question beside sentences of other passages, which have its words."""
    for row in place_beside_others(rows, "", "", drawn):
        yield row | {"set": "questions"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--open", type=Path, required=True)
    parser.add_argument("--support", type=Path, required=True)
    parser.add_argument("--written", type=Path, nargs="+", required=True)
    a = parser.parse_args()
    drawn = random.Random(20261126)
    doubted = [row for name in SETS for row in read_undecided(a.open / f"{name}.jsonl.gz", name)]
    written = [row for path in a.written for row in read_written(path)]
    own = list(read_own())
    labelled = [*doubted, *written, *own]
    for name in SUPPORT_SETS:
        labelled += [
            pair(r["claim"], r["source"], r["label"], name) for r in read_open_half(a.support / f"{name}.jsonl.gz")
        ]
    with gzip.open(a.pairs, "rt", encoding="utf-8") as lines:
        first = [row for row in map(json.loads, lines) if row["set"] in FREE]
    with gzip.open(a.questions, "rt", encoding="utf-8") as lines:
        asked = [json.loads(line) for line in lines]
    edited = [row for seed in (1, 2) for row in edit_supported([*doubted, *written], random.Random(seed), 1.0)]
    made = [*labelled, *first, *asked, *(row | {"set": f"{row['set']}-edited"} for row in edited)]
    made += place_beside_others(written, "unsupported", "unrelated", drawn)
    made += place_beside_others(doubted, "", "doubted-elsewhere", drawn)
    made += [*cut_passages([*doubted, *written], "cut"), *place_beside_each_other(written, drawn)]
    for name, count in FREE.items():
        of_set = [row for row in first if row["set"] == name]
        chosen = drawn.sample(of_set, min(count, len(of_set)))
        made += [
            *place_beside_others(chosen, "", name, drawn),
            *(row | {"label": ""} for row in edit_supported(chosen, drawn, 1.0)),
        ]
    made += [*read_clapnq(a.open / "clapnq.jsonl.gz", drawn), *place_questions(asked, drawn)]
    unique = {(row["claim"], row["source"], row["set"] == "questions"): row for row in reversed(made)}
    for row in unique.values():
        if row["label"] not in ("supported", ""):
            row["label"] = "unsupported"
    write_pairs(a.out, list(unique.values()))


if __name__ == "__main__":
    main()
