"""Fit how an answer without a language model weighs closeness and reading, and print what comes of it.

    python -m scripts.support_model.answers OPEN [--weights FOLDER] [--write] --unseen PASSAGES=QUESTIONS…

Only what the models were not trained on is used: a third of CLAPNQ's open half, a sixth of the passages of --limits and
--languages, and those of --unseen and --unseen-languages. Each question is asked about ten passages, its own and nine of other
questions; CLAPNQ's also about its own alone. The weights of English are fitted to CLAPNQ and --unseen, and its limits come from
--limits. The weights of other languages are fitted to --languages and --unseen-languages, whose passages and questions have a
`lang`: `languages` to the questions in the language of their passage, `across` to the others, half of whose other passages are in
the language of the question. Nothing is fitted to --measured. Run it in the environment of the product, with the extra `meaning`
and scikit-learn.
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
from scripts.support_model.answer_groups import Part, draw_others, list_answers, read_languages
from scripts.support_model.questions import HELD_OF_CLAPNQ, HELD_OF_WRITTEN, is_held_out, plain
from scripts.support_model.texts import read_open_half
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from modules.llm_platform.application.research.write.passage_choice import LEAST_LOG_ODDS
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive import reranking
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.selection import Selection, choose_by_words
from modules.llm_platform.domain.ports.support_model import ENGLISH, QUESTION_LANGUAGES
from modules.llm_platform.domain.text import data_files
from modules.llm_platform.infrastructure.models.sentences.encoder import PackagedSentenceEncoder
from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

FEATURES: Final[dict[reranking.ScoringModel, tuple[str, ...]]] = {
    "english": ("log_odds", "closeness", "lead"), "languages": ("log_odds", "lead"),
    "across": ("log_odds", "lead"), "near": ("closeness", "lead"),
}  # fmt: skip
OTHER_PASSAGES: Final = 9
# Share of the questions without an answer that get one.
ANSWERED_WRONGLY: Final[dict[reranking.ScoringModel, float]] = {
    "english": 0.12, "languages": 0.12, "across": 0.1, "near": 0.12
}  # fmt: skip
SHOWN_WRONGLY: Final = 0.6  # share of these whose best sentence is shown as one that may answer
# Chosen by the folders of `scripts/folder_questions.py`, with the share of `limits of ten` and `measured of ten` that tempts. In
# other languages the rivals of a sentence say too little.
STANDS_OUT_FROM: Final[dict[reranking.ScoringModel, float | None]] = {
    "english": 0.5, "languages": None, "across": None, "near": None
}  # fmt: skip
# What the words chose may be lower: they know options, defaults and code of manuals, which the models seldom saw.
WORDS_LOWER: Final = 2.5
# Closeness alone does not outweigh the choice of the words.
WORDS_WITHIN: Final[dict[reranking.ScoringModel, float]] = {
    "english": 1.0, "languages": 2.5, "across": 1.0, "near": 9.0
}  # fmt: skip
FOLDS: Final = 5


LIMITS_FROM: Final[dict[reranking.ScoringModel, str]] = {
    "english": "limits of ten", "languages": "languages of ten", "across": "across of ten",
    "near": "unseen of ten",
}  # fmt: skip
NOT_FITTED: Final = ("limits of ten", "measured of ten")


@dataclass(frozen=True)
class Case:
    name: str
    question: str
    passages: tuple[tuple[str, str], ...]  # titles and texts
    answers: tuple[str, ...]
    language: str = ENGLISH
    passage_language: str = ENGLISH

    @property
    def kinds(self) -> tuple[reranking.ScoringModel, ...]:
        """The kinds that the case is read for."""
        if self.language != self.passage_language:
            return ("across",)
        return ("english", "near") if self.language == ENGLISH else ("languages",)


@dataclass
class Read:
    """A case whose sentences are scored as the product scores them for one kind of question and sentence."""

    case: Case
    kind: reranking.ScoringModel
    question: Question
    selection: Selection
    readings: list[reranking.ScoredSentence]

    def is_right(self, text: str) -> bool:
        said = plain(text)
        return any(plain(answer)[:60] in said or said in plain(answer) for answer in self.case.answers)


def list_clapnq(open_half: Path) -> Iterator[Case]:
    drawn = random.Random(3)
    rows = read_open_half(open_half / "clapnq.jsonl.gz")
    for row in rows:
        if is_held_out(row["id"], HELD_OF_CLAPNQ):
            own, answers = (row["title"], row["source"]), tuple(text for one in row["selected"] or () for text in one)
            others = [(other["title"], other["source"]) for other in drawn.sample(rows, OTHER_PASSAGES) if other != row]
            yield Case("clapnq", row["claim"], (own,), answers)
            yield Case("clapnq of ten", row["claim"], (own, *others), answers)


def list_set(name: str, pair: str, *, is_held_out_only: bool = False) -> Iterator[Case]:
    for text, asked, others in list_asked(pair, random.Random(5)):
        if not is_held_out_only or is_held_out(text, HELD_OF_WRITTEN):
            yield Case(f"{name} of ten", asked["q"], (("", text), *others), tuple(list_answers(asked)))


def list_languages(pair: str, part: Part) -> Iterator[Case]:
    """Yield the questions about the passages of a part, if the support model reads both languages."""
    passages, questions = map(Path, pair.split("="))
    for asked in read_languages(passages, questions, part):
        languages = (asked.language, asked.passage_language)
        if QUESTION_LANGUAGES.issuperset(languages):
            name = "languages of ten" if asked.language == asked.passage_language else "across of ten"
            listed = tuple(asked.passages[: 1 + OTHER_PASSAGES])
            yield Case(name, asked.question, listed, tuple(asked.answers), *languages)


def list_asked(pair: str, drawn: random.Random) -> Iterator[tuple[str, dict[str, Any], list[tuple[str, str]]]]:
    """Yield each text with a question about it, and nine other passages, those of its folder first."""
    passages, questions = map(Path, pair.split("="))
    rows = [json.loads(line) for line in passages.read_text(encoding="utf-8").splitlines()]
    for line in questions.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        own = rows[told["n"]]
        for asked in told["questions"]:
            others = [("", row["source"]) for row in draw_others(own, rows, OTHER_PASSAGES, drawn)]
            yield own["source"], asked, others


async def read_case(
    case: Case, encoder: PackagedSentenceEncoder, model: OnnxSupportModel, kinds: Sequence[str]
) -> list[Read]:
    """Return the scores of the sentences for each kind of the case."""
    question = read_question(case.question, case.language)
    sources = [
        Source(index=number, title=title, url=f"https://page{number}.test/", text=text)
        for number, (title, text) in enumerate(case.passages, 1)
    ]
    selection = choose_by_words(question, sources)
    near = reranking.list_quotable(selection)
    if not near:
        return []
    everything = reranking.ComparedSentences(near[: reranking.MAX_NEAR])
    only_english = reranking.ComparedSentences(near[: reranking.MAX_NEAR_ENGLISH], is_english=True)
    found = []
    for kind in case.kinds:
        if kind not in kinds:
            continue
        group = only_english if kind == "english" else everything
        texts = [reranking.make_model_input(one, question) for one in group.sentences]
        closeness = await encoder.measure_closeness(question.text, texts, is_english=group.is_english)
        read = reranking.select_nearest(selection, group, closeness)
        if kind == "across":
            read = [one for one in read if one.candidate.found_in.language != case.language]
        if kind != "near":
            pairs = [(question.text, reranking.make_model_input(one.candidate, question)) for one in read]
            scores = await model.score_answers(pairs, is_english=kind == "english")
            read = [replace(one, log_odds=odds) for one, odds in zip(read, scores, strict=True)]
        if read:
            found.append(Read(case, kind, question, selection, read))
    return found


def fit(
    kind: reranking.ScoringModel, cases: Sequence[Read], held_out: Sequence[Read] = ()
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the weights of a kind, and the log-odds of the sentences of other cases."""
    names = FEATURES[kind]

    def table(read: Read) -> np.ndarray:
        rows = [one.features for one in read.readings]
        return np.array([[row[name] for name in names] for row in rows]).reshape(-1, len(names))

    rows = np.concatenate([table(read) for read in cases])
    right = np.concatenate([[read.is_right(one.candidate.sentence.text) for one in read.readings] for read in cases])
    mean, deviation = rows.mean(0), rows.std(0)
    fitted = LogisticRegression(max_iter=1000).fit((rows - mean) / deviation, right)
    weights = fitted.coef_[0] / deviation
    bias = float(fitted.intercept_[0] - (weights * mean).sum())
    shown = {"bias": round(bias, 3), "features": {n: round(float(w), 3) for n, w in zip(names, weights, strict=True)}}
    return shown, [table(read) @ weights + bias for read in held_out]


def report(kind: reranking.ScoringModel, cases: Sequence[Read], odds: Sequence[np.ndarray]) -> dict[str, float | None]:
    """Print how well the best sentence tells questions with an answer from others, and return the limits.

    A question is doubtful if a small language model's text about it would be (`LEAST_LOG_ODDS`).
    """
    limits: dict[str, float | None] = {}
    wrongly = ANSWERED_WRONGLY[kind]
    for name in dict.fromkeys(read.case.name for read in cases):
        of_set = [
            (read, found) for read, found in zip(cases, odds, strict=True) if read.case.name == name and len(found)
        ]
        best = np.array([found.max() for _, found in of_set])
        has_answer = np.array([bool(read.case.answers) for read, _ in of_set])
        first = [read.is_right(read.readings[int(found.argmax())].candidate.sentence.text) for read, found in of_set]
        limit = float(np.quantile(best[~has_answer], 1 - wrongly))
        doubtful = np.array([max(one.log_odds for one in read.readings) < LEAST_LOG_ODDS for read, _ in of_set])
        answered = best[has_answer] >= limit
        print(
            f"{kind:10}{name:17} {has_answer.sum()} with an answer, {(~has_answer).sum()} without: AUC "
            f"{roc_auc_score(has_answer, best):.2f}, first sentence right {np.array(first)[has_answer].mean():.2f}, "
            f"{answered.mean():.2f} answered at {wrongly:.2f} (log-odds {limit:.2f}), doubtful "
            f"{doubtful[has_answer].mean():.2f} and {doubtful[~has_answer].mean():.2f}"
        )
        if name == LIMITS_FROM[kind]:
            limits = {
                "answers_from": round(limit, 2),
                "stands_out_from": STANDS_OUT_FROM[kind],
                "words_from": round(limit - WORDS_LOWER, 2),
                "words_within": WORDS_WITHIN[kind],
                "may_answer_from": round(float(np.quantile(best[~has_answer], 1 - SHOWN_WRONGLY)), 2),
            }
    return limits


async def read_all(cases: Sequence[Case], weights: Path | None, kinds: Sequence[str]) -> list[Read]:
    encoder, model = PackagedSentenceEncoder(), OnnxSupportModel(weights)
    found = [read for case in cases for read in await read_case(case, encoder, model, kinds)]
    await encoder.aclose()
    await model.aclose()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open_half", type=Path)
    parser.add_argument("--weights", type=Path, help="folder with other weights than those of the package")
    parser.add_argument(
        "--unseen",
        nargs="+",
        required=True,
        help="PASSAGES=QUESTIONS, each a file of JSON lines: none was in the training",
    )
    parser.add_argument("--limits", nargs="+", required=True, help="the same: a sixth, which was not, sets the limits")
    parser.add_argument("--measured", nargs="*", default=[], help="the same, only for the report")
    parser.add_argument(
        "--languages",
        nargs="+",
        required=True,
        help="the same, in other languages: a sixth, which was not in the training",
    )
    parser.add_argument("--unseen-languages", nargs="*", default=[], help="the same: all of it")
    parser.add_argument("--only", nargs="*", default=list(FEATURES), choices=list(FEATURES), help="fit only these")
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    a = parser.parse_args()
    listed = [
        *list_clapnq(a.open_half),
        *(case for pair in a.unseen for case in list_set("unseen", pair)),
        *(case for pair in a.limits for case in list_set("limits", pair, is_held_out_only=True)),
        *(case for pair in a.measured for case in list_set("measured", pair)),
        *(case for pair in a.languages for case in list_languages(pair, "held-out")),
        *(case for pair in a.unseen_languages for case in list_languages(pair, "whole")),
    ]
    everything = asyncio.run(read_all(listed, a.weights, a.only))
    path = Path(data_files.__file__).parent / "data" / "answer_weights.json"
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for kind in a.only:
        cases = [read for read in everything if read.kind == kind]
        fitted = [read for read in cases if read.case.name not in NOT_FITTED]
        folds = np.random.default_rng(1).integers(0, FOLDS, len(cases))
        odds: list[np.ndarray] = [np.array([])] * len(cases)
        for fold in range(FOLDS):
            held = [at for at in range(len(cases)) if folds[at] == fold]
            of_others = [
                read for at, read in enumerate(cases) if folds[at] != fold and read.case.name not in NOT_FITTED
            ]
            for at, one in zip(held, fit(kind, of_others, [cases[at] for at in held])[1], strict=True):
                odds[at] = one
        limits = report(kind, cases, odds)
        made[kind] = fit(kind, fitted)[0] | limits
    print(json.dumps(made, indent=2))
    if a.write:
        path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
