"""Read the free texts that pairs are made of: documents as lists of paragraphs, each with its origin.

Debian's packages are unpacked below a folder (README.md names them and the commands), so nothing is installed.
"""

import collections
import gzip
import html
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

END_OF_SENTENCE = re.compile(r"(?<=[a-z0-9)\]”\"'%][.!?])\s+(?=[A-Z“\"'(])")
ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|vs|etc|e\.g|i\.e|cf|al|No|Inc|Ltd|Co|Corp|U\.S|a\.m|p\.m|Gen|Vol|Fig)|\b[A-Z])\.$"
)
MARKUP = re.compile(r"<(script|style|pre|table|head|nav)\b.*?</\1>", re.S | re.I)
BLOCK = re.compile(r"<p\b[^>]*>(.*?)</p>", re.S | re.I)
TAG = re.compile(r"<[^>]+>")
MIN_PARAGRAPH_WORDS = 25


@dataclass(frozen=True)
class Document:
    name: str
    origin: str
    paragraphs: tuple[str, ...]


def split_sentences(text: str) -> list[str]:
    """Split plain prose at full stops; abbreviations and initials do not end a sentence."""
    sentences: list[str] = []
    for piece in END_OF_SENTENCE.split(" ".join(text.split())):
        if sentences and ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + piece
        elif piece.strip():
            sentences.append(piece.strip())
    return sentences


def read_html(folder: Path, origin: str) -> Iterator[Document]:
    """The paragraphs of each HTML page below the folder."""
    for path in sorted(folder.rglob("*.html")):
        page = MARKUP.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
        found = (" ".join(html.unescape(TAG.sub("", block)).replace("¶", "").split()) for block in BLOCK.findall(page))
        paragraphs = tuple(p for p in found if len(p.split()) >= MIN_PARAGRAPH_WORDS)
        if paragraphs:
            yield Document(f"{origin}/{path.relative_to(folder)}", origin, paragraphs)


def read_package_descriptions(lists: Path) -> Iterator[tuple[str, str, str]]:
    """(package, its line, its long description) of each package in apt's English Translation files below `lists`."""
    seen: set[str] = set()
    for path in sorted(lists.glob("*Translation-en*")):
        text = subprocess.run(
            ["/usr/lib/apt/apt-helper", "cat-file", str(path)], capture_output=True, check=True
        ).stdout
        for entry in text.decode("utf-8", errors="replace").split("\n\n"):
            head = re.search(r"^Package: (\S+)", entry)
            told = re.search(r"^Description-en: (.*)\n((?: .*\n?)+)", entry, re.M)
            if head is None or told is None or told[2] in seen:
                continue
            seen.add(told[2])
            lines = [line.strip() for line in told[2].splitlines()]
            yield head[1], told[1].strip(), " ".join(" ".join("" if line == "." else line for line in lines).split())


def read_bible(modules: Path, name: str) -> dict[str, str]:
    """Each verse of a SWORD module by its place ("Genesis 1:1"), read by `diatheke`."""
    got = subprocess.run(
        ["diatheke", "-b", name, "-f", "plain", "-k", "Genesis-Revelation"],
        capture_output=True,
        check=True,
        env={"SWORD_PATH": str(modules), "PATH": "/usr/bin:/bin"},
    ).stdout.decode("utf-8", errors="replace")
    verses = re.findall(r"^((?:[IVX]+ )?[A-Z][\w ]+ \d+:\d+): (.*)$", got, re.M)
    return {place: " ".join(text.split()) for place, text in verses if text.strip()}


def write_pairs(path: Path, pairs: list[dict[str, str]]) -> None:
    """Write the pairs, and print how many of each set and label there are."""
    with gzip.open(path, "wt", encoding="utf-8") as out:
        for row in pairs:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    counts = collections.Counter((row["set"], row["label"]) for row in pairs)
    for (name, label), count in sorted(counts.items()):
        print(f"{name:24}{label:14}{count:8}")


def read_open_half(path: Path) -> list[dict[str, str]]:
    """Rows of a labelled set: `claim`, `source`, `label`, `set`."""
    with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as lines:
        return [json.loads(line) for line in lines]


def join_windows(document: Document, words: int) -> Iterator[list[str]]:
    """Sentences of neighbouring paragraphs, joined to windows of about `words` words."""
    window: list[str] = []
    for paragraph in document.paragraphs:
        for sentence in split_sentences(paragraph):
            window.append(sentence)
            if sum(len(s.split()) for s in window) >= words:
                yield window
                window = []
