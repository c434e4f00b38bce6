"""Make the pairs of the second stage: what the words of the product leave in doubt, beside a part of the first stage's pairs.

Usage, in the environment of the product: `python -m scripts.support_model.doubted OUT.jsonl.gz PAIRS.jsonl.gz --open OPEN
--support SUPPORT`

The claims and passages of labelled sets are the ones that the product asks about. A claim of several sentences gives pairs if it
is supported: else nobody knows which sentence is wrong. A fifth of the sources of each set is held out, to fit and to measure.
"""

import argparse
import gzip
import json
import random
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts import quality
from scripts.fit_citation_check import LOOKED_AT
from scripts.support_model.hard_edits import edit_within
from scripts.support_model.texts import read_open_half, write_pairs

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source

# How often a set's pairs are repeated. AttributionBench and LFQA state no licence: NOTICE names them.
SETS = {"attributionbench": 5, "lfqa": 4, "wice": 6, "factcheck-gpt": 3, "fool-me-twice": 6, "summedits": 3}
SUPPORT_SETS = {"summedits-sentences": (2889, 3), "breaking-nli": (3000, 1), "med": (2500, 1)}
KEPT = {"paraphrases": (931, 3), "packages": (9000, 1), "verses": (3000, 1), "manuals": (8000, 1)}
EDITED = ("summedits-sentences",)
EDITED_SHARE = 0.5  # of the supported claims, which are there unchanged too; the second stage had none
HELD_OUT = 5  # one of so many sources
MAX_CLAIMS = 1000

Pair = dict[str, str]


def is_held_out(source: str) -> bool:
    return zlib.crc32(source.encode("utf-8", "replace")) % HELD_OUT == 0


def cite(claim: str) -> str:
    return " ".join(f"{sentence.rstrip()} [1]" for sentence in claim.splitlines() if sentence.strip())


def read_undecided(path: Path, name: str) -> Iterator[Pair]:
    for row in read_open_half(path):
        if not row["source"].strip() or is_held_out(row["source"]):
            continue
        label = "supported" if row["label"] == "supported" else "unsupported"
        yield from read_claim(row["claim"], row["source"], row.get("title", ""), label, name)


def read_claim(claim: str, text: str, title: str, label: str, name: str) -> Iterator[Pair]:
    """Return the pairs of a claim that the product asks about."""
    checker = CitationChecker([Source(index=1, title=title, url="https://set.test/", text=text)], "en")
    count = len(checker.check(cite(claim)).citations)
    if label == "supported" or count == 1:
        for undecided in checker.undecided.list_first(MAX_CLAIMS):
            yield {"claim": undecided.claim, "source": undecided.passages[0].text, "label": label, "set": name}


def read_written(path: Path) -> Iterator[Pair]:
    """Return the pairs that people wrote: each line has a `source` and its `claims`."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for claim in row["claims"]:
            yield {"claim": claim["claim"], "source": row["source"], "label": claim["label"], "set": "written"}


def read_own() -> Iterator[Pair]:
    """Return our own pairs that were looked at, English ones, but for the fifth that is held out."""
    loaded = quality.load()
    for pair in (pair for name in LOOKED_AT for pair in loaded[name]):
        if pair.language == "en" and not is_held_out(pair.source):
            label = "supported" if pair.label == "supported" else "unsupported"
            yield from read_claim(pair.sentence, pair.source, pair.title, label, "own")


def edit_supported(pairs: Iterable[Pair], drawn: random.Random, share: float) -> Iterator[Pair]:
    """Return some of the supported claims with a fact changed, which makes them wrong."""
    for pair in pairs:
        if pair["label"] == "supported" and share and drawn.random() < share:
            changed = edit_within(pair["claim"], pair["source"], drawn)
            if changed is not None:
                yield pair | {"claim": changed, "label": "unsupported"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--open", type=Path, required=True)
    parser.add_argument("--support", type=Path, required=True)
    parser.add_argument(
        "--edited", type=float, default=EDITED_SHARE, help="share of supported claims with a fact changed"
    )
    parser.add_argument("--written", type=Path, nargs="*", default=[], help="pairs written for this purpose")
    parser.add_argument("--written-times", type=int, default=4, help="how often each of these is repeated")
    parser.add_argument(
        "--own-times", type=int, default=3, help="how often our labelled pairs are repeated; 0: not used"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the pairs that nobody wrote for this purpose"
    )
    parser.add_argument("--without", nargs="*", default=[], help="sets to leave out")
    parser.add_argument("--most", type=int, help="how many pairs are drawn from all of these")
    a = parser.parse_args()
    drawn = random.Random(20261126)
    made: list[Pair] = []
    for name, times in SETS.items():
        if name not in a.without:
            undecided = list(read_undecided(a.open / f"{name}.jsonl.gz", name))
            made += [*undecided * times, *edit_supported(undecided * times, drawn, a.edited)]
    if a.written:
        written = [pair for path in a.written for pair in read_written(path)]
        made += list(read_own()) * a.own_times
        made += [*written * a.written_times, *edit_supported(written * 3, drawn, a.edited)]
    for name, (limit, times) in SUPPORT_SETS.items():
        rows = read_open_half(a.support / f"{name}.jsonl.gz")
        chosen = drawn.sample(rows, min(limit, len(rows)))
        named = [{"claim": r["claim"], "source": r["source"], "label": r["label"], "set": name} for r in chosen]
        for row in named:
            row["label"] = "supported" if row["label"] == "supported" else "unsupported"
        made += [*named * times, *(edit_supported(named, drawn, a.edited) if name in EDITED else ())]
    with gzip.open(a.pairs, "rt", encoding="utf-8") as lines:
        first = [json.loads(line) for line in lines]
    for name, (limit, times) in KEPT.items():
        of_set = [row for row in first if row["set"] == name]
        chosen = drawn.sample(of_set, min(limit, len(of_set)))
        made += [*chosen * times, *edit_supported(chosen * times, drawn, a.edited)]
    kept = [pair for pair in made if pair["set"] in ("written", "own") or drawn.random() < a.share]
    write_pairs(a.out, kept if a.most is None else drawn.sample(kept, min(a.most, len(kept))))


if __name__ == "__main__":
    main()
