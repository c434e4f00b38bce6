"""Rerank sentences with small models, which find answers in other words and reject sentences that only share words.

A sentence encoder (a bi-encoder) measures how close each sentence of `list_quotable` is to the question, in any language. English
sentences are compared by a model of their own (`group_by_language`). The support model (a cross-encoder) scores the sentences of
`select_nearest` together with the question, in the languages that it knows. `choose_by_models` then keeps or replaces the
sentences that were chosen by keywords. `scripts/support_model/answers.py` fits the weights.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log1p
from statistics import fmean, pstdev
from typing import Final, Literal

from modules.llm_platform.domain.extractive.candidates import Candidate, measure_overlap
from modules.llm_platform.domain.extractive.dated_rows import remove_other_days
from modules.llm_platform.domain.extractive.named_rows import pick_asked_cells, remove_other_rows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.question_parts import asks_several_things
from modules.llm_platform.domain.extractive.scoring import get_rank_key, measure_coverage
from modules.llm_platform.domain.extractive.selection import (
    MAX_QUOTES,
    MIN_REPETITION_OVERLAP,
    Selection,
    add_antecedent,
    is_shown_with,
    lacks_exact,
)
from modules.llm_platform.domain.ports.support_model import ENGLISH, QUESTION_LANGUAGES
from modules.llm_platform.domain.text.data_files import load_data

MAX_QUOTABLE: Final = 400  # sentences of one question, best first by their words
MAX_NEAR: Final = 240  # of these, sentences in other languages than English that may get a vector
MAX_NEAR_ENGLISH: Final = 96  # English ones that may get a vector: their vectors say more, and take twice as long
BEST_BY_WORDS: Final = 64  # of the English ones; where static vectors exist, the others are the nearest by these
MIN_MEASURED: Final = 24  # sentences that make a mean and a deviation
MAX_READ: Final = 8  # sentences of one question that the support model scores
NEARLY_BEST_LOG_ODDS: Final = 1.0  # the log-odds of a further quote may be lower than the best by this much
DENIED_BELOW: Final = -0.9  # if even the best sentence has a lower margin, the sources are said not to answer
MIN_SENTENCES: Final = (
    60  # with fewer, it says little that the best one stands out, or that words and encoder agree on it
)
# The best sentence by words is agreed if it is also one of the AGREEMENT_RANKS nearest to the question.
AGREEMENT_RANKS: Final = 3
AGREED_TERMS: Final = 3  # the question must have at least this many terms
AGREED_COVERAGE: Final = 0.4  # the sentence must have this share of the terms, by weight
MAX_BEFORE_CHARS: Final = 160  # only the end of the sentence before is read

ScoringModel = Literal["english", "languages", "across", "near"]
"""The model that scores a sentence: the English support model, the one for other languages (`across` if the question is in
another language than the sentence), or the encoder alone (`near`).
"""


@dataclass(frozen=True, slots=True)
class AnswerWeights:
    """The weights of the features of a sentence, and the limits of its log-odds.

    - From `answers_from` on, a sentence is quoted, even if it shares few words with the question.
    - From `stands_out_from` on, the best sentence is quoted although it is less certain, because no other sentence is nearly as
      likely (`measure_distinction`). It is None for a model whose sentences are not told apart in this way.
    - If the best of all sentences has at least `words_from`, the keyword choice stays, provided that the best of them
      is lower by at most `words_within`. This limit is wide for `near`.
    - From `may_answer_from` on, a sentence may answer.
    """

    bias: float
    features: Mapping[str, float]
    answers_from: float
    stands_out_from: float | None
    words_from: float
    words_within: float
    may_answer_from: float


@cache
def load_answer_weights(model: ScoringModel) -> AnswerWeights:
    return AnswerWeights(**load_data("answer_weights")[model])


def list_quotable(selection: Selection) -> list[Candidate]:
    """Return the sentences that can be quoted, best first by their words."""
    ranked = sorted(selection.candidates, key=get_rank_key)
    # `add_antecedent` takes time, so `islice` stops as soon as there are enough sentences.
    return list(itertools.islice(filter(add_antecedent, ranked), MAX_QUOTABLE))


def make_model_input(candidate: Candidate, question: Question) -> str:
    """Return the text that the models read: the sentence, or the cells of a table row that the question asks for, followed by
    the context in parentheses.
    """
    sentence = candidate.sentence
    said = candidate.form.shown
    if sentence.row:
        cells = pick_asked_cells(question, candidate)
        said = "; ".join(f"{column}: {cell}" if column else cell for column, cell in cells)
    before = sentence.before.text[-MAX_BEFORE_CHARS:] if sentence.before else ""
    around = dict.fromkeys(
        filter(
            None,
            (
                candidate.source.title,
                candidate.found_in.name,
                sentence.heading,
                sentence.entry,
                sentence.intro,
                before,
            ),
        )
    )
    return f"{said} ({' · '.join(around)})" if around else said


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence with its scores.

    - `closeness` is its cosine with the question. `z_score` is how far `closeness` is above the mean, in standard
      deviations.
    - `log_odds` is the score of the support model, and `scored_by` names the model that scored the sentence.
    - `is_agreed` is set by `mark_agreed`: the ranking by words and the encoder agree on the sentence.
    """

    candidate: Candidate
    closeness: float
    z_score: float
    log_odds: float = 0.0
    scored_by: ScoringModel = "near"
    is_agreed: bool = False

    @property
    def features(self) -> dict[str, float]:
        return {"closeness": self.closeness, "lead": self.z_score, "log_odds": self.log_odds}

    @property
    def weights(self) -> AnswerWeights:
        return load_answer_weights(self.scored_by)

    @property
    def answer_log_odds(self) -> float:
        """Log-odds from all features that the sentence answers; `log_odds` is the support model's score alone."""
        weights, features = self.weights, self.features
        return weights.bias + sum(weight * features[name] for name, weight in weights.features.items())

    @property
    def answers(self) -> bool:
        """Whether the sentence is certain enough to be quoted."""
        return self.answer_log_odds >= self.weights.answers_from

    @property
    def margin(self) -> float:
        """How far the log-odds exceed the threshold of their model.

        Sentences of different models are compared by their margins, because `near` gives higher log-odds if nothing answers.
        """
        return self.answer_log_odds - self.weights.may_answer_from


def choose_scoring_model(question: str | None, sentence: str | None) -> ScoringModel:
    """Return which model scores a sentence. `question` and `sentence` are the languages of the two.

    The encoder alone scores if one of the languages is uncertain, or if the support model cannot read it.
    """
    if question not in QUESTION_LANGUAGES or sentence not in QUESTION_LANGUAGES:
        return "near"
    if question != sentence:
        return "across"
    return "english" if question == ENGLISH else "languages"


def remove_other_rows_and_days(question: Question, quotable: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentences without table rows of other names and other days than the question has."""
    return remove_other_rows(question, remove_other_days(question, quotable))


@dataclass(frozen=True, slots=True)
class ComparedSentences:
    """Sentences whose closeness can be compared, because the same model of the encoder measures all of them.

    - `sentences` may answer. The best one by words is first.
    - `others` are only measured, so that there are enough sentences for a mean.
    - `further` are measured in place of the last of `sentences` if static vectors find them nearer to the question.
    - `is_english` says that the question and all sentences are English.
    """

    sentences: Sequence[Candidate]
    others: Sequence[Candidate] = ()
    further: Sequence[Candidate] = ()
    is_english: bool = False

    @property
    def all_sentences(self) -> list[Candidate]:
        return [*self.sentences, *self.others]

    @property
    def replaceable(self) -> list[Candidate]:
        """The sentences among which static vectors may choose; empty if all are measured."""
        return [*self.sentences[BEST_BY_WORDS:], *self.further] if self.further else []

    def choose(self, nearest: Sequence[int]) -> "ComparedSentences":
        """Return the group with its best sentences by words and the sentences of `replaceable` at the indices `nearest`."""
        chosen = [self.replaceable[index] for index in sorted(nearest)]
        return replace(self, sentences=[*self.sentences[:BEST_BY_WORDS], *chosen], further=())


def group_by_language(question: Question, near: Sequence[Candidate]) -> list[ComparedSentences]:
    """Return one group of English sentences and one of all others. Empty groups are left out.

    If the question is not English, all sentences are in the second group. `near` has the best sentence by words first.
    """
    english: list[Candidate] = []
    others: list[Candidate] = []
    for candidate in near:
        scored_by = choose_scoring_model(question.language, candidate.found_in.language)
        (english if scored_by == "english" else others).append(candidate)
    groups = [
        ComparedSentences(english[:MAX_NEAR_ENGLISH], further=english[MAX_NEAR_ENGLISH:], is_english=True),
        ComparedSentences(others[:MAX_NEAR], english[: max(MIN_MEASURED - len(others), 0)]),
    ]
    return [group for group in groups if group.sentences]


def select_nearest(selection: Selection, group: ComparedSentences, closeness: Sequence[float]) -> list[ScoredSentence]:
    """Return the sentences for the support model: the MAX_READ nearest ones, and all that were chosen by keywords.

    `closeness` has the values of `group.all_sentences`.
    """
    mean, deviation = fmean(closeness), pstdev(closeness)
    scored = [
        ScoredSentence(candidate, value, (value - mean) / deviation if deviation > 0 else 0.0)
        for candidate, value in zip(group.sentences, closeness, strict=False)
    ]
    nearest = sorted(scored, key=lambda one: -one.closeness)
    return nearest[:MAX_READ] + [one for one in nearest[MAX_READ:] if one.candidate in selection.chosen]


def mark_agreed(selection: Selection, best: Candidate, nearest: Sequence[ScoredSentence]) -> list[ScoredSentence]:
    """Return the sentences, with `is_agreed` set for `best`, the best of all sentences by words, if the encoder confirms it.

    It must be one of the AGREEMENT_RANKS nearest sentences and must have enough words of the question. With fewer than
    MIN_SENTENCES sentences, none is agreed.
    """
    is_near = any(one.candidate is best for one in nearest[:AGREEMENT_RANKS])
    if len(selection.candidates) < MIN_SENTENCES or not is_near or not _has_enough_words(selection.question, best):
        return list(nearest)
    return [replace(one, is_agreed=one.candidate is best) for one in nearest]


def _has_enough_words(question: Question, candidate: Candidate) -> bool:
    """Return whether a question has several terms, and a sentence enough of them by weight. A table row has too few words."""
    if len(question.terms) < AGREED_TERMS or candidate.sentence.row:
        return False
    covered = measure_coverage([candidate], [term.weight for term in question.terms], range(len(question.terms)))
    return covered >= AGREED_COVERAGE


@dataclass(frozen=True, slots=True)
class RerankedSelection:
    """A selection after the models have scored its sentences.

    - `selection.chosen` has the sentences that answer.
    - `ordered` has the scored sentences, the likeliest answer first. If the models choose none because they are
      uncertain, sentences in another language than the question are left out, unless they may answer by the support model.
    - `may_answer` is True if no sentence certainly answers, but the first of `ordered` may.
    """

    selection: Selection
    ordered: list[Candidate]
    may_answer: bool = False


def choose_by_models(selection: Selection, scored: Sequence[ScoredSentence]) -> RerankedSelection:
    """Choose the sentences that answer: in the language of the question or, if no such sentence answers, in other languages.

    Sentences that the models choose are dropped if they lack an option, symbol or identifier of the question.
    """
    ranked = sorted(scored, key=lambda one: -one.margin)
    own = [one for one in ranked if one.scored_by != "across"]
    foreign = [one for one in ranked if one.scored_by == "across"]
    is_dropped = False
    for group in filter(None, (own, foreign)):
        chosen = _keep_keyword_choice(selection, group)
        if not chosen:
            chosen = _choose_answers(group, stands_out=_stands_out(selection, group[0], ranked))
            if chosen and lacks_exact(selection.question, chosen):
                chosen, is_dropped = [], True
        if chosen:
            return RerankedSelection(replace(selection, chosen=chosen), [one.candidate for one in ranked])
    closest = _drop_other_languages(selection.question, ranked)
    return RerankedSelection(
        replace(selection, chosen=[]),
        [one.candidate for one in closest],
        may_answer=closest[0].margin >= DENIED_BELOW and not is_dropped,
    )


def _keep_keyword_choice(selection: Selection, ranked: Sequence[ScoredSentence]) -> list[Candidate]:
    """Return the sentences that the keyword ranking chose, in the languages of `ranked`, which has the highest margin first.

    They stay if the question has several parts, or if the best sentence reaches `words_from` and one of them is nearly as good.
    """
    best, limits = ranked[0], ranked[0].weights
    by_words = [one.margin for one in ranked if one.candidate in selection.chosen]
    if not by_words:
        return []
    # The models compare a sentence with the whole question, so they cannot tell that it answers one of several parts.
    if asks_several_things(selection.question):
        return selection.chosen
    if best.answer_log_odds < limits.words_from or max(by_words) < best.margin - limits.words_within:
        return []
    languages = {one.candidate.found_in.language for one in ranked}
    return [one for one in selection.chosen if one.found_in.language in languages]


def _drop_other_languages(question: Question, ranked: Sequence[ScoredSentence]) -> Sequence[ScoredSentence]:
    """Return the sentences in the language of the question, and others that may answer and are at least as likely.

    If there are none, all sentences are returned.
    """
    own = [one.margin for one in ranked if one.candidate.found_in.language == question.language]
    min_margin = max([0.0, *own])

    def is_shown(one: ScoredSentence) -> bool:
        is_own = one.candidate.found_in.language == question.language
        return is_own or (one.scored_by == "across" and one.margin >= min_margin)

    return [one for one in ranked if is_shown(one)] or ranked


def measure_distinction(best: ScoredSentence, everything: Sequence[ScoredSentence]) -> float:
    """Return the log-odds that the best sentence answers, and that no other sentence does.

    "None answers" is as likely as a sentence with a margin of 0. Sentences that repeat the best one do not compete with it.
    """
    others = (one for one in everything if one is not best and not _is_repeated(one.candidate, best.candidate))
    return best.margin - log1p(sum(exp(other.margin) for other in others))


def _is_repeated(one: Candidate, other: Candidate) -> bool:
    return measure_overlap(one, other) >= MIN_REPETITION_OVERLAP or is_shown_with(other, one)


def _stands_out(selection: Selection, best: ScoredSentence, everything: Sequence[ScoredSentence]) -> bool:
    """Return whether the best sentence is far likelier than all others. With fewer than MIN_SENTENCES sentences, none is."""
    limit = best.weights.stands_out_from
    if limit is None or len(selection.candidates) < MIN_SENTENCES:
        return False
    return measure_distinction(best, everything) >= limit


def _choose_answers(ranked: Sequence[ScoredSentence], *, stands_out: bool) -> list[Candidate]:
    """Return the sentences that answer nearly as certainly as the best one, at most MAX_QUOTES and without repetition.

    `ranked` has the highest margin first. If even the best one is uncertain, it is returned if it stands out, or if it is
    agreed and may answer.
    """
    best = ranked[0]
    if not best.answers:
        is_agreed = best.is_agreed and best.answer_log_odds >= best.weights.may_answer_from
        return add_antecedent(best.candidate) if is_agreed or stands_out else []
    chosen: list[Candidate] = []
    for one in ranked:
        candidate = one.candidate
        group = [member for member in add_antecedent(candidate) if member not in chosen]
        is_repeated = any(_is_repeated(candidate, other) for other in chosen)
        is_near = one.answers and one.margin >= best.margin - NEARLY_BEST_LOG_ODDS
        if is_near and group and not is_repeated and len(chosen) + len(group) <= MAX_QUOTES:
            chosen += group
    return chosen
