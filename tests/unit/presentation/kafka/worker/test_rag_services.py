"""Requests as bytes through the real services: each cause gets its code, whatever failed beneath."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.support.cases import for_each
from tests.support.rag_world import SECRETS, SESSIONS, RagWorld
from tests.support.virtual_time import in_virtual_time

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
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler, build_rag_handler
from modules.llm_platform.testing import FakeLLM

QUESTION = "How long does a session token stay valid?"
PAGE = "http://127.0.0.1/admin"
SECRET = "sk-never-tell-anybody"


def handler_of(world: RagWorld, **options: Any) -> RagHandler:
    return build_rag_handler(
        world.retrieval, world.answers, MemoryOutcomeStore(), HandlerOptions(**{"timeout_s": 30.0, **options})
    )


async def outcome_of(handler: RagHandler, stage: str, request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the topic and the content of the outcome."""
    value = json.dumps({"request_id": "r-1", **request}).encode()
    outcome = await handler.handle(IncomingRecord(f"rag_{stage}_request", 0, 0, b"key", value))
    return outcome.topic, json.loads(outcome.value)


async def test_search_returns_indexed_documents() -> None:
    """One hit for each document, its best passage as snippet."""
    topic, said = await outcome_of(handler_of(await RagWorld().indexed()), "search", {"query": QUESTION, "top_k": 1})
    assert topic == "rag_search_result"
    (hit,) = said["hits"]
    assert (hit["doc_id"], hit["snippet"], hit["url"]) == ("sessions", SESSIONS.texts[0], SESSIONS.url)
    assert 0 < hit["score"] <= 1


async def test_search_result_is_valid_context() -> None:
    """The two stages fit: hits go in as they came out."""
    handler = handler_of(await RagWorld().indexed())
    _, found = await outcome_of(handler, "search", {"query": QUESTION})
    topic, said = await outcome_of(handler, "answer", {"question": QUESTION, "context": found["hits"]})
    assert topic == "rag_answer_result"
    assert said["answer"] == "A session token stays valid for thirty minutes after the last request [1]."
    assert said["citations"] == [{"doc_id": "sessions", "title": "Sessions", "url": SESSIONS.url}]


async def test_context_is_enough_without_the_index() -> None:
    """The result says that the index was missing."""
    world = await RagWorld().indexed()
    world.store.error = VectorStoreError("the index cannot be reached")
    topic, said = await outcome_of(
        handler_of(world), "answer", {"question": QUESTION, "context": [{"doc_id": "d", "snippet": SESSIONS.texts[0]}]}
    )
    assert topic == "rag_answer_result"
    assert said["citations"] == [{"doc_id": "d"}]
    assert said["degraded"] == [{"component": "index", "reason": "vector_store: the index cannot be reached"}]


async def test_question_without_evidence_has_a_result() -> None:
    """The result says so and has no citations."""
    topic, said = await outcome_of(handler_of(await RagWorld(()).indexed()), "answer", {"question": QUESTION})
    assert (topic, said["answer"], said["citations"]) == ("rag_answer_result", "Nothing was found.", [])


@in_virtual_time
@for_each(
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
async def test_each_cause_has_its_error_code(error: Exception, code: str, kind: str) -> None:
    """An error is recoverable if it may pass. The message contains no internal detail."""
    of_model = not isinstance(error, (VectorStoreError, VectorStoreConfigError, PageRequestError))
    world = await RagWorld(llm=FakeLLM([error if of_model else "An answer [1]."]), pages={PAGE: error}).indexed()
    context = []
    if isinstance(error, (VectorStoreError, VectorStoreConfigError)):
        world.store.error = error
    elif not of_model:
        world = await RagWorld((), pages={PAGE: error}).indexed()
        context = [{"url": PAGE}]
    topic, said = await outcome_of(handler_of(world), "answer", {"question": QUESTION, "context": context})
    assert (topic, said["error_code"], said["error_type"]) == ("rag_failed", code, kind)
    assert SECRET not in json.dumps(said)


@in_virtual_time
async def test_hanging_model_is_an_llm_failure() -> None:
    """The code names the model instead of a timeout, so the reader knows where to look. The failure is sent in time."""
    llm = FakeLLM(["Too late."], delay_s=30)
    handler = handler_of(await RagWorld(llm=llm).indexed(), timeout_s=1.0)
    begun = asyncio.get_running_loop().time()
    topic, said = await outcome_of(handler, "answer", {"question": QUESTION})
    assert (topic, said["error_code"], said["error_type"]) == ("rag_failed", "llm_failed", "recoverable")
    assert asyncio.get_running_loop().time() < begun + 1.0
    assert llm.running == 0


@in_virtual_time
async def test_model_that_recovers_before_the_deadline_answers() -> None:
    """Recoverable causes are tried again, then there is one result."""
    llm = FakeLLM([LLMConnectionError("not reachable"), f"{SESSIONS.texts[0][:-1]} [1]."])
    topic, said = await outcome_of(
        handler_of(await RagWorld(llm=llm).indexed(), timeout_s=30.0), "answer", {"question": QUESTION}
    )
    assert topic == "rag_answer_result"
    assert [citation["doc_id"] for citation in said["citations"]] == ["sessions"]


async def test_tenant_cannot_select_documents_of_another() -> None:
    """With KAFKA_TENANT_FIELD the filter applies to searched and to named documents."""
    handler = handler_of(await RagWorld((SESSIONS, SECRETS)).indexed(), tenant_field="tenant")
    request = {
        "question": "How often is the session token rotated?",
        "context": [{"doc_id": "secrets"}],
        "metadata": {"tenant": "acme"},
    }
    topic, said = await outcome_of(handler, "answer", request)
    assert topic == "rag_answer_result"
    assert "every night" not in json.dumps(said)
    assert "secrets" not in json.dumps(said["citations"])


@pytest.mark.parametrize(("stage", "field"), [("search", "query"), ("answer", "question")])
@in_virtual_time
async def test_failed_embedder_fails_the_request(stage: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyword result would be stored for good under the id, so the failure is recoverable and the sender can retry."""
    world = await RagWorld().indexed()
    monkeypatch.setattr(world.embedder, "_error", EmbeddingError("the embedder cannot be reached"))
    topic, said = await outcome_of(handler_of(world), stage, {field: QUESTION})
    assert (topic, said["error_code"], said["error_type"]) == ("rag_failed", "embedding_failed", "recoverable")


async def test_context_is_enough_without_the_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sender brought suffices."""
    world = await RagWorld().indexed()
    monkeypatch.setattr(world.embedder, "_error", EmbeddingError("the embedder cannot be reached"))
    context = [{"doc_id": "d", "snippet": SESSIONS.texts[0]}]
    topic, said = await outcome_of(handler_of(world), "answer", {"question": QUESTION, "context": context})
    assert topic == "rag_answer_result"
    assert said["degraded"]
