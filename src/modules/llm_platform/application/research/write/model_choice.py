"""Let two small models read which sentences answer a question. If a model fails or is late, the words decide."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.named_cells import (
    MAX_GROUPS,
    CellReading,
    choose_named_rows,
    keep_nearest_cells,
    leave_out_name,
    list_cells,
)
from modules.llm_platform.domain.extractive.named_rows import NamedRows
from modules.llm_platform.domain.extractive.reading import (
    Kind,
    ReadingResult,
    SentenceReading,
    choose_by_reading,
    choose_kind,
    describe_sentence,
    keep_nearest,
    leave_out_rows_not_meant,
    list_quotable,
)
from modules.llm_platform.domain.extractive.selection import Selection
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.support_model import READ_LANGUAGES, ISupportModel
from shared.exceptions import AppException


async def choose_with_models(
    selection: Selection,
    named: Sequence[NamedRows],
    encoder: ISentenceEncoder,
    model: ISupportModel | None,
    timeout_s: float,
) -> tuple[ReadingResult, tuple[Degraded, ...]]:
    """Return the sentences that answer, after the models have read them for at most `timeout_s` seconds.

    `named` are the rows of tables that the question names.
    """
    quotable = list_quotable(selection)
    if not quotable:
        return ReadingResult(selection, []), ()
    reading = _Reading(selection, named, encoder, model)
    try:
        async with asyncio.timeout(timeout_s):
            return await reading.choose(quotable), ()
    except TimeoutError:
        late = (
            f"timeout: the models that read by meaning took longer than {timeout_s:g} seconds, so the words decided: "
            "raise ANSWER_ENCODER_TIMEOUT_S"
        )
        return ReadingResult(selection, []), (Degraded(component=reading.component, reason=late),)
    except AppException as error:
        return ReadingResult(selection, []), (Degraded.of(reading.component, error),)


class _Reading:
    """One question and the models that read for it. `component` is the name of the model that was asked last."""

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

    async def choose(self, quotable: Sequence[Candidate]) -> ReadingResult:
        """Return the sentences that answer or, if there are none, the row of a table that the question names."""
        near = leave_out_rows_not_meant(self._question, quotable)
        if not near:
            return ReadingResult(replace(self._selection, chosen=[]), [])
        result = choose_by_reading(self._selection, await self._read_sentences(near))
        if result.selection.chosen or self._model is None:
            return result
        rows = await self._find_named_rows(self._model)
        return ReadingResult(replace(self._selection, chosen=rows), result.ordered) if rows else result

    async def _find_named_rows(self, model: ISupportModel) -> list[Candidate]:
        """Return the rows that the question names, if they answer. In a language that the model cannot read none do."""
        if self._question.language not in READ_LANGUAGES:
            return []
        readings: list[CellReading] = []
        for named in self._named[:MAX_GROUPS]:
            readings += await self._read_cells(named, model)
        return choose_named_rows(self._question, readings)

    async def _read_sentences(self, near: Sequence[Candidate]) -> list[SentenceReading]:
        texts = [describe_sentence(candidate, self._question) for candidate in near]
        closeness = await self._measure(self._question.text, texts)
        readings = keep_nearest(self._selection, near, closeness)
        return readings if self._model is None else await self._score_sentences(readings, self._model)

    async def _score_sentences(
        self, readings: Sequence[SentenceReading], model: ISupportModel
    ) -> list[SentenceReading]:
        """Return the readings with the log-odds of the model. Sentences in a language that the model cannot read have none."""
        by_kind: dict[Kind, list[SentenceReading]] = {}
        for one in readings:
            by_kind.setdefault(self._choose_kind(one.candidate), []).append(one)
        scored = by_kind.pop("near", [])
        for kind, read in by_kind.items():
            scores = await self._score(model, [describe_sentence(one.candidate, self._question) for one in read], kind)
            scored += [replace(one, log_odds=score, kind=kind) for one, score in zip(read, scores, strict=True)]
        return scored

    async def _read_cells(self, named: NamedRows, model: ISupportModel) -> list[CellReading]:
        """Return the readings of the cells whose columns are nearest to the question.

        The model for other languages reads them if the table is not in English, or if that is not certain: a list of names may
        seem to be in any language.
        """
        cells = list_cells(named)
        texts = [text for one in cells for text in (one.column, one.with_column)]
        closeness = await self._measure(leave_out_name(self._question, named), texts)
        pairs = zip(cells, closeness[::2], closeness[1::2], strict=True)
        readings = keep_nearest_cells([CellReading(*pair) for pair in pairs])
        kind: Kind = "english" if self._choose_kind(named.rows[0]) == "english" else "languages"
        scores = await self._score(model, [one.read.with_name for one in readings], kind)
        return [replace(one, log_odds=score) for one, score in zip(readings, scores, strict=True)]

    def _choose_kind(self, candidate: Candidate) -> Kind:
        return choose_kind(self._question.language, candidate.found_in.language)

    async def _measure(self, question: str, texts: Sequence[str]) -> list[float]:
        self.component = self._encoder.name
        return await self._encoder.measure_closeness(question, texts)

    async def _score(self, model: ISupportModel, texts: Sequence[str], kind: Kind) -> list[float]:
        self.component = model.name
        pairs = [(self._question.text, text) for text in texts]
        return await model.score_answers(pairs, is_english=kind == "english")
