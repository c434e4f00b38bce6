"""Fit how an answer without a language model weighs closeness and reading, and print what comes of it.

    python -m scripts.support_model.answers OPEN [--weights FOLDER] [--write] [--written PASSAGES=QUESTIONS…]

Only what the second head was not trained on is used: a third of CLAPNQ's open half, a sixth of the written passages, and those of
--unseen. Each
question is asked about ten passages, its own and nine of other questions; CLAPNQ's also about its own alone. Run it in the
environment of the product, with the extra `meaning` and scikit-learn.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from scripts.support_model.questions import HELD_OF_CLAPNQ, HELD_OF_WRITTEN, is_held_out, plain
from scripts.support_model.texts import read_open_half
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive import reading
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.selection import Selection, choose_by_words
from modules.llm_platform.domain.text import data_files
from modules.llm_platform.infrastructure.models.sentence_encoder import UniversalSentenceEncoder
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

FEATURES: Final = {"read": ("log_odds", "closeness", "lead"), "near": ("closeness", "lead")}
OTHER_PASSAGES: Final = 9
ANSWERED_WRONGLY: Final = 0.12  # share of CLAPNQ's questions without an answer that get one
SHOWN_WRONGLY: Final = 0.6  # the share of these whose best sentence is shown as one that may answer
DENIED: Final = 0.02  # share of the answerable ones that lose the answer of their words
FOLDS: Final = 5


@dataclass(frozen=True)
class Case:
    name: str
    question: str
    passages: tuple[tuple[str, str], ...]  # titles and texts
    answers: tuple[str, ...]


@dataclass
class Read:
    case: Case
    question: Question
    selection: Selection
    readings: list[reading.Reading]

    def is_right(self, text: str) -> bool:
        said = plain(text)
        return any(plain(answer)[:60] in said or said in plain(answer) for answer in self.case.answers)


def list_cases(open_half: Path, written: Sequence[str], unseen: Sequence[str] = ()) -> Iterator[Case]:
    drawn = random.Random(3)
    rows = read_open_half(open_half / "clapnq.jsonl.gz")
    for row in rows:
        if is_held_out(row["id"], HELD_OF_CLAPNQ):
            own, answers = (row["title"], row["source"]), tuple(text for one in row["selected"] or () for text in one)
            others = [(other["title"], other["source"]) for other in drawn.sample(rows, OTHER_PASSAGES) if other != row]
            yield Case("clapnq", row["claim"], (own,), answers)
            yield Case("clapnq of ten", row["claim"], (own, *others), answers)
    for pair in (*written, *unseen):
        passages, questions = map(Path, pair.split("="))
        texts = [json.loads(line)["source"] for line in passages.read_text(encoding="utf-8").splitlines()]
        for line in questions.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            text = texts[row["n"]]
            if pair in unseen or is_held_out(text, HELD_OF_WRITTEN):
                for asked in row["questions"]:
                    others = [("", other) for other in drawn.sample(texts, OTHER_PASSAGES) if other != text]
                    answers = (asked["a"],) if asked["a"] else ()
                    yield Case("written of ten", asked["q"], (("", text), *others), answers)


async def read_case(case: Case, encoder: UniversalSentenceEncoder, model: OnnxSupportModel) -> Read:
    question = read_question(case.question, "en")
    sources = [
        Source(index=number, title=title, url=f"https://page{number}.test/", text=text)
        for number, (title, text) in enumerate(case.passages, 1)
    ]
    selection = choose_by_words(question, sources)
    near = reading.list_quotable(selection)
    if not near:
        return Read(case, question, selection, [])
    closeness = await encoder.measure_closeness(question.text, [reading.describe_sentence(one) for one in near])
    readings = reading.keep_nearest(selection, near, closeness)
    scores = await model.score_answers([(question.text, reading.describe_sentence(one.candidate)) for one in readings])
    return Read(
        case, question, selection, [replace(one, log_odds=odds) for one, odds in zip(readings, scores, strict=True)]
    )


def fit(kind: str, cases: Sequence[Read], held_out: Sequence[Read] = ()) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the weights of a kind, and the log-odds of the sentences of other cases."""
    names = FEATURES[kind]

    def table(read: Read) -> np.ndarray:
        rows = [one.features() for one in read.readings]
        return np.array([[row[name] for name in names] for row in rows]).reshape(-1, len(names))

    rows = np.concatenate([table(read) for read in cases])
    right = np.concatenate([[read.is_right(one.candidate.sentence.text) for one in read.readings] for read in cases])
    mean, deviation = rows.mean(0), rows.std(0)
    fitted = LogisticRegression(max_iter=1000).fit((rows - mean) / deviation, right)
    weights = fitted.coef_[0] / deviation
    bias = float(fitted.intercept_[0] - (weights * mean).sum())
    shown = {"bias": round(bias, 3), "features": {n: round(float(w), 3) for n, w in zip(names, weights, strict=True)}}
    return shown, [table(read) @ weights + bias for read in held_out]


def report(kind: str, cases: Sequence[Read], odds: Sequence[np.ndarray]) -> dict[str, float]:
    """Print how well the best sentence tells questions with an answer from others, and return the limits."""
    limits: dict[str, float] = {}
    for name in ("clapnq", "clapnq of ten", "written of ten"):
        of_set = [
            (read, found) for read, found in zip(cases, odds, strict=True) if read.case.name == name and len(found)
        ]
        best = np.array([found.max() for _, found in of_set])
        has_answer = np.array([bool(read.case.answers) for read, _ in of_set])
        first = [read.is_right(read.readings[int(found.argmax())].candidate.sentence.text) for read, found in of_set]
        limit = float(np.quantile(best[~has_answer], 1 - ANSWERED_WRONGLY))
        answered = best[has_answer] >= limit
        print(
            f"{kind:8}{name:15} {has_answer.sum()} with an answer, {(~has_answer).sum()} without: AUC "
            f"{roc_auc_score(has_answer, best):.2f}, first sentence right {np.array(first)[has_answer].mean():.2f}, "
            f"{answered.mean():.2f} answered at {ANSWERED_WRONGLY:.2f} (log-odds {limit:.2f})"
        )
        if name == "written of ten":  # the bar is the higher one of the two sets of ten passages
            limits["answers_from"] = max(limits["answers_from"], round(limit, 2))
        elif name == "clapnq of ten":
            limits = {
                "answers_from": round(limit, 2),
                "may_answer_from": round(float(np.quantile(best[~has_answer], 1 - SHOWN_WRONGLY)), 2),
                "denied_below": round(float(np.quantile(best[has_answer], DENIED)), 2),
            }
    return limits


async def read_all(cases: Sequence[Case], weights: Path | None) -> list[Read]:
    encoder, model = UniversalSentenceEncoder(), OnnxSupportModel(weights)
    found = [await read_case(case, encoder, model) for case in cases]
    await encoder.aclose()
    await model.aclose()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open_half", type=Path)
    parser.add_argument("--weights", type=Path, help="folder with other weights than those of the package")
    parser.add_argument(
        "--written", nargs="*", default=[], help="PASSAGES=QUESTIONS, each a file of JSON lines; a sixth is held out"
    )
    parser.add_argument("--unseen", nargs="*", default=[], help="the same, of which nothing was in the training")
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    a = parser.parse_args()
    cases = asyncio.run(read_all(list(list_cases(a.open_half, a.written, a.unseen)), a.weights))
    cases = [read for read in cases if read.readings]
    folds = np.random.default_rng(1).integers(0, FOLDS, len(cases))
    made: dict[str, Any] = {}
    for kind in FEATURES:
        odds: list[np.ndarray] = [np.array([])] * len(cases)
        for fold in range(FOLDS):
            held = [at for at in range(len(cases)) if folds[at] == fold]
            _, found = fit(
                kind, [cases[at] for at in range(len(cases)) if folds[at] != fold], [cases[at] for at in held]
            )
            for at, one in zip(held, found, strict=True):
                odds[at] = one
        limits = report(kind, cases, odds)
        made[kind] = fit(kind, cases)[0] | limits
    print(json.dumps(made, indent=2))
    if a.write:
        path = Path(data_files.__file__).parent / "data" / "answer_weights.json"
        path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
