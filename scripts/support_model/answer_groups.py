"""Make what the answer model learns from: questions, each with the sentences that the product would read beside it.

    python -m scripts.support_model.answer_groups OUT.jsonl.gz OPEN --written PASSAGES=QUESTIONS… [--held-out | --whole]
    python -m scripts.support_model.answer_groups OUT.jsonl.gz OPEN --squad train-v1.1.json --whole
    python -m scripts.support_model.answer_groups OUT.jsonl.gz OPEN --languages PASSAGES=QUESTIONS… [--held-out]

The sentences come from the passage of the question and fourteen others, those of its `folder` first. The twelve nearest to the
question are written, nearest first, and all that answer it. A third of CLAPNQ's open half and a sixth of the written passages
are left out. `--held-out` writes only these, and `--whole` writes all.

With `--languages`, passages and questions have a `lang`. The other passages are then in the language of the passage; if the
question is in another language, half of them are in that one. Run it in the environment of the product, with the extra `meaning`.
"""

import argparse
import gzip
import json
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from scripts.support_model.questions import HELD_OF_CLAPNQ, HELD_OF_WRITTEN, is_held_out, plain
from scripts.support_model.squad import read_squad
from scripts.support_model.texts import read_open_half

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.reranking import MAX_NEAR, MAX_NEAR_ENGLISH, list_quotable, make_model_input
from modules.llm_platform.domain.extractive.selection import choose_by_words
from modules.llm_platform.domain.ports.support_model import ENGLISH
from modules.llm_platform.infrastructure.models.sentences.vectors import load_english, load_universal

OTHER_PASSAGES: Final = 14
NEAREST: Final = 12
TITLED: Final = 0.6  # share of the questions whose passages have titles
UNTITLED_WORDS: Final = 3  # the first words of a passage are its title if it has none
MATCHED_CHARS: Final = 60

Part = Literal["training", "held-out", "whole"]
Passage = tuple[str, str]  # title and text


@dataclass(frozen=True)
class Asked:
    """A question about the first of its passages. `answers` are parts of its text, none if it does not answer."""

    name: str
    question: str
    passages: Sequence[Passage]
    answers: Sequence[str]
    language: str = ENGLISH  # of the question
    passage_language: str = ENGLISH

    @property
    def is_english(self) -> bool:
        return self.language == self.passage_language == ENGLISH


def is_in(text: str, share: int, part: Part) -> bool:
    return part == "whole" or is_held_out(text, share) is (part == "held-out")


def read_clapnq(path: Path, part: Part) -> Iterator[Asked]:
    drawn = random.Random(3)
    rows: list[dict[str, Any]] = [row for row in read_open_half(path) if is_in(row["id"], HELD_OF_CLAPNQ, part)]
    for row in rows:
        others = [other for other in drawn.sample(rows, OTHER_PASSAGES) if other is not row]
        passages = [(one["title"], one["source"]) for one in (row, *others)]
        answers = [sentence for answer in row["selected"] or () for sentence in answer]
        yield Asked("clapnq", row["claim"], passages, answers)


def read_written(passages: Path, questions: Path, part: Part) -> Iterator[Asked]:
    drawn = random.Random(zlib.crc32(passages.name.encode()))
    rows: list[dict[str, Any]] = [json.loads(line) for line in passages.read_text(encoding="utf-8").splitlines()]
    for line in questions.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        own = rows[told["n"]]
        if not is_in(own["source"], HELD_OF_WRITTEN, part):
            continue
        for asked in told["questions"]:
            among = [own, *draw_others(own, rows, OTHER_PASSAGES, drawn)]
            is_titled = drawn.random() < TITLED
            listed = [(title_of(row) if is_titled else "", row["source"]) for row in among]
            yield Asked(passages.stem, asked["q"], listed, list_answers(asked))


def read_languages(passages: Path, questions: Path, part: Part) -> Iterator[Asked]:
    """Yield the questions of a file whose passages and questions have a language. English ones about English are left out."""
    drawn = random.Random(zlib.crc32(passages.name.encode()))
    rows: list[dict[str, Any]] = [json.loads(line) for line in passages.read_text(encoding="utf-8").splitlines()]
    by_language = {lang: [row for row in rows if row["lang"] == lang] for lang in sorted({row["lang"] for row in rows})}
    for line in questions.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        own = rows[told["n"]]
        if not is_in(own["source"], HELD_OF_WRITTEN, part):
            continue
        for asked in told["questions"]:
            if own["lang"] == asked["lang"] == ENGLISH:
                continue
            is_foreign = asked["lang"] != own["lang"]
            others = draw_others(own, by_language[own["lang"]], OTHER_PASSAGES // (2 if is_foreign else 1), drawn)
            if is_foreign:
                own_language = by_language.get(asked["lang"], [])
                others += draw_others(own, own_language, OTHER_PASSAGES - len(others), drawn)
            is_titled = drawn.random() < TITLED
            listed = [(title_of(row) if is_titled else "", row["source"]) for row in (own, *others)]
            name = f"{passages.stem} {asked['lang']} about {own['lang']}"
            yield Asked(name, asked["q"], listed, list_answers(asked), asked["lang"], own["lang"])


def draw_others(
    own: dict[str, Any], rows: Sequence[dict[str, Any]], count: int, drawn: random.Random
) -> list[dict[str, Any]]:
    """Return other passages of a file: those of the same folder if it is in one, then any."""
    of_folder = [row for row in rows if row is not own and "folder" in own and row.get("folder") == own["folder"]]
    rest = [row for row in rows if row is not own and row not in of_folder]
    return [*of_folder, *drawn.sample(rest, min(max(0, count - len(of_folder)), len(rest)))][:count]


def title_of(row: dict[str, Any]) -> str:
    return row.get("title") or " ".join(row["source"].split()[:UNTITLED_WORDS])


def list_answers(asked: dict[str, Any]) -> list[str]:
    """Return the parts of the passage that answer a written question."""
    return [asked["a"], *asked.get("also", ())] if asked["a"] else []


def make_group(asked: Asked) -> dict[str, Any] | None:
    """Return the question with its sentences: the text that the model reads, and whether it answers."""
    question = read_question(asked.question, asked.language)
    sources = [
        Source(index=number, title=title, url=f"https://page{number}.test/", text=text)
        for number, (title, text) in enumerate(asked.passages, 1)
    ]
    selection = choose_by_words(question, sources)
    quotable = list_quotable(selection)
    if not quotable:
        return None
    wanted = [plain(answer) for answer in asked.answers]
    measured = MAX_NEAR_ENGLISH if asked.is_english else MAX_NEAR
    texts = [make_model_input(one, question) for one in quotable]
    near = order_by_closeness(asked.question, quotable[:measured], texts, is_english=asked.is_english)
    chosen = {id(one) for one in selection.chosen}
    kept = [
        *near[:NEAREST],
        *(one for one in near[NEAREST:] if is_answer(one, wanted) or id(one) in chosen),
        *(one for one in quotable[measured:] if is_answer(one, wanted)),
    ]
    sentences = [
        {"text": make_model_input(one, question), "answers": is_answer(one, wanted), "is_own": one.source_rank == 0}
        for one in kept
    ]
    return {"set": asked.name, "question": asked.question, "has_answer": bool(wanted), "sentences": sentences}


VECTORS: dict[str, Any] = {}  # of sentences: a set needs those of one model only


def order_by_closeness(
    question: str, candidates: Sequence[Candidate], texts: Sequence[str], *, is_english: bool
) -> list[Candidate]:
    model = load_english() if is_english else load_universal()
    for text in texts[: len(candidates)]:
        if text not in VECTORS:
            VECTORS[text] = model.encode_sentences([text])[0]
    asked = model.encode_question(question)
    closeness = {id(one): float(asked @ VECTORS[text]) for one, text in zip(candidates, texts, strict=False)}
    return sorted(candidates, key=lambda one: -closeness[id(one)])


def is_answer(candidate: Candidate, wanted: Sequence[str]) -> bool:
    said = plain(candidate.sentence.text)
    return any(answer[:MATCHED_CHARS] in said or said in answer for answer in wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("open_half", type=Path)
    parser.add_argument("--written", nargs="*", default=[], help="PASSAGES=QUESTIONS, each a file of JSON lines")
    parser.add_argument("--languages", nargs="*", default=[], help="the same, with a `lang`: nothing else is read")
    parser.add_argument("--squad", type=Path, help="train-v1.1.json of SQuAD")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--held-out", dest="part", action="store_const", const="held-out", default="training")
    parts.add_argument("--whole", dest="part", action="store_const", const="whole")
    a = parser.parse_args()
    has_clapnq = a.part != "whole" and not a.languages
    asked = list(read_clapnq(a.open_half / "clapnq.jsonl.gz", a.part)) if has_clapnq else []
    for pair in a.languages:
        passages, questions = map(Path, pair.split("="))
        asked += read_languages(passages, questions, a.part)
    for pair in a.written:
        passages, questions = map(Path, pair.split("="))
        asked += read_written(passages, questions, a.part)
    if a.squad:
        asked += [
            Asked("squad", one.text, one.paragraphs, [one.answer] if one.answer else []) for one in read_squad(a.squad)
        ]
    with gzip.open(a.out, "wt", encoding="utf-8") as out:
        for one in asked:
            if (group := make_group(one)) is not None:
                out.write(json.dumps(group, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
