"""Make pairs of a claim and a passage from the named texts: right ones, near misses by program, and neighbours.

    python -m scripts.support_model.pairs OUT.jsonl.gz --lists APT_LISTS --unpacked FOLDER \\
        --open OPEN_HALVES --support SUPPORT --paraphrases FILE

The same inputs and seed give the same file. Each row has `claim`, `source`, `label` (supported, unsupported) and `set`.
"""

import argparse
import collections
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.support_model.passages import choose_passage, list_words
from scripts.support_model.texts import (
    read_bible,
    read_html,
    read_open_half,
    read_package_descriptions,
    split_sentences,
    write_pairs,
)

Pair = dict[str, str]
# Sets whose licence allows every use. Others only measure: scifact, climate-fever, attributionbench, lfqa.
LICENSED_SETS = ("wice", "factcheck-gpt", "fool-me-twice", "summedits")
SUPPORT_SETS = {"summedits-sentences": 2889, "breaking-nli": 1800, "med": 1800}
OPPOSITE_WORDS = """
before/after more/less first/last increase/decrease increases/decreases increased/decreased all/some
always/never can/cannot above/below high/low higher/lower large/small larger/smaller new/old early/late
earlier/later rose/fell allows/forbids with/without including/excluding local/remote read/write most/few
many/few free/proprietary fast/slow start/stop begin/end client/server import/export north/south east/west
won/lost good/evil father/son men/women right/left come/go required/optional enabled/disabled
"""
OPPOSITES = {
    word: other
    for left, right in (pair.split("/") for pair in OPPOSITE_WORDS.split())
    for word, other in ((left, right), (right, left))
}
AUXILIARY = re.compile(r"\b(is|are|was|were|can|will|has|have|does|do|should|must|could|would)\b(?! not\b)", re.I)
NUMBER = re.compile(r"\b\d+(?:[.,]\d+)*\b")
NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")


def negate(claim: str, drawn: random.Random, _: str) -> str:
    return AUXILIARY.sub(lambda found: f"{found[1]} not", claim, count=1)


def turn_round(claim: str, drawn: random.Random, _: str) -> str:
    words = claim.split(" ")
    places = [at for at, word in enumerate(words) if word.lower() in OPPOSITES]
    if places:
        at = drawn.choice(places)
        words[at] = OPPOSITES[words[at].lower()]
    return " ".join(words)


def change_number(claim: str, drawn: random.Random, _: str) -> str:
    found = list(NUMBER.finditer(claim))
    if not found:
        return claim
    chosen = drawn.choice(found)
    digits = int(re.sub(r"\D", "", chosen[0])[:9])
    changed = str(max(0, digits + drawn.choice((-3, -2, -1, 1, 2, 3, 7, 10, digits))))
    return claim[: chosen.start()] + changed + claim[chosen.end() :] if changed != chosen[0] else claim


def change_name(claim: str, drawn: random.Random, elsewhere: str) -> str:
    found, others = list(NAME.finditer(claim)), NAME.findall(elsewhere)
    if not found or not others:
        return claim
    chosen = drawn.choice(found)
    other: str = drawn.choice(others)
    return claim[: chosen.start()] + other + claim[chosen.end() :]


EDITS: tuple[Callable[[str, random.Random, str], str], ...] = (negate, turn_round, change_number, change_name)


def edit(claim: str, drawn: random.Random, elsewhere: str) -> str | None:
    """The claim with one fact changed by a program, or None where none of the programs finds one."""
    for change in drawn.sample(EDITS, len(EDITS)):
        changed = change(claim, drawn, elsewhere)
        if changed != claim:
            return changed
    return None


def pair(claim: str, source: str, supported: bool, name: str) -> Pair:
    label = "supported" if supported else "unsupported"
    return {"claim": claim, "source": choose_passage(claim, source), "label": label, "set": name}


class Neighbours:
    """Texts that share rare words: the right topic, another fact."""

    def __init__(self, texts: list[str]) -> None:
        self._bags = [set(list_words(text)) for text in texts]
        self._places: dict[str, list[int]] = collections.defaultdict(list)
        for at, bag in enumerate(self._bags):
            for word in bag:
                self._places[word].append(at)

    def find(self, text: str, own: int, drawn: random.Random) -> int | None:
        """One of the three texts that share most rare words with this one, or None where none shares two."""
        counts: collections.Counter[int] = collections.Counter()
        for word in sorted(set(list_words(text))):  # ties are resolved the same way in each run
            places = self._places.get(word, [])
            if len(places) <= 400:
                counts.update(dict.fromkeys(places, 1))
        counts.pop(own, None)
        near = [at for at, shared in counts.most_common(4) if shared >= 2 and self._bags[at] != self._bags[own]]
        return drawn.choice(near[:3]) if near else None


def pair_packages(lists: Path, drawn: random.Random, limit: int) -> Iterator[Pair]:
    """A package's line is a short form of its long description, written by its maintainer."""
    rows = [row for row in read_package_descriptions(lists) if len(row[1].split()) >= 4 and len(row[2].split()) >= 15]
    rows = drawn.sample(rows, min(limit, len(rows)))
    near = Neighbours([line for _, line, _ in rows])
    for at, (_, line, told) in enumerate(rows):
        yield pair(line, told, True, "packages")
        other = near.find(line, at, drawn)
        if other is not None:
            yield pair(rows[other][1], told, False, "packages")
        changed = edit(line, drawn, rows[other][2] if other is not None else "")
        if changed is not None and drawn.random() < 0.5:
            yield pair(changed, told, False, "packages")


def pair_verses(modules: Path, drawn: random.Random, limit: int) -> Iterator[Pair]:
    """Two translations of the Bible say the same in other words; the verses around are the near misses."""
    old, new = read_bible(modules, "engKJV2006eb"), read_bible(modules, "engWEB2015eb")
    places = [place for place in old if place in new and 8 <= len(new[place].split()) <= 40]
    for at in sorted(drawn.sample(range(4, len(places) - 4), min(limit, len(places) - 8))):
        around = [old[place] for place in places[at - 1 : at + 2]]
        yield pair(new[places[at]], " ".join(around), True, "verses")
        if drawn.random() < 0.6:
            yield pair(new[places[at + drawn.choice((-3, -2, 2, 3))]], " ".join(around), False, "verses")
        changed = edit(new[places[at]], drawn, new[places[at + 3]])
        if changed is not None and drawn.random() < 0.6:
            yield pair(changed, " ".join(around), False, "verses")


def pair_manuals(folders: dict[str, Path], drawn: random.Random, limit: int) -> Iterator[Pair]:
    """A manual's own sentence in its paragraph; changed by a program; or in another paragraph of the page."""
    rows = [
        (sentence, at, document.paragraphs)
        for name, folder in folders.items()
        for document in read_html(folder, name)
        for at, paragraph in enumerate(document.paragraphs)
        for sentence in split_sentences(paragraph)
        if 8 <= len(sentence.split()) <= 35
    ]
    for sentence, at, paragraphs in drawn.sample(rows, min(limit, len(rows))):
        yield pair(sentence, paragraphs[at], True, "manuals")
        others = [paragraph for place, paragraph in enumerate(paragraphs) if place != at and sentence not in paragraph]
        if others and drawn.random() < 0.5:
            yield pair(sentence, drawn.choice(others), False, "manuals")
        changed = edit(sentence, drawn, others[0] if others else "")
        if changed is not None:
            yield pair(changed, paragraphs[at], False, "manuals")


def pair_paraphrases(path: Path, drawn: random.Random) -> Iterator[Pair]:
    """A local model's sentences that kept their facts; the window before of the same document is the near miss."""
    before: dict[str, str] = {}
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        window = " ".join(row["window"])
        if row["kept"]:
            yield pair(row["said"], window, True, "paraphrases")
            other = before.get(row["name"], window)
            if other != window:
                yield pair(row["said"], other, False, "paraphrases")
            changed = edit(row["said"], drawn, window)
            if changed is not None:
                yield pair(changed, window, False, "paraphrases")
        before[row["name"]] = window


def pair_sets(open_halves: Path, support: Path, drawn: random.Random) -> Iterator[Pair]:
    for name in LICENSED_SETS:
        for row in read_open_half(open_halves / f"{name}.jsonl.gz"):
            if row["source"]:
                yield pair(row["claim"], row["source"], row["label"] == "supported", name)
    for name, limit in SUPPORT_SETS.items():
        rows = read_open_half(support / f"{name}.jsonl.gz")
        for row in drawn.sample(rows, min(limit, len(rows))):
            yield pair(row["claim"], row["source"], row["label"] == "supported", name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name in ("--lists", "--unpacked", "--open", "--support", "--paraphrases"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--packages", type=int, default=24_000)
    parser.add_argument("--verses", type=int, default=9_000)
    parser.add_argument("--sentences", type=int, default=9_000)
    a = parser.parse_args()
    drawn = random.Random(20261125)
    documents = a.unpacked / "usr/share/doc"
    manuals = {
        "debian-handbook": documents / "debian-handbook/html/en-US",
        "python3.11-doc": documents / "python3.11/html",
    }
    made = [
        *pair_sets(a.open, a.support, drawn),
        *pair_paraphrases(a.paraphrases, drawn),
        *pair_packages(a.lists, drawn, a.packages),
        *pair_verses(a.unpacked / "usr/share/sword", drawn, a.verses),
        *pair_manuals(manuals, drawn, a.sentences),
    ]
    write_pairs(a.out, made)


if __name__ == "__main__":
    main()
