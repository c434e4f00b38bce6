"""Make the pairs of the second head: a question, and a sentence of a passage, which answers it or not.

Usage, in the environment of the product: `python -m scripts.support_model.questions OUT.jsonl.gz --open OPEN
--written PASSAGES.jsonl=QUESTIONS.jsonl…`

The sentences are the ones that the product would quote, with the headings that it reads. A third of CLAPNQ's open half and a
sixth of the written passages are held out.
"""

import argparse
import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.support_model.texts import read_open_half, write_pairs

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate, match_sources
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.reranking import make_model_input

HELD_OF_CLAPNQ, HELD_OF_WRITTEN = 3, 6  # one of so many
TITLED = 0.4  # share of the written passages that get a title: their own, or their first words
TIMES = {"questions": 3, "clapnq": 2}

Pair = dict[str, str]


def is_held_out(text: str, part: int) -> bool:
    return zlib.crc32(text.encode("utf-8", "replace")) % part == 0


def list_sentences(question: Question, text: str, title: str) -> list[Candidate]:
    """Return the sentences of a passage that the product could quote."""
    source = Source(index=1, title=title, url="https://set.test/", text=text)
    found = match_sources(question, [source])
    return [candidate for candidate in found if candidate.has_usable_form]


def plain(text: str) -> str:
    return " ".join(text.replace("|", " ").split()).lower()


def read_pairs(question: str, text: str, title: str, answers: Sequence[str], name: str) -> Iterator[Pair]:
    """Yield each sentence of the passage with the question."""
    wanted = [plain(answer)[:60] for answer in answers]
    asked = read_question(question, "en")
    for candidate in list_sentences(asked, text, title):
        said = plain(candidate.sentence.text)
        answers_it = any(answer in said or said in answer for answer in wanted)
        label = "supported" if answers_it else "unsupported"
        yield {"claim": question, "source": make_model_input(candidate, asked), "label": label, "set": name}


def read_written(passages: Path, questions: Path, *, held_out: bool) -> Iterator[Pair]:
    written = [json.loads(line) for line in passages.read_text(encoding="utf-8").splitlines()]
    texts = [row["source"] for row in written]
    drawn = random.Random(7)
    for line in questions.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = texts[row["n"]]
        title = written[row["n"]].get("title") or " ".join(text.split()[:3])
        title = title if drawn.random() < TITLED else ""
        if is_held_out(text, HELD_OF_WRITTEN) is held_out:
            for asked in row["questions"]:
                yield from read_pairs(asked["q"], text, title, [asked["a"]] if asked["a"] else [], "questions")
                other = texts[(row["n"] + 1 + drawn.randrange(len(texts) - 1)) % len(texts)]
                yield from list(read_pairs(asked["q"], other, "", [], "questions"))[:1]


def read_clapnq(path: Path, *, held_out: bool) -> Iterator[Pair]:
    for row in read_open_half(path):
        if is_held_out(row["id"], HELD_OF_CLAPNQ) is held_out:
            selected = [sentence for answer in row["selected"] or () for sentence in answer]
            yield from read_pairs(row["claim"], row["source"], row["title"], selected, "clapnq")


def keep_hard(pairs: Sequence[Pair], drawn: random.Random) -> Iterator[Pair]:
    """Yield the right pairs twice, and of the wrong ones those with most words of their question.

    These are three of a question that its passage does not answer, else two and one by chance. Of CLAPNQ, half of all are kept.
    """
    asked: dict[tuple[str, str], list[Pair]] = {}
    for pair in {(row["set"], row["claim"], row["source"]): row for row in pairs}.values():
        asked.setdefault((pair["set"], pair["claim"]), []).append(pair)
    for (name, _), rows in asked.items():
        right = [row for row in rows if row["label"] == "supported"]
        wrong = [row for row in rows if row["label"] != "supported"]
        wrong.sort(key=lambda row: (-count_shared_words(row), drawn.random()))
        if name == "clapnq":
            yield from drawn.sample(rows, max(1, len(rows) // 2))
        elif right:
            yield from (*right, *right, *wrong[:2], *drawn.sample(wrong[2:], min(1, len(wrong[2:]))))
        else:
            yield from wrong[:3]


def count_shared_words(pair: Pair) -> int:
    long_words = (set(re.findall("[a-z]{4,}", pair[side].lower())) for side in ("claim", "source"))
    return len(set.intersection(*long_words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--open", type=Path, required=True)
    parser.add_argument("--written", nargs="*", default=[], help="PASSAGES=QUESTIONS, each a file of JSON lines")
    parser.add_argument(
        "--hard", action="store_true", help="of the wrong pairs keep those with most words of the question"
    )
    parser.add_argument("--held-out", action="store_true", help="write the part that is held out, once")
    a = parser.parse_args()
    made = list(read_clapnq(a.open / "clapnq.jsonl.gz", held_out=a.held_out))
    for pair in a.written:
        passages, questions = map(Path, pair.split("="))
        made += read_written(passages, questions, held_out=a.held_out)
    if a.hard:
        made = list(keep_hard(made, random.Random(8)))
    elif not a.held_out:
        made = [row for row in made for _ in range(TIMES[row["set"]])]
    write_pairs(a.out, made)


if __name__ == "__main__":
    main()
