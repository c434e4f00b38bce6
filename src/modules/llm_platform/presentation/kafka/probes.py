"""How each dependency of a worker is asked how it is: for nothing where that is possible, and by a real call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    LLMException,
    LLMProviderException,
    LLMUnavailableError,
)
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.dependencies import Dependency

LOCAL_EVERY_S: Final = 10.0  # between two probes of what is on this machine
REMOTE_EVERY_S: Final = 30.0
PROBE_WORD: Final = "python"
PROBE_TOKENS: Final = 16


def of_outcomes(outcomes: IOutcomeStore) -> Dependency:
    """The store, with a write."""

    async def write() -> str:
        await outcomes.probe()
        return f"shared by {outcomes.reach}"

    return Dependency("outcomes", write, write, LOCAL_EVERY_S, free=True)


def of_retrieval(retrieval: RetrievalService, embedder: IEmbedder, *, paid: bool) -> tuple[Dependency, Dependency]:
    """The index and its embedder. `paid`: to embed a word costs money, so it is done only when something is wrong."""

    async def describe() -> str:
        facts = await retrieval.describe()
        return f"collection {facts.name}, by {facts.embedder}"

    async def search() -> str:
        word = await describe()
        try:
            await retrieval.search(RagSearch(query=PROBE_WORD, top_k=1, by_words_alone=False))
        except (EmbeddingError, EmbeddingConfigError):
            return word  # that is the embedder's matter, which is probed by itself
        return word

    async def embed() -> str:
        await embedder.embed([PROBE_WORD])
        return embedder.name

    every_s = REMOTE_EVERY_S if paid else LOCAL_EVERY_S
    index = Dependency("index", search, describe, every_s, free=not paid)
    return index, Dependency("embedder", embed, None if paid else embed, every_s, free=not paid)


def of_models(llm: ILLMProvider, models: Mapping[str, ILLMProvider]) -> Dependency:
    """The models that `llm` asks in their order: one that serves is enough."""

    async def ping() -> str:
        errors: list[LLMException] = []
        for model in models.values():
            try:
                return await model.ping() if isinstance(model, IHealthProbe) else ""
            except LLMException as error:
                errors.append(error)
        raise next((error for error in errors if error.retryable), errors[-1])

    async def generate() -> str:
        asked = LLMRequest(messages=(ChatMessage(role="user", content=PROBE_WORD),), max_tokens=PROBE_TOKENS)
        try:
            answer = await llm.generate(asked)
        except LLMUnavailableError:
            raise
        except (
            LLMProviderException
        ) as odd:  # so few tokens make no answer of a model that thinks first; but it was there
            return odd.message
        return f"{answer.provider}/{answer.model} answers"

    return Dependency("model", generate, ping, REMOTE_EVERY_S, frozenset({"answer"}))
