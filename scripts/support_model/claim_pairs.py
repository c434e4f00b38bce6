"""Choose what the first head of the English model learns from: claims with the passages that the product would read beside them.

Usage, in the environment of the product: `python -m scripts.support_model.claim_pairs OUT.jsonl.gz POOL.jsonl.gz --written
PASSAGES.jsonl… [--squad CLAIMS.jsonl] [--elsewhere 3]`

CLAIMS is what `squad_claims` wrote.

POOL is what `pool` or `doubted` wrote. The claims of `light`, which change a word or two of their passage, of `short.jsonl` and
of `contrast.jsonl` are sets of their own. A sixth of the passages of PARTLY_HELD_OUT is left out, as `answer_groups` leaves
them out. With `--elsewhere`, so many claims of each passage are also written beside two passages about something else.
"""

import argparse
import collections
import gzip
import itertools
import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.support_model.doubted import read_claim
from scripts.support_model.hard_edits import edit_within
from scripts.support_model.passages import choose_passage
from scripts.support_model.questions import HELD_OF_WRITTEN, is_held_out
from scripts.support_model.texts import write_pairs

from modules.llm_platform.domain.ports.support_model import ENGLISH

PARTLY_HELD_OUT: Final = ("home", "work", "short", "contrast")
OWN_SETS: Final = ("short", "contrast")  # files whose claims are a set of their own
EDITED: Final = {
    "written": 1.0,
    "light": 0.5,
    "short": 0.0,
    "contrast": 0.0,
}  # share of the true claims that also get a wrong one
MIN_COMMON_LETTERS: Final = 3  # shorter words say nothing about the subject of a passage
NEAREST_OTHERS: Final = 3  # passages with most words of a claim, one of which it is written beside
WRITTEN: Final = ("written", "written-edited")  # of POOL: made again here, with shorter passages
MOST: Final = 5000  # pairs of a set with a label of POOL
MOST_OF: Final = {
    ("attributionbench-edited", "unsupported"): 400, ("lfqa-edited", "unsupported"): 500,
    ("breaking-nli", "unsupported"): 1000, ("breaking-nli", "supported"): 980, ("med", "supported"): 1000,
    ("med", "unsupported"): 1000, ("manuals", "supported"): 2500, ("manuals", "unsupported"): 3500,
    ("verses", "supported"): 1000, ("verses", "unsupported"): 1000, ("unrelated", "unsupported"): 6000,
    ("claims", ""): 8000, ("cut", ""): 8000, ("doubted-elsewhere", ""): 3500, ("clapnq-sentences", ""): 4000,
    ("packages", ""): 2000, ("manuals", ""): 2000, ("verses", ""): 500,
}  # fmt: skip

Pair = dict[str, str]


def read_passages(paths: Iterable[Path], *, is_held: bool) -> Iterator[dict[str, Any]]:
    """Yield the English passages with claims that are held out, or those that are not."""
    for path in paths:
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            is_out = path.stem in PARTLY_HELD_OUT and is_held_out(row["source"], HELD_OF_WRITTEN)
            if row.get("language", ENGLISH) == ENGLISH and is_out is is_held:
                yield row


def place_claim(claim: str, row: dict[str, Any], label: str) -> Pair:
    """Return a claim beside the part of its passage that the product would show the model."""
    asked = list(read_claim(claim, row["source"], row.get("title", ""), "supported", "written"))
    if len(asked) == 1:
        return asked[0] | {"label": label}
    return {"claim": claim, "source": choose_passage(claim, row["source"]), "label": label, "set": "written"}


def read_written(paths: Sequence[Path], drawn: random.Random) -> Iterator[Pair]:
    """Yield the written claims, and true ones with a fact changed."""
    for path in paths:
        name = path.stem if path.stem in OWN_SETS else "written"
        for row in read_passages([path], is_held=False):
            yield from place_and_change(row["claims"], row, name, drawn)
            yield from place_and_change(row.get("light", ()), row, "light", drawn)


def place_and_change(
    claims: Iterable[dict[str, str]], row: dict[str, Any], name: str, drawn: random.Random
) -> Iterator[Pair]:
    """Yield the claims beside their passage, and a share of the true ones with a fact changed."""
    for told in claims:
        placed = place_claim(told["claim"], row, told["label"]) | {"set": name}
        yield placed
        if placed["label"] == "supported" and drawn.random() < EDITED[name]:
            changed = edit_within(placed["claim"], placed["source"], drawn)
            if changed is not None:
                yield placed | {"claim": changed, "label": "unsupported", "set": f"{name}-edited"}


def place_elsewhere(rows: Sequence[dict[str, Any]], claims: int, drawn: random.Random) -> Iterator[Pair]:
    """Yield claims of each passage beside one that has most of their words, and beside any other."""
    words = [read_words(row["source"]) for row in rows]
    counts = collections.Counter(itertools.chain.from_iterable(words))
    by_word = collections.defaultdict(list)
    for at, own in enumerate(words):
        for word in own:
            by_word[word].append(at)
    for row in rows:
        told = row.get("claims", [])
        for claim in drawn.sample(told, min(claims, len(told))):
            shared: dict[int, float] = collections.defaultdict(float)
            for word in read_words(claim["claim"]):
                for at in by_word[word]:
                    shared[at] += math.log(len(rows) / counts[word])
            nearest = sorted(shared, key=lambda at: -shared[at])[: NEAREST_OTHERS + 1]
            others = [at for at in nearest if rows[at]["source"] != row["source"]]
            for at in (*drawn.sample(others, min(1, len(others))), drawn.randrange(len(rows))):
                if rows[at]["source"] != row["source"]:
                    yield place_claim(claim["claim"], rows[at], "unsupported") | {"set": "unrelated"}


def read_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) >= MIN_COMMON_LETTERS}


def read_squad_claims(path: Path) -> Iterator[Pair]:
    for row in read_passages([path], is_held=False):
        for told in row["claims"]:
            yield place_claim(told["claim"], row, told["label"]) | {"set": "squad"}


def draw_others(pool: Path, held: Sequence[dict[str, Any]], drawn: random.Random) -> Iterator[Pair]:
    """Yield a part of each other set of POOL, without what is about a passage that is held out."""
    sources = {row["source"] for row in held}
    claims = {told["claim"] for row in held for told in row["claims"]}
    groups: dict[tuple[str, str], list[Pair]] = collections.defaultdict(list)
    with gzip.open(pool, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["set"] not in WRITTEN and row["source"] not in sources and row["claim"] not in claims:
                groups[row["set"], row["label"]].append(row)
    for group, rows in groups.items():
        yield from drawn.sample(rows, min(MOST_OF.get(group, MOST), len(rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--written", type=Path, nargs="+", required=True)
    parser.add_argument("--squad", type=Path)
    parser.add_argument(
        "--elsewhere", type=int, default=0, help="claims of a passage that are also placed beside others"
    )
    a = parser.parse_args()
    drawn = random.Random(7)
    made = list(read_written(a.written, drawn))
    made += draw_others(a.pool, list(read_passages(a.written, is_held=True)), drawn)
    if a.squad is not None:
        made += read_squad_claims(a.squad)
    if a.elsewhere:
        made += place_elsewhere(list(read_passages(a.written, is_held=False)), a.elsewhere, drawn)
    drawn.shuffle(made)
    write_pairs(a.out, made)


if __name__ == "__main__":
    main()
