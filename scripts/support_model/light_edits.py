"""Make true claims that nearly copy a sentence of their passage, and wrong ones that differ from these in one fact.

Usage, in the environment of the product: `python -m scripts.support_model.light_edits OUT.jsonl.gz --written PASSAGES.jsonl…
--pool POOL.jsonl.gz`

Written claims that nearly copy their passage are mostly wrong, because the word comparison decides the true ones, so a model that
learnt from them alone took a copy with another word for an error. But when people and language models write such copies, they are
mostly right.
"""

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from scripts.support_model.claim_pairs import read_passages
from scripts.support_model.hard_edits import edit_within
from scripts.support_model.passages import choose_passage
from scripts.support_model.texts import split_sentences, write_pairs

POOLED_SETS: Final = ("manuals", "packages", "clapnq-sentences", "cut", "doubted-elsewhere")
OF_POOL: Final = 2500  # passages of POOL
OF_PASSAGE: Final = 4  # sentences of a written passage
WORDS: Final = (6, 38)  # of a sentence
MAX_EDITS: Final = 3
COPIED: Final = 0.1  # share of the sentences that stay as they are
WRONG: Final = 0.6  # share that also gets a wrong claim
# Each word or phrase with another that says the same.
SAME: Final = {
    "provided that": "if", "may": "can", "must": "have to", "because": "since", "however, ": "", "percent": "%",
    "per cent": "percent", "do not": "don't", "does not": "doesn't", "cannot": "can't", "is not": "isn't",
    "are not": "aren't", "was not": "wasn't", "did not": "didn't", "will not": "won't", "in order to": "to", "also ": "",
    "for example, ": "", "shall": "must", "employees": "staff", "purchase": "buy", "begins": "starts", "began": "started",
    "large": "big", "every": "each", "several": "a number of", "established": "founded", "located": "situated",
    "receive": "get", "received": "got", "obtain": "get", "repaired": "fixed", "requires": "needs", "require": "need",
    "approximately": "about", "about": "around", "roughly": "about", "as well as": "and", "such as": "like",
    "additional": "further", "annual": "yearly", "allows": "lets", "permitted": "allowed", "children": "kids",
    "reported": "said", "stated": "said", "announced": "said", "finished": "completed", "ends": "finishes", "shut": "closed",
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10",
    "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight", "kilometres": "km",
    "metres": "m", "the following": "this", "while": "whereas", "nearly": "almost", "film": "movie",
    "photographs": "photos", "people": "persons", "town": "city", "pounds": "GBP", "euros": "EUR", "free of charge": "free",
}  # fmt: skip
_SAME: Final = re.compile(
    rf"(?<![\w.,:/-])({'|'.join(sorted(map(re.escape, SAME), key=len, reverse=True))})(?![\w:/-]|[.,]\d)", re.IGNORECASE
)
_LEADING: Final = re.compile(r"^(In|On|At|From|Since|After|Before|During|By) ([^,.]{3,40}), (.+?)\.$")
_RELATIVE: Final = re.compile(r", (?:which|who|where|whose) [^,.;]{5,120}(?=[.,;])")
_SECOND: Final = re.compile(r"[,;] and [^.;]{10,160}\.$")
_BRACKET: Final = re.compile(r" \([^()]{2,80}\)")
_DAY: Final = re.compile(
    r"\b(\d{1,2}) (January|February|March|April|May|June|July|August|September|October|November|December)\b"
)


def replace_word(sentence: str, drawn: random.Random) -> str:
    found = list(_SAME.finditer(sentence))
    if not found:
        return sentence
    chosen = drawn.choice(found)
    other = SAME[chosen[0].lower()]
    changed = sentence[: chosen.start()] + other + sentence[chosen.end() :]
    return changed[:1].upper() + changed[1:]


def move_beginning(sentence: str, drawn: random.Random) -> str:
    found = _LEADING.match(sentence)
    return f"{found[3][:1].upper()}{found[3][1:]} {found[1].lower()} {found[2]}." if found else sentence


def drop_clause(sentence: str, drawn: random.Random) -> str:
    shorter = drawn.choice((_RELATIVE, _SECOND, _BRACKET)).sub(
        lambda found: "." if found[0].endswith(".") else "", sentence, count=1
    )
    return shorter if len(shorter.split()) >= WORDS[0] else sentence


def turn_date(sentence: str, drawn: random.Random) -> str:
    return _DAY.sub(r"\2 \1", sentence, count=1)


EDITS: Final = (replace_word, replace_word, replace_word, move_beginning, drop_clause, turn_date)


def edit_lightly(sentence: str, drawn: random.Random) -> str:
    for _ in range(drawn.randint(1, MAX_EDITS)):
        sentence = drawn.choice(EDITS)(sentence, drawn)
    return sentence


def make_claims(passage: str, count: int, drawn: random.Random) -> Iterator[dict[str, str]]:
    sentences = [one for one in split_sentences(passage) if WORDS[0] <= len(one.split()) <= WORDS[1]]
    for sentence in drawn.sample(sentences, min(count, len(sentences))):
        claim = sentence if drawn.random() < COPIED else edit_lightly(sentence, drawn)
        source = choose_passage(sentence, passage)
        yield {"claim": claim, "source": source, "label": "supported", "set": "near-copy"}
        changed = edit_within(claim, passage, drawn) if drawn.random() < WRONG else None
        if changed is not None:
            yield {"claim": changed, "source": source, "label": "unsupported", "set": "near-copy"}


def read_pooled(pool: Path, drawn: random.Random) -> Sequence[str]:
    with gzip.open(pool, "rt", encoding="utf-8") as lines:
        sources = {row["source"] for row in map(json.loads, lines) if row["set"] in POOLED_SETS}
    return drawn.sample(sorted(sources), min(OF_POOL, len(sources)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--written", type=Path, nargs="+", required=True)
    parser.add_argument("--pool", type=Path, required=True)
    a = parser.parse_args()
    drawn = random.Random(11)
    written = [row["source"] for row in read_passages(a.written, is_held=False)]
    made = [pair for passage in written for pair in make_claims(passage, OF_PASSAGE, drawn)]
    made += [pair for passage in read_pooled(a.pool, drawn) for pair in make_claims(passage, 1, drawn)]
    write_pairs(a.out, made)


if __name__ == "__main__":
    main()
