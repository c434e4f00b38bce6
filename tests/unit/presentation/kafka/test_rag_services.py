"""Requests as bytes through the real services: each cause gets its code, whatever failed beneath."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.rag_world import SECRETS, SESSIONS, RagWorld

from modules.llm_platform.domain.exceptions import (
    EmbeddingError,
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    PageRequestError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler, rag_handler
from modules.llm_platform.testing import FakeLLM, MemoryOutcomeStore

QUESTION = "How long does a session token stay valid?"
PAGE = "http://127.0.0.1/admin"
SECRET = "sk-never-tell-anybody"


def handler_of(world: RagWorld, **options: Any) -> RagHandler:
    return rag_handler(
        world.retrieval, world.answers, MemoryOutcomeStore(), HandlerOptions(**{"timeout_s": 0.35, **options})
    )


async def told(handler: RagHandler, stage: str, request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The topic of the outcome, and what it says."""
    value = json.dumps({"request_id": "r-1", **request}).encode()
    outcome = await handler.handle(IncomingRecord(f"rag_{stage}_request", 0, 0, b"key", value))
    return outcome.topic, json.loads(outcome.value)


async def test_a_search_is_answered_from_the_index() -> None:
    """One hit for each document, its best passage as snippet."""
    topic, said = await told(handler_of(await RagWorld().indexed()), "search", {"query": QUESTION, "top_k": 1})
    assert topic == "rag_search_result"
    (hit,) = said["hits"]
    assert (hit["doc_id"], hit["snippet"], hit["url"]) == ("sessions", SESSIONS.texts[0], SESSIONS.url)
    assert 0 < hit["score"] <= 1


async def test_a_result_of_the_search_can_be_the_context_of_a_question() -> None:
    """The two stages fit: hits go in as they came out."""
    handler = handler_of(await RagWorld().indexed())
    _, found = await told(handler, "search", {"query": QUESTION})
    topic, said = await told(handler, "answer", {"question": QUESTION, "context": found["hits"]})
    assert topic == "rag_answer_result"
    assert said["answer"] == "A session token stays valid for thirty minutes after the last request [1]."
    assert said["citations"] == [{"doc_id": "sessions", "title": "Sessions", "url": SESSIONS.url}]


async def test_context_answers_when_the_store_is_down() -> None:
    """A result, which says what was not there."""
    world = await RagWorld().indexed()
    world.store.error = VectorStoreError("the index cannot be reached")
    topic, said = await told(
        handler_of(world), "answer", {"question": QUESTION, "context": [{"doc_id": "d", "snippet": SESSIONS.texts[0]}]}
    )
    assert topic == "rag_answer_result"
    assert said["citations"] == [{"doc_id": "d"}]
    assert said["degraded"] == [{"component": "index", "reason": "vector_store: the index cannot be reached"}]


async def test_nothing_to_answer_from_is_a_result() -> None:
    """It says so, and cites nothing."""
    topic, said = await told(handler_of(await RagWorld(()).indexed()), "answer", {"question": QUESTION})
    assert (topic, said["answer"], said["citations"]) == ("rag_answer_result", "Nothing was found.", [])


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (LLMConnectionError("not reachable"), "llm_failed", "recoverable"),
        (LLMBlockedError("rate limit", retry_after_s=60), "llm_failed", "recoverable"),
        (LLMConfigError("set LLM_MODEL"), "llm_failed", "non_recoverable"),
        (VectorStoreError("away"), "retrieval_failed", "recoverable"),
        (VectorStoreConfigError("index first"), "retrieval_failed", "non_recoverable"),
        (PageRequestError("this address may not be read"), "retrieval_failed", "non_recoverable"),
        (KeyError(SECRET), "internal", "non_recoverable"),
    ],
)
async def test_each_cause_has_its_code(error: Exception, code: str, kind: str) -> None:
    """Recoverable is what may pass; no word of what broke inside is told."""
    of_model = not isinstance(error, (VectorStoreError, VectorStoreConfigError, PageRequestError))
    world = await RagWorld(llm=FakeLLM([error if of_model else "An answer [1]."]), pages={PAGE: error}).indexed()
    context = []
    if isinstance(error, (VectorStoreError, VectorStoreConfigError)):
        world.store.error = error
    elif not of_model:
        world = await RagWorld((), pages={PAGE: error}).indexed()
        context = [{"url": PAGE}]
    topic, said = await told(handler_of(world), "answer", {"question": QUESTION, "context": context})
    assert (topic, said["error_code"], said["error_type"]) == ("rag_failed", code, kind)
    assert SECRET not in json.dumps(said)


async def test_a_model_that_never_answers_is_the_models_failure() -> None:
    """Not a timeout of ours: who reads it knows where to look. It is told in time."""
    llm = FakeLLM(["Too late."], delay_s=30)
    handler = handler_of(await RagWorld(llm=llm).indexed(), timeout_s=1.0)
    begun = asyncio.get_running_loop().time()
    topic, said = await told(handler, "answer", {"question": QUESTION})
    assert (topic, said["error_code"], said["error_type"]) == ("rag_failed", "llm_failed", "recoverable")
    assert asyncio.get_running_loop().time() < begun + 1.0
    assert llm.running == 0


async def test_a_model_that_comes_back_within_the_deadline_answers() -> None:
    """Recoverable causes are tried again, then there is one result."""
    llm = FakeLLM([LLMConnectionError("not reachable"), f"{SESSIONS.texts[0][:-1]} [1]."])
    topic, said = await told(
        handler_of(await RagWorld(llm=llm).indexed(), timeout_s=5.0), "answer", {"question": QUESTION}
    )
    assert topic == "rag_answer_result"
    assert [each["doc_id"] for each in said["citations"]] == ["sessions"]


async def test_a_tenant_cannot_name_its_way_to_anothers_documents() -> None:
    """With KAFKA_TENANT_FIELD the filter holds for what is searched and for what is named."""
    handler = handler_of(await RagWorld((SESSIONS, SECRETS)).indexed(), tenant_field="tenant")
    request = {
        "question": "How often is the session token rotated?", "context": [{"doc_id": "secrets"}],
        "metadata": {"tenant": "acme"},
    }  # fmt: skip
    topic, said = await told(handler, "answer", request)
    assert topic == "rag_answer_result"
    assert "every night" not in json.dumps(said)
    assert "secrets" not in json.dumps(said["citations"])


@pytest.mark.parametrize(("stage", "field"), [("search", "query"), ("answer", "question")])
async def test_an_embedder_that_fails_fails_the_request(stage: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What words alone would find is told for good under that id: a recoverable failure is what the sender can act on."""
    world = await RagWorld().indexed()
    monkeypatch.setattr(world.embedder, "_error", EmbeddingError("the embedder cannot be reached"))
    topic, said = await told(handler_of(world), stage, {field: QUESTION})
    assert (topic, said["error_code"], said["error_type"]) == ("rag_failed", "embedding_failed", "recoverable")


async def test_context_answers_when_the_embedder_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sender brought suffices."""
    world = await RagWorld().indexed()
    monkeypatch.setattr(world.embedder, "_error", EmbeddingError("the embedder cannot be reached"))
    context = [{"doc_id": "d", "snippet": SESSIONS.texts[0]}]
    topic, said = await told(handler_of(world), "answer", {"question": QUESTION, "context": context})
    assert topic == "rag_answer_result"
    assert said["degraded"]
