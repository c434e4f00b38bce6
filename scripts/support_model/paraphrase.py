"""Let a local model say sentences of free texts in other words; keep those that kept their facts.

    python -m scripts.support_model.paraphrase OUT.jsonl --server http://127.0.0.1:9001 --minutes 60 FILE…

Each FILE is a gzip of JSON lines {"name", "origin", "sentences": [window of neighbouring sentences]}. A run continues where
the file ends; about half of a 1.5B model's sentences are kept.
"""

import argparse
import gzip
import json
import random
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ASKED = {
    "rewrite": (
        "Context: {context}\n\nSentence: {sentence}\n\nSay the sentence in your own words, as an encyclopedia would. Use other "
        "words and another order. Keep every fact, name and number. Replace pronouns by what they mean. Write one sentence only."
    ),
    "shorten": (
        "Passage: {context}\n\nState the most important fact of the passage in one short sentence of your own words. "
        "Use no word group of the passage that is longer than two words, except names. Write one sentence only."
    ),
    "join": (
        "Passage: {context}\n\nJoin two facts of the passage in one new sentence in your own words, as a journalist would. "
        "Write one sentence only."
    ),
}
# A slot of the server has 512 tokens for the question and the answer.
MAX_WINDOW_CHARS = 1200
NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def list_names(text: str) -> set[str]:
    """Words with a capital inside a sentence, and those written wholly in capitals."""
    return {w.lower() for w in re.findall(r"(?<=[a-z,;] )[A-Z][\w-]+", text)} | set(
        map(str.lower, re.findall(r"\b[A-Z]{2,}\b", text))
    )


def is_faithful(said: str, window: str) -> bool:
    """Numbers and names of the new sentence are in the passage, and it has neither a list nor a remark."""
    if not 5 <= len(said.split()) <= 45 or re.search(r"[\n*#:]|\b(?:passage|sentence|rewritten|paraphras)", said, re.I):
        return False
    if not set(NUMBER.findall(said)) <= set(NUMBER.findall(window)):
        return False
    return list_names(said) <= set(map(str.lower, re.findall(r"[\w-]+", window)))


def read_windows(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def ask(server: str, prompt: str, seed: int) -> str:
    body = {
        "messages": [
            {"role": "system", "content": "You rewrite text. You answer with one sentence and nothing else."},
            {"role": "user", "content": prompt},
        ],
        "max_tokens": 80,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": seed,
        "cache_prompt": False,
    }
    request = urllib.request.Request(
        f"{server}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"]).strip().strip('"')


def choose(rows: list[dict[str, Any]], seed: int) -> Iterator[tuple[int, str, dict[str, Any], int]]:
    """Endless draws of (number, kind of question, row, sentence of its window), the same for the same seed."""
    drawn = random.Random(seed)
    number = 0
    while True:
        row = drawn.choice(rows)
        told = [i for i, s in enumerate(row["sentences"]) if 8 <= len(s.split()) <= 40]
        kind = drawn.choices(list(ASKED), (3, 2, 1))[0]
        if told:
            yield number, kind, row, drawn.choice(told)
            number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--server", default="http://127.0.0.1:9001")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    rows = [row for row in read_windows(a.files) if sum(map(len, row["sentences"])) <= MAX_WINDOW_CHARS]
    done = sum(1 for _ in a.out.open(encoding="utf-8")) if a.out.exists() else 0
    until, kept = time.monotonic() + 60 * a.minutes, 0
    draws = choose(rows, a.seed)

    def make(draw: tuple[int, str, dict[str, Any], int]) -> dict[str, Any]:
        number, kind, row, at = draw
        window = " ".join(row["sentences"])
        asked = ASKED[kind].format(context=window, sentence=row["sentences"][at])
        said = ask(a.server, asked, number)
        return {
            "number": number, "kind": kind, "name": row["name"], "origin": row["origin"], "at": at,
            "window": row["sentences"], "said": said, "kept": is_faithful(said, window),
        }  # fmt: skip

    with ThreadPoolExecutor(a.at_once) as pool, a.out.open("a", encoding="utf-8") as out:
        while time.monotonic() < until:
            batch = [next(draws) for _ in range(a.at_once * 4)]
            for made in pool.map(make, [draw for draw in batch if draw[0] >= done]):
                out.write(json.dumps(made, ensure_ascii=False) + "\n")
                kept += bool(made["kept"])
            out.flush()
            print(f"\r{batch[-1][0] + 1} asked, {kept} kept", end="", file=sys.stderr)


if __name__ == "__main__":
    main()
