"""Cut free texts into the windows of sentences that a local model paraphrases.

Usage: `python -m scripts.support_model.windows OUT.jsonl.gz --lists APT_LISTS --unpacked FOLDER --open OPEN_HALVES`
"""

import argparse
import collections
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.support_model.texts import (
    Document,
    join_windows,
    read_html,
    read_open_half,
    read_package_descriptions,
    split_sentences,
)

WINDOW_WORDS = 60
WINDOWS_A_SOURCE = 6
GENERAL_SETS = ("wice", "factcheck-gpt", "fool-me-twice", "clapnq", "summedits")


def cut(document: Document) -> list[dict[str, Any]]:
    found = join_windows(document, WINDOW_WORDS)
    return [{"name": document.name, "origin": document.origin, "sentences": window} for window in found]


def cut_general(open_halves: Path, drawn: random.Random) -> Iterator[dict[str, Any]]:
    """Windows of encyclopedias, news and the web: the sources of sets with a licence, each once."""
    for name in GENERAL_SETS:
        sources = {str(row["source"]): row["id"] for row in read_open_half(open_halves / f"{name}.jsonl.gz")}
        for source, number in sources.items():
            windows = cut(Document(f"{name}/{number}", name, tuple(source.split("\n"))))
            yield from drawn.sample(windows, min(WINDOWS_A_SOURCE, len(windows)))


def cut_technical(lists: Path, unpacked: Path) -> Iterator[dict[str, Any]]:
    """Windows of manuals, and short descriptions of packages whole."""
    documents = unpacked / "usr/share/doc"
    for origin, folder in (
        ("debian-handbook", documents / "debian-handbook/html/en-US"),
        ("python3.11-doc", documents / "python3.11/html"),
    ):
        for document in read_html(folder, origin):
            yield from cut(document)
    for package, _, told in read_package_descriptions(lists):
        sentences = split_sentences(told)
        if 2 <= len(sentences) <= 6 and 25 <= len(told.split()) <= 90:
            yield {"name": package, "origin": "packages", "sentences": sentences}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name in ("--lists", "--unpacked", "--open"):
        parser.add_argument(name, type=Path, required=True)
    a = parser.parse_args()
    drawn = random.Random(20261125)
    general = list(cut_general(a.open, drawn))
    technical = list(cut_technical(a.lists, a.unpacked))
    made = general + drawn.sample(technical, min(len(technical), len(general)))
    with gzip.open(a.out, "wt", encoding="utf-8") as out:
        for row in made:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    for origin, count in sorted(collections.Counter(row["origin"] for row in made).items()):
        print(f"{origin:24}{count:8}")


if __name__ == "__main__":
    main()
