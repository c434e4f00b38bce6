"""Let two small models find answers in other words, and reject sentences that only share words with the question.

A sentence encoder finds the sentences that are close to the question, in any language. The support model then reads each of the
best ones together with the question, in the languages that it knows. `scripts/support_model/answers.py` fits the weights.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, pstdev
from typing import Final, Literal, NamedTuple, Self

from modules.llm_platform.domain.extractive.candidates import Candidate, overlap
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.scoring import best_first
from modules.llm_platform.domain.extractive.selection import (
    MAX_QUOTES,
    REPEATS_FROM,
    Selection,
    add_antecedent,
    is_shown_with,
    lacks_exact,
)
from modules.llm_platform.domain.extractive.tables import pick_asked_cells
from modules.llm_platform.domain.ports.support_model import ENGLISH, READ_LANGUAGES
from modules.llm_platform.domain.text.data_files import load_data

MAX_NEAR: Final = 240  # sentences of one question that get a vector
MAX_READ: Final = 8  # sentences of one question that are read
NEARLY_BEST: Final = 1.0  # the log-odds of a further quote may be lower than the best by this much
MAX_BEFORE_CHARS: Final = 160  # only the end of the sentence before is read

Kind = Literal["english", "languages", "near"]
"""The model that weighs a sentence: the English support model, the one for other languages, or the encoder alone (`near`)."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the features of a sentence, and the limits of its log-odds.

    - From `answers_from`, a sentence is quoted, even if it shares few words with the question.
    - If the best of all sentences has at least `words_from`, the choice of the words stays, provided that its own best sentence
      is lower by at most `words_within`. This limit is wide for `near`.
    - From `may_answer_from`, it is shown as a sentence that may answer.
    """

    bias: float
    features: Mapping[str, float]
    answers_from: float
    words_from: float
    words_within: float
    may_answer_from: float


@cache
def read_weights(kind: Kind) -> Weights:
    return Weights(**load_data("answer_weights")[kind])


def list_quotable(selection: Selection) -> list[Candidate]:
    """Return the sentences for the encoder: the ones that can be quoted, best first by their words."""
    ranked = sorted(selection.candidates, key=best_first)
    # The tests take time, so that no more sentences are tested than are returned.
    return list(itertools.islice(filter(add_antecedent, ranked), MAX_NEAR))


def describe_sentence(candidate: Candidate, question: Question) -> str:
    """Return the text that the models read: the sentence, or what the question asks of a table row, and its context in
    parentheses.
    """
    sentence = candidate.sentence
    said = candidate.form.shown
    if sentence.row:
        cells = pick_asked_cells(question, candidate)
        said = "; ".join(f"{column}: {cell}" if column else cell for column, cell in cells)
    before = sentence.before.text[-MAX_BEFORE_CHARS:] if sentence.before else ""
    around = dict.fromkeys(filter(None, (candidate.source.title, sentence.heading, sentence.intro, before)))
    return f"{said} ({' · '.join(around)})" if around else said


@dataclass(frozen=True, slots=True)
class Reading:
    """What the models say about a sentence.

    - `closeness` compares it with the question. `lead` is how far `closeness` is above the mean, in standard deviations.
    - `log_odds` is the result of the support model, and `kind` names the one that read the sentence.
    """

    candidate: Candidate
    closeness: float
    lead: float
    log_odds: float = 0.0
    kind: Kind = "near"

    def weigh(self) -> tuple[float, Weights]:
        """Return the log-odds that the sentence answers, and the weights of its kind."""
        weights, features = read_weights(self.kind), self.features()
        return weights.bias + sum(weight * features[name] for name, weight in weights.features.items()), weights

    def features(self) -> dict[str, float]:
        return {"closeness": self.closeness, "lead": self.lead, "log_odds": self.log_odds}


def choose_kind(question: str | None, sentence: str | None) -> Kind:
    """Return which model weighs a sentence. `question` and `sentence` are the languages of the two.

    If they differ, the encoder alone weighs, because the log-odds of two models cannot be compared: beside English files, a
    foreign file would seem to answer too often.
    """
    if question != sentence or question not in READ_LANGUAGES:
        return "near"
    return "english" if question == ENGLISH else "languages"


def keep_nearest(selection: Selection, near: Sequence[Candidate], closeness: Sequence[float]) -> list[Reading]:
    """Return the sentences to read: the MAX_READ nearest ones, and all that the words chose."""
    mean, deviation = fmean(closeness), pstdev(closeness)
    readings = [
        Reading(candidate, value, (value - mean) / deviation if deviation > 0 else 0.0)
        for candidate, value in zip(near, closeness, strict=True)
    ]
    nearest = sorted(readings, key=lambda one: -one.closeness)
    return nearest[:MAX_READ] + [one for one in nearest[MAX_READ:] if one.candidate in selection.chosen]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The selection after the models have read its sentences.

    - `selection.chosen` has the sentences that answer.
    - `ordered` are the sentences that were read, the likeliest answer first.
    - `may_answer` is True if no sentence certainly answers, but the first of `ordered` may.
    """

    selection: Selection
    ordered: list[Candidate]
    may_answer: bool = False


class _Weighed(NamedTuple):
    """A sentence with its log-odds, the weights of its kind, and how far its log-odds are above `may_answer_from`."""

    candidate: Candidate
    odds: float
    weights: Weights
    margin: float

    @classmethod
    def of(cls, reading: Reading) -> Self:
        odds, weights = reading.weigh()
        return cls(reading.candidate, odds, weights, odds - weights.may_answer_from)


def choose_by_reading(selection: Selection, readings: Sequence[Reading]) -> Chosen:
    """Choose the sentences that answer.

    The best sentence is the one that is furthest above `may_answer_from` of its kind. The choice of the words stays if the
    question has several parts, or if one of its sentences is nearly as good as the best sentence and the best sentence may
    answer. Other quotes must have the options, signs and identifiers of the question.
    """
    question = selection.question
    # The log-odds of two kinds cannot be compared: where nothing answers, `near` gives higher log-odds than a model does.
    # So a sentence is compared by how far its log-odds are above the lowest that its kind shows.
    weighed = sorted(map(_Weighed.of, readings), key=lambda one: -one.margin)
    ordered = [one.candidate for one in weighed]
    best, weights = weighed[0], weighed[0].weights
    by_words = [one.margin for one in weighed if one.candidate in selection.chosen]
    # The models read a sentence beside the whole question: they cannot tell that it answers one of several parts.
    has_parts = len(question.parts) > 1
    is_close = bool(by_words) and max(by_words) >= best.margin - weights.words_within
    if by_words and (has_parts or (best.odds >= weights.words_from and is_close)):
        return Chosen(selection, ordered)
    if best.odds < weights.answers_from:
        return Chosen(replace(selection, chosen=[]), ordered, may_answer=best.odds >= weights.may_answer_from)
    chosen: list[Candidate] = []
    for one in weighed:
        candidate = one.candidate
        group = [member for member in add_antecedent(candidate) if member not in chosen]
        is_repeated = any(
            overlap(candidate, other) >= REPEATS_FROM or is_shown_with(other, candidate) for other in chosen
        )
        is_near = one.odds >= one.weights.answers_from and one.margin >= best.margin - NEARLY_BEST
        if is_near and group and not is_repeated and len(chosen) + len(group) <= MAX_QUOTES:
            chosen += group
    return Chosen(replace(selection, chosen=[] if lacks_exact(question, chosen) else chosen), ordered)
