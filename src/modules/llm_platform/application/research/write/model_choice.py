"""Rerank the sentences of the sources with two small models. If a model fails or is late, keyword matching decides."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.named_cells import (
    MAX_GROUPS,
    ScoredCell,
    choose_named_rows,
    list_cells,
    remove_name,
    select_nearest_cells,
)
from modules.llm_platform.domain.extractive.named_rows import NamedRows
from modules.llm_platform.domain.extractive.question import Question
from modules.llm_platform.domain.extractive.reranking import (
    BEST_BY_WORDS,
    MAX_NEAR,
    MAX_NEAR_ENGLISH,
    ComparedSentences,
    RerankedSelection,
    ScoredSentence,
    ScoringModel,
    choose_by_models,
    choose_scoring_model,
    group_by_language,
    list_quotable,
    make_model_input,
    mark_agreed,
    remove_other_rows_and_days,
    select_nearest,
)
from modules.llm_platform.domain.extractive.selection import Selection
from modules.llm_platform.domain.extractive.spelling import list_correctable_words
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.support_model import ENGLISH, QUESTION_LANGUAGES, ISupportModel
from shared.exceptions import AppException

MODELS_LATE: Final = (
    "timeout: ranking by meaning took longer than {timeout_s:g} s, so keyword ranking was used: "
    "raise ANSWER_ENCODER_TIMEOUT_S"
)


async def choose_with_models(
    selection: Selection,
    named: Sequence[NamedRows],
    encoder: ISentenceEncoder,
    model: ISupportModel | None,
    timeout_s: float,
) -> tuple[RerankedSelection, tuple[Degraded, ...]]:
    """Return the sentences that answer, reranked by the models within `timeout_s` seconds.

    `named` are the rows of tables that the question names.
    """
    quotable = list_quotable(selection)
    if not quotable:
        return RerankedSelection(selection, []), ()
    reranker = _Reranker(selection, named, encoder, model)
    try:
        async with asyncio.timeout(timeout_s):
            return await reranker.choose(quotable), ()
    except TimeoutError:
        late = MODELS_LATE.format(timeout_s=timeout_s)
        return RerankedSelection(selection, []), (Degraded(component=reranker.component, reason=late),)
    except AppException as error:
        return RerankedSelection(selection, []), (Degraded.of(reranker.component, error),)


async def list_misspelled_words(question: Question, encoder: ISentenceEncoder) -> list[str]:
    """Return the words of an English question that the encoder does not know.

    A failure gives no words: `choose_with_models` has reported it.
    """
    if question.language != ENGLISH:
        return []
    try:
        return await encoder.list_unknown_words(list_correctable_words(question))
    except AppException:
        return []


class _Reranker:
    """Reranks the sentences for one question. `component` is the name of the model that was asked last."""

    def __init__(
        self,
        selection: Selection,
        named: Sequence[NamedRows],
        encoder: ISentenceEncoder,
        model: ISupportModel | None,
    ) -> None:
        self.component = encoder.name
        self._named = named
        self._selection = selection
        self._question = selection.question
        self._encoder = encoder
        self._model = model

    async def choose(self, quotable: Sequence[Candidate]) -> RerankedSelection:
        """Return the sentences that answer or, if there are none, the row of a table that the question names."""
        near = remove_other_rows_and_days(self._question, quotable)
        if not near:
            return RerankedSelection(replace(self._selection, chosen=[]), [])
        result = choose_by_models(self._selection, await self._score_nearest_sentences(near))
        if result.selection.chosen or self._model is None:
            return result
        rows = await self._find_named_rows(self._model)
        return RerankedSelection(replace(self._selection, chosen=rows), result.ordered) if rows else result

    async def _find_named_rows(self, model: ISupportModel) -> list[Candidate]:
        """Return the rows that the question names, if they answer. In a language that the model cannot read none do."""
        if self._question.language not in QUESTION_LANGUAGES:
            return []
        cells: list[ScoredCell] = []
        for named in self._named[:MAX_GROUPS]:
            cells += await self._score_nearest_cells(named, model)
        return choose_named_rows(self._question, cells)

    async def _score_nearest_sentences(self, near: Sequence[Candidate]) -> list[ScoredSentence]:
        if self._model is None:
            return await self._select_nearest(ComparedSentences(near[:MAX_NEAR]), near[0])
        groups = group_by_language(self._question, near)
        for group in groups:
            self._encoder.begin_loading(is_english=group.is_english)
        scored: list[ScoredSentence] = []
        for group in [await self._choose_measured(group) for group in groups]:
            scored += await self._score_sentences(await self._select_nearest(group, near[0]), self._model)
            if group.is_english and choose_by_models(self._selection, scored).selection.chosen:
                break  # sentences in other languages are measured only if no English one answers an English question
        return scored

    async def _choose_measured(self, group: ComparedSentences) -> ComparedSentences:
        """Return the group with the sentences that are measured. Static vectors find some without a word of the question."""
        texts = [make_model_input(candidate, self._question) for candidate in group.replaceable]
        most = MAX_NEAR_ENGLISH - BEST_BY_WORDS
        nearest = await self._encoder.find_nearest(self._question.text, texts, most) if texts else []
        return group.choose(nearest) if nearest else group

    async def _select_nearest(self, group: ComparedSentences, best: Candidate) -> list[ScoredSentence]:
        texts = [make_model_input(candidate, self._question) for candidate in group.all_sentences]
        closeness = await self._measure(self._question.text, texts, is_english=group.is_english)
        return mark_agreed(self._selection, best, select_nearest(self._selection, group, closeness))

    async def _score_sentences(self, sentences: Sequence[ScoredSentence], model: ISupportModel) -> list[ScoredSentence]:
        """Return the sentences with the log-odds of the model. Sentences in a language that the model cannot read have none."""
        by_model: dict[ScoringModel, list[ScoredSentence]] = {}
        for one in sentences:
            by_model.setdefault(self._choose_scoring_model(one.candidate), []).append(one)
        scored = by_model.pop("near", [])
        for scored_by, read in by_model.items():
            scores = await self._score(
                model, [make_model_input(one.candidate, self._question) for one in read], scored_by
            )
            scored += [
                replace(one, log_odds=score, scored_by=scored_by) for one, score in zip(read, scores, strict=True)
            ]
        return scored

    async def _score_nearest_cells(self, named: NamedRows, model: ISupportModel) -> list[ScoredCell]:
        """Return the scores of the cells whose columns are nearest to the question.

        The model for other languages scores them if the table is not in English, or if its language is uncertain: a list of
        names may seem to be in any language.
        """
        cells = list_cells(named)
        texts = [text for one in cells for text in (one.column, one.with_column)]
        closeness = await self._measure(remove_name(self._question, named), texts)
        pairs = zip(cells, closeness[::2], closeness[1::2], strict=True)
        nearest = select_nearest_cells([ScoredCell(*pair) for pair in pairs])
        scored_by: ScoringModel = "english" if self._choose_scoring_model(named.rows[0]) == "english" else "languages"
        scores = await self._score(model, [one.cell.with_name for one in nearest], scored_by)
        return [replace(one, log_odds=score, scored_by=scored_by) for one, score in zip(nearest, scores, strict=True)]

    def _choose_scoring_model(self, candidate: Candidate) -> ScoringModel:
        return choose_scoring_model(self._question.language, candidate.found_in.language)

    async def _measure(self, question: str, texts: Sequence[str], *, is_english: bool = False) -> list[float]:
        self.component = self._encoder.name
        return await self._encoder.measure_closeness(question, texts, is_english=is_english)

    async def _score(self, model: ISupportModel, texts: Sequence[str], scored_by: ScoringModel) -> list[float]:
        self.component = model.name
        pairs = [(self._question.text, text) for text in texts]
        return await model.score_answers(pairs, is_english=scored_by == "english")
