"""Choose the passages from which a small language model answers: by rules for tables, by words, and by two models."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from modules.llm_platform.application.research.write.model_choice import MODELS_LATE
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import match_sources
from modules.llm_platform.domain.extractive.dated_rows import asks_for_dated_rows, cut_other_days
from modules.llm_platform.domain.extractive.question import read_question_as_written
from modules.llm_platform.domain.extractive.rendering import render_rows_to_read
from modules.llm_platform.domain.extractive.tables import RowsFound
from modules.llm_platform.domain.llm.context_budget import SMALL_READ_TOKENS, BudgetedText, keep_passages
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.support_model import ENGLISH, QUESTION_LANGUAGES, ISupportModel
from modules.llm_platform.domain.retrieval.excerpt import TextPassage, join_passages, rank_passages
from modules.llm_platform.domain.row_claims.questions import find_answering_rows, may_be_answered_by_rows
from modules.llm_platform.domain.text.language import get_primary_subtag
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.sentences import split_sentences
from modules.llm_platform.domain.text.tokens import count_tokens
from shared.exceptions import AppException

MAX_NEAR: Final = 200  # passages that get a vector, best first by their words
MAX_READ: Final = 16  # passages that the support model reads
NEAR_RANKS: Final = 60  # constants of reciprocal rank fusion: the smaller, the more the first ranks count
READ_RANKS: Final = 10
MAX_READ_SENTENCES: Final = 40  # of the chosen passages: 0.3 seconds of one core
# If no sentence has these log-odds, the passages seem to have no answer. Of questions with an answer these are 2 to 10 of 100, of
# others 46 to 65 (`scripts/support_model/answers.py` prints them).
LEAST_LOG_ODDS: Final = -2.0


def choose_rows(sources: Sequence[Source], question: str, language: str) -> RowsFound | None:
    """Return the rows of a table that answer a question about rows: `Who is under 18?`

    A model would have to compare all rows of the table, and it may get only some of them. The result is None for other questions,
    and if it is not certain which rows are meant.
    """
    asked = read_question_as_written(question, language)
    if not may_be_answered_by_rows(asked):
        return None
    return find_answering_rows(asked, sources, match_sources(asked, sources))


def keep_rows(found: RowsFound, sources: Sequence[Source], language: str) -> BudgetedText:
    """Return the sources with these rows and no other text."""
    text = render_rows_to_read(found, get_messages(language))
    texts = [text if source.index == found.table.source else "" for source in sources]
    return keep_passages(sources, texts, sum(count_tokens(source.text) for source in sources))


def remove_rows_of_other_days(sources: Sequence[Source], question: str, language: str) -> list[Source]:
    """Return the sources without the table rows of other days than the question asks about.

    A small model takes the nearest row for the answer if a table lacks the day.
    """
    asked = read_question_as_written(question, language)
    if not asks_for_dated_rows(asked):
        return list(sources)
    return [
        source.model_copy(
            update={
                "text": cut_other_days(asked, source.text, source.title),
                "excerpt": source.excerpt and cut_other_days(asked, source.excerpt, source.title),
            }
        )
        for source in sources
    ]


class ChosenPassages(NamedTuple):
    """What a small model reads.

    - `text` has the sources with their best passages; None if words must choose, because no passage has a word of the question,
      or because a model failed or was late.
    - `is_doubtful` is True if no sentence of them seems to answer the question.
    - `degraded` says what failed.
    """

    text: BudgetedText | None = None
    is_doubtful: bool = False
    degraded: tuple[Degraded, ...] = ()


class PassageChooser:
    """Ranks passages by BM25, by their closeness to the question, and by the log-odds that they answer it.

    `encoder` measures the closeness. `model` reads the best passages if it knows the language.
    """

    def __init__(self, encoder: ISentenceEncoder, model: ISupportModel | None, timeout_s: float) -> None:
        self._encoder, self._model, self._timeout_s = encoder, model, timeout_s

    def begin_loading(self) -> None:
        """Load the weights of both models in the background."""
        self._encoder.begin_loading()
        if self._model is not None:
            self._model.begin_loading("answer")

    async def choose(self, sources: Sequence[Source], question: str, language: str) -> ChosenPassages:
        """Return the best passages, at most SMALL_READ_TOKENS together."""
        titled = [(source.title, source.text) for source in sources]
        size = sum(len(source.text) for source in sources)
        by_words = await run_in_thread_if_long(size, rank_passages, titled, question, language)
        if not by_words or not by_words[0].score:
            return ChosenPassages()
        try:
            async with asyncio.timeout(self._timeout_s):
                ranked = await self._rank(by_words[:MAX_NEAR], question, language)
                texts = join_passages(titled, ranked, SMALL_READ_TOKENS)
                if not texts:
                    return ChosenPassages()
                chosen = keep_passages(sources, texts, sum(count_tokens(source.text) for source in sources))
                return ChosenPassages(chosen, await self._seem_unanswered(chosen.sources, question, language))
        except TimeoutError:
            late = MODELS_LATE.format(timeout_s=self._timeout_s)
            return ChosenPassages(degraded=(Degraded(component=self._encoder.name, reason=late),))
        except AppException as error:
            return ChosenPassages(degraded=(Degraded.of(self._encoder.name, error),))

    async def _seem_unanswered(self, sources: Sequence[Source], question: str, language: str) -> bool:
        """Return whether no sentence of these sources seems to answer the question. Only English is measured."""
        if self._model is None or get_primary_subtag(language) != ENGLISH:
            return False
        sentences = [
            f"{source.text[slice(*span)]} ({source.title})" if source.title else source.text[slice(*span)]
            for source in sources
            for span in split_sentences(source.text, language)
        ]
        log_odds = await self._model.score_answers([(question, one) for one in sentences[:MAX_READ_SENTENCES]])
        return max(log_odds, default=LEAST_LOG_ODDS) < LEAST_LOG_ODDS

    async def _rank(self, by_words: Sequence[TextPassage], question: str, language: str) -> list[TextPassage]:
        closeness = await self._encoder.measure_closeness(question, [passage.titled for passage in by_words])
        near = _fuse(by_words, closeness, NEAR_RANKS)
        primary = get_primary_subtag(language)
        if self._model is None or primary not in QUESTION_LANGUAGES:
            return near
        read = near[:MAX_READ]
        pairs = [(question, passage.titled) for passage in read]
        log_odds = await self._model.score_answers(pairs, is_english=primary == ENGLISH)
        return [*_fuse(read, log_odds, READ_RANKS), *near[MAX_READ:]]


def _fuse(ranked: Sequence[TextPassage], scores: Sequence[float], constant: int) -> list[TextPassage]:
    """Return the passages by their rank and by the rank of their score together (reciprocal rank fusion)."""
    by_score = sorted(range(len(ranked)), key=lambda place: -scores[place])
    rank_of = {place: rank for rank, place in enumerate(by_score)}
    worth = {place: 1 / (constant + place) + 1 / (constant + rank_of[place]) for place in range(len(ranked))}
    return [ranked[place] for place in sorted(worth, key=lambda place: -worth[place])]
