"""The handler of requests, put together from the services of the platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modules.llm_platform.presentation.kafka.attempts import deadline
from modules.llm_platform.presentation.kafka.handler import HandlerOptions, RagHandler

if TYPE_CHECKING:
    from modules.llm_platform.application.services.answer_service import AnswerService
    from modules.llm_platform.application.services.retrieval_service import RetrievalService
    from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
    from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
    from modules.llm_platform.presentation.kafka.dependencies import Dependencies


def rag_handler(
    retrieval: RetrievalService,
    answers: AnswerService,
    outcomes: IOutcomeStore,
    options: HandlerOptions,
    dependencies: Dependencies | None = None,
) -> RagHandler:
    """Both stages. Every try of a request knows the deadline of all of them.

    Nobody steps in for a model or an embedder that fails: what is told first under an id is told for ever, and the sender of a
    recoverable failure can ask again under a new one.
    """

    async def answer(asked: RagQuestion) -> RagAnswer:
        return await answers.answer(asked, deadline=deadline())

    async def search(asked: RagSearch) -> RagHits:
        return await retrieval.search(asked.model_copy(update={"by_words_alone": False}))

    return RagHandler(search, answer, outcomes, options, dependencies)
