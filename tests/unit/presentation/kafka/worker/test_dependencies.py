"""A fault that only an operator can fix has no outcome. The worker reports it once, waits, and continues by itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.support.rag_world import RagWorld

from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    LLMConfigError,
    LLMConnectionError,
    LLMProviderException,
    LLMUnavailableError,
    OutcomeStoreError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.worker import dependencies as module
from modules.llm_platform.presentation.kafka.worker.dependencies import (
    Dependencies,
    Dependency,
    make_model_dependency,
    make_outcome_store_dependency,
    make_retrieval_dependencies,
)
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler, build_rag_handler
from modules.llm_platform.testing import FakeLLM
from modules.llm_platform.testing.waiting import becomes_true

TIMEOUT_S = 60.0
QUESTION = "How long does a session token stay valid?"
ANSWER = "A session token stays valid for thirty minutes after the last request [1]."
WRONG_KEY = LLMConfigError("kimi refuses the key (401): check KIMI_API_KEY")


class ScriptedProbe:
    """A probe that raises `error` unless it is None."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "fine"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", (0.01, 0.02))


@asynccontextmanager
async def watched(dependencies: Dependencies) -> AsyncIterator[list[bool]]:
    """Watch inside the context; yield the calls of on_usable_changed."""
    changes: list[bool] = []
    dependencies.on_usable_changed = changes.append
    watching = asyncio.create_task(dependencies.watch())
    try:
        yield changes
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def request(stage: str, asked: dict[str, Any], offset: int = 0) -> IncomingRecord:
    value = json.dumps({"request_id": f"r-{offset}", **asked}).encode()
    return IncomingRecord(f"rag_{stage}_request", 0, offset, None, value)


class World:
    """The services of a worker with a small index.

    `model` is the result of the model's probe, and `store` has the outcomes.
    """

    def __init__(self, world: RagWorld, model: ScriptedProbe | None = None) -> None:
        self.world, self.store = world, MemoryOutcomeStore()
        self.model = model or ScriptedProbe()
        watched = [
            make_outcome_store_dependency(self.store),
            *make_retrieval_dependencies(world.retrieval, world.embedder, is_paid=False),
        ]
        self.dependencies = Dependencies(
            [*watched, Dependency("model", self.model, self.model, stages=frozenset({"answer"}))]
        )
        self.handler: RagHandler = build_rag_handler(
            world.retrieval, world.answers, self.store, HandlerOptions(timeout_s=30.0), self.dependencies
        )


async def test_requests_wait_for_a_missing_index(caplog: pytest.LogCaptureFixture) -> None:
    """No request fails; all are answered once the index exists. The log has one line for all of them."""
    raw = RagWorld()
    world = World(raw)
    async with watched(world.dependencies) as changes:
        waiting = [
            asyncio.create_task(world.handler.handle(request("search", {"query": QUESTION}, offset)))
            for offset in range(5)
        ]
        assert await becomes_true(lambda: changes == [False], TIMEOUT_S)
        assert "there is no collection" in (world.dependencies.not_ready() or "")
        assert not any(task.done() for task in waiting)
        await raw.indexed()
        outcome = await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
    assert {record.topic for record in outcome} == {"rag_search_result"}
    assert changes == [False, True]
    assert world.dependencies.not_ready() is None
    stopped = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert [(entry.__dict__["dependency"], entry.__dict__["cause"]) for entry in stopped] == [
        ("index", "vector_store_config")
    ]


async def test_invalid_key_suspends_consumption() -> None:
    """There is no fallback and nothing is stored; with a valid key the same request is answered."""
    model = ScriptedProbe()
    llm = FakeLLM([WRONG_KEY, WRONG_KEY, ANSWER])
    world = World(await RagWorld(llm=llm).indexed(), model)
    async with watched(world.dependencies) as changes:
        assert await becomes_true(lambda: model.calls == 1, TIMEOUT_S)
        model.error = WRONG_KEY
        waiting = [
            asyncio.create_task(world.handler.handle(request("answer", {"question": QUESTION}, offset)))
            for offset in range(2)
        ]
        assert await becomes_true(lambda: changes == [False], TIMEOUT_S)
        assert world.dependencies.not_ready() == f"model: {WRONG_KEY.message}"
        assert [await world.store.get("answer", f"r-{offset}") for offset in range(2)] == [None, None]
        model.error = None
        outcome = await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
    assert [json.loads(record.value)["answer"] for record in outcome] == [ANSWER, ANSWER]
    assert changes == [False, True]


async def test_index_of_another_embedder_suspends_consumption() -> None:
    """The index is probed as a search uses it."""
    raw = await RagWorld().indexed()
    world, name = World(raw), raw.embedder.name
    raw.embedder.name = "another/one"
    async with watched(world.dependencies) as changes:
        waiting = asyncio.create_task(world.handler.handle(request("search", {"query": QUESTION})))
        assert await becomes_true(lambda: changes == [False], TIMEOUT_S)
        assert "was indexed with" in (world.dependencies.not_ready() or "")
        raw.embedder.name = name
        assert (await asyncio.wait_for(waiting, TIMEOUT_S)).topic == "rag_search_result"


async def test_request_that_causes_the_error_fails() -> None:
    """When a probe finds no error, the request must not block the others."""
    llm = FakeLLM([WRONG_KEY])
    world = World(await RagWorld(llm=llm).indexed())
    async with watched(world.dependencies) as changes:
        outcome = json.loads((await world.handler.handle(request("answer", {"question": QUESTION}))).value)
    assert (outcome["error_code"], outcome["error_type"]) == ("llm_failed", "non_recoverable")
    assert changes == []
    assert len(llm.requests) == 2


async def test_invalid_request_fails_during_a_repair() -> None:
    """It needs no dependency; a stored outcome is repeated too."""
    world = World(RagWorld())
    kept = await world.handler.handle(request("search", {"query": ""}))
    async with watched(world.dependencies) as changes:
        assert await becomes_true(lambda: changes == [False], TIMEOUT_S)
        outcome = json.loads((await world.handler.handle(request("search", {"top_k": 0}, 7))).value)
        assert outcome["error_code"] == "invalid_payload"
        assert await world.handler.handle(request("search", {"query": ""})) == kept


async def test_recoverable_error_does_not_suspend_consumption() -> None:
    """The worker is not ready, and requests are consumed and fail as recoverable."""
    raw = await RagWorld().indexed()
    world = World(raw)
    raw.store.error = VectorStoreError("the index cannot be reached")
    async with watched(world.dependencies) as changes:
        assert await becomes_true(lambda: world.dependencies.not_ready() is not None, TIMEOUT_S)
        assert world.dependencies.not_ready() == "index: the index cannot be reached"
        assert changes == []
        await world.dependencies.wait_until_usable()


async def test_unwritable_outcome_store_suspends_consumption() -> None:
    """With a full disk no outcome could be stored."""
    writes = ScriptedProbe(OutcomeStoreError("its disk is full"))
    dependencies = Dependencies([Dependency("outcomes", writes, writes)])
    async with watched(dependencies) as changes:
        assert await becomes_true(lambda: changes == [False], TIMEOUT_S)
        assert dependencies.not_ready() == "outcomes: its disk is full"
        writes.error = None
        assert await becomes_true(lambda: changes == [False, True], TIMEOUT_S)


@pytest.mark.parametrize("error", [WRONG_KEY, LLMUnavailableError("the service failed (500): try again")])
async def test_refused_check_is_replaced_by_a_call(error: Exception) -> None:
    """A key that may not list models, or a service without that list, may serve requests: a call decides once."""
    listing, call, other = ScriptedProbe(error), ScriptedProbe(), ScriptedProbe()
    model = Dependency("model", call, listing, interval_s=0.01)
    dependencies = Dependencies([model, Dependency("index", other, other, interval_s=0.01)])
    async with watched(dependencies) as changes:
        assert await becomes_true(lambda: call.calls == 1 and other.calls > 5, TIMEOUT_S)
        assert (changes, dependencies.not_ready()) == ([], None)
        assert (listing.calls, call.calls) == (1, 1)


async def test_failed_dependency_is_probed_by_calls() -> None:
    """A working one is only checked; a failed one is called with a growing backoff until it works."""
    free, call = ScriptedProbe(), ScriptedProbe(WRONG_KEY)
    dependencies = Dependencies([Dependency("model", call, free, interval_s=0.01)])
    async with watched(dependencies):
        assert await becomes_true(lambda: free.calls > 3, TIMEOUT_S)
        assert call.calls == 0
        confirmed = asyncio.create_task(dependencies.confirm_failure("model"))
        assert await becomes_true(lambda: call.calls > 3, TIMEOUT_S)
        call.error = None
        assert await asyncio.wait_for(confirmed, TIMEOUT_S)


async def test_probe_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging probe makes the worker unready and blocks no other probe."""
    monkeypatch.setattr(module, "CHECK_TIMEOUT_S", 0.01)

    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    other = ScriptedProbe()
    dependencies = Dependencies(
        [Dependency("index", hangs, hangs), Dependency("outcomes", other, other, interval_s=0.01)]
    )
    async with watched(dependencies):
        assert await becomes_true(lambda: dependencies.not_ready() == "index: did not answer within 0.01 s", TIMEOUT_S)
        assert await becomes_true(lambda: other.calls > 3, TIMEOUT_S)


async def test_failed_request_makes_the_worker_unready() -> None:
    """Until a request succeeds."""
    world = World(await RagWorld(llm=FakeLLM([LLMConnectionError("overloaded", retry_after_s=600), ANSWER])).indexed())
    await world.handler.handle(request("answer", {"question": QUESTION}))
    assert world.dependencies.not_ready() == "model: overloaded"
    await world.handler.handle(request("answer", {"question": QUESTION}, 1))
    assert world.dependencies.not_ready() is None


async def test_stop_cancels_requests_that_wait_for_a_repair() -> None:
    """They have no outcome."""
    world = World(await RagWorld(llm=FakeLLM([WRONG_KEY], delay_s=0.2)).indexed(), ScriptedProbe(WRONG_KEY))
    async with watched(world.dependencies):
        begun = asyncio.create_task(world.handler.handle(request("answer", {"question": QUESTION})))
        await asyncio.sleep(0)
        assert await becomes_true(lambda: world.dependencies.not_ready() is not None, TIMEOUT_S)
        waits = asyncio.create_task(world.handler.handle(request("answer", {"question": QUESTION}, 1)))
        await asyncio.sleep(0.01)
        world.dependencies.stop_waiting()
        await asyncio.wait([begun, waits], timeout=TIMEOUT_S)
        assert begun.cancelled()
        assert waits.cancelled()


async def test_dependencies_are_restricted_to_stages() -> None:
    """A worker that only searches needs no model."""
    dependencies = World(RagWorld()).dependencies
    dependencies.restrict_to(["search"])
    assert [dependency.name for dependency in dependencies] == ["outcomes", "index", "embedder"]


@pytest.mark.parametrize(
    ("given", "needs_operator"),
    [
        (WRONG_KEY, True),
        (LLMConnectionError("away"), False),
        (LLMProviderException("an empty answer"), None),
        ("ready", None),
    ],
)
async def test_model_probe_accepts_an_empty_answer(given: Any, needs_operator: bool | None) -> None:
    """Only the key, the name and the connection are probed."""
    dependency = make_model_dependency(FakeLLM([given]), {})
    if needs_operator is None:
        assert await dependency.call()
        return
    with pytest.raises(type(given)):
        await dependency.call()


async def test_paid_embedder_is_called_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later errors show in requests."""
    world = await RagWorld().indexed()
    monkeypatch.setattr(world.embedder, "_error", EmbeddingConfigError("the key is refused"))
    index, embedder = make_retrieval_dependencies(world.retrieval, world.embedder, is_paid=True)
    assert index.check is not None
    assert await index.check() == await index.call()
    assert embedder.check is None
    dependencies = Dependencies([embedder])
    async with watched(dependencies) as changes:
        assert await becomes_true(lambda: changes == [False], TIMEOUT_S)


def test_no_dependencies_are_ready() -> None:
    """A custom handler needs none."""
    assert Dependencies().not_ready() is None
    assert isinstance(VectorStoreConfigError(), module.OPERATOR_ERRORS)
