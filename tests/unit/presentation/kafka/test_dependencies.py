"""What an operator has to mend is no outcome: the worker waits for it, says so once, and goes on by itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.rag_world import RagWorld

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
    of_models,
    of_outcomes,
    of_retrieval,
)
from modules.llm_platform.presentation.kafka.worker.handler import HandlerOptions, RagHandler, rag_handler
from modules.llm_platform.testing import FakeLLM, MemoryOutcomeStore
from modules.llm_platform.testing.patience import becomes

PATIENCE_S = 20.0
QUESTION = "How long does a session token stay valid?"
ANSWER = "A session token stays valid for thirty minutes after the last request [1]."
WRONG_KEY = LLMConfigError("kimi refuses the key (401): check KIMI_API_KEY")


class Switch:
    """A probe that raises `error` while there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return "fine"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", (0.01, 0.02))


@asynccontextmanager
async def watched(dependencies: Dependencies) -> AsyncIterator[list[bool]]:
    """What the consumer is told meanwhile: False to take nothing, True to go on."""
    told: list[bool] = []
    dependencies.taking = told.append
    watching = asyncio.create_task(dependencies.watch())
    try:
        yield told
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def request(stage: str, asked: dict[str, Any], offset: int = 0) -> IncomingRecord:
    value = json.dumps({"request_id": f"r-{offset}", **asked}).encode()
    return IncomingRecord(f"rag_{stage}_request", 0, offset, None, value)


class World:
    """The services of a worker around a small index; `model` is what the probe of the model meets, and `store` holds."""

    def __init__(self, world: RagWorld, model: Switch | None = None) -> None:
        self.world, self.store = world, MemoryOutcomeStore()
        self.model = model or Switch()
        watched = [of_outcomes(self.store), *of_retrieval(world.retrieval, world.embedder, paid=False)]
        self.dependencies = Dependencies(
            [*watched, Dependency("model", self.model, self.model, stages=frozenset({"answer"}))]
        )
        self.handler: RagHandler = rag_handler(
            world.retrieval, world.answers, self.store, HandlerOptions(timeout_s=5.0), self.dependencies
        )


async def test_a_missing_index_is_no_outcome_and_goes_on_when_it_is_made(caplog: pytest.LogCaptureFixture) -> None:
    """No request gets a failure for it; all are answered once there is an index. The log has one line for all of them."""
    raw = RagWorld()
    world = World(raw)
    async with watched(world.dependencies) as taking:
        waiting = [
            asyncio.create_task(world.handler.handle(request("search", {"query": QUESTION}, offset)))
            for offset in range(5)
        ]
        assert await becomes(lambda: taking == [False], PATIENCE_S)
        assert "there is no collection" in (world.dependencies.not_ready() or "")
        assert not any(task.done() for task in waiting)
        await raw.indexed()
        told = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    assert {each.topic for each in told} == {"rag_search_result"}
    assert taking == [False, True]
    assert world.dependencies.not_ready() is None
    stopped = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert [(entry.__dict__["dependency"], entry.__dict__["cause"]) for entry in stopped] == [
        ("index", "vector_store_config")
    ]


async def test_a_wrong_key_half_way_stops_the_taking() -> None:
    """The extractive writer does not step in, nothing is kept; with the key mended the same request is answered."""
    model = Switch()
    llm = FakeLLM([WRONG_KEY, WRONG_KEY, ANSWER])
    world = World(await RagWorld(llm=llm).indexed(), model)
    async with watched(world.dependencies) as taking:
        assert await becomes(lambda: model.asked == 1, PATIENCE_S)
        model.error = WRONG_KEY
        waiting = [
            asyncio.create_task(world.handler.handle(request("answer", {"question": QUESTION}, offset)))
            for offset in range(2)
        ]
        assert await becomes(lambda: taking == [False], PATIENCE_S)
        assert world.dependencies.not_ready() == f"model: {WRONG_KEY.message}"
        assert [await world.store.get("answer", f"r-{offset}") for offset in range(2)] == [None, None]
        model.error = None
        told = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    assert [json.loads(each.value)["answer"] for each in told] == [ANSWER, ANSWER]
    assert taking == [False, True]


async def test_another_embedders_index_is_the_operators() -> None:
    """A dimension that does not fit: the index is probed as a search uses it."""
    raw = await RagWorld().indexed()
    world, name = World(raw), raw.embedder.name
    raw.embedder.name = "another/one"
    async with watched(world.dependencies) as taking:
        waiting = asyncio.create_task(world.handler.handle(request("search", {"query": QUESTION})))
        assert await becomes(lambda: taking == [False], PATIENCE_S)
        assert "was indexed with" in (world.dependencies.not_ready() or "")
        raw.embedder.name = name
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).topic == "rag_search_result"


async def test_a_request_that_is_the_cause_itself_gets_its_failure() -> None:
    """Where a probe finds nothing wrong, twice: one request must not stop the others. The contract's failure is told."""
    llm = FakeLLM([WRONG_KEY])
    world = World(await RagWorld(llm=llm).indexed())
    async with watched(world.dependencies) as taking:
        told = json.loads((await world.handler.handle(request("answer", {"question": QUESTION}))).value)
    assert (told["error_code"], told["error_type"]) == ("llm_failed", "non_recoverable")
    assert taking == []
    assert len(llm.requests) == 2


async def test_what_is_wrong_with_a_request_is_told_meanwhile() -> None:
    """It needs nothing of what is missing; and an outcome that was promised is told again."""
    world = World(RagWorld())
    kept = await world.handler.handle(request("search", {"query": ""}))
    async with watched(world.dependencies) as taking:
        assert await becomes(lambda: taking == [False], PATIENCE_S)
        told = json.loads((await world.handler.handle(request("search", {"top_k": 0}, 7))).value)
        assert told["error_code"] == "invalid_payload"
        assert await world.handler.handle(request("search", {"query": ""})) == kept


async def test_what_may_pass_stays_an_outcome() -> None:
    """An index that cannot be reached is not the operator's: not ready, but requests are taken, and told recoverable."""
    raw = await RagWorld().indexed()
    world = World(raw)
    raw.store.error = VectorStoreError("the index cannot be reached")
    async with watched(world.dependencies) as taking:
        assert await becomes(lambda: world.dependencies.not_ready() is not None, PATIENCE_S)
        assert world.dependencies.not_ready() == "index: the index cannot be reached"
        assert taking == []
        await world.dependencies.usable()


async def test_a_store_that_cannot_be_written_stops_the_taking() -> None:
    """A full disk: what would be computed could not be kept."""
    writes = Switch(OutcomeStoreError("its disk is full"))
    dependencies = Dependencies([Dependency("outcomes", writes, writes)])
    async with watched(dependencies) as taking:
        assert await becomes(lambda: taking == [False], PATIENCE_S)
        assert dependencies.not_ready() == "outcomes: its disk is full"
        writes.error = None
        assert await becomes(lambda: taking == [False, True], PATIENCE_S)


@pytest.mark.parametrize("error", [WRONG_KEY, LLMUnavailableError("the service failed (500): try again")])
async def test_a_free_question_that_is_refused_is_no_proof(error: Exception) -> None:
    """A key that may not list models serves all the same, and so does a service without that list: a real call decides, once,
    and the free one is left alone.
    """
    listing, call = Switch(error), Switch()
    dependencies = Dependencies([Dependency("model", call, listing, every_s=0.01)])
    async with watched(dependencies) as taking:
        assert await becomes(lambda: call.asked == 1, PATIENCE_S)
        await asyncio.sleep(0.1)
        assert (taking, dependencies.not_ready()) == ([], None)
        assert (listing.asked, call.asked) == (1, 1)


async def test_a_real_call_is_made_when_something_is_wrong() -> None:
    """Probing costs nothing while all is well; what has to be mended is called until it serves, ever less often."""
    free, call = Switch(), Switch(WRONG_KEY)
    dependencies = Dependencies([Dependency("model", call, free, every_s=0.01)])
    async with watched(dependencies):
        assert await becomes(lambda: free.asked > 3, PATIENCE_S)
        assert call.asked == 0
        confirmed = asyncio.create_task(dependencies.confirm("model"))
        assert await becomes(lambda: call.asked > 3, PATIENCE_S)
        call.error = None
        assert await asyncio.wait_for(confirmed, PATIENCE_S)


async def test_a_probe_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs makes the worker not ready, and holds up no other probe."""
    monkeypatch.setattr(module, "CHECK_S", 0.01)

    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    other = Switch()
    dependencies = Dependencies([Dependency("index", hangs, hangs), Dependency("outcomes", other, other, every_s=0.01)])
    async with watched(dependencies):
        assert await becomes(lambda: dependencies.not_ready() == "index: did not answer within 0.01 s", PATIENCE_S)
        assert await becomes(lambda: other.asked > 3, PATIENCE_S)


async def test_the_last_call_counts() -> None:
    """What a free probe cannot see, a request can: a model that lists its names and fails. It counts until one is served."""
    world = World(await RagWorld(llm=FakeLLM([LLMConnectionError("overloaded", retry_after_s=600), ANSWER])).indexed())
    await world.handler.handle(request("answer", {"question": QUESTION}))
    assert world.dependencies.not_ready() == "model: overloaded"
    await world.handler.handle(request("answer", {"question": QUESTION}, 1))
    assert world.dependencies.not_ready() is None


async def test_who_stops_waits_for_nothing_to_be_mended() -> None:
    """Requests that wait, and one that fails only then, are given up: cancelled, without an outcome."""
    world = World(await RagWorld(llm=FakeLLM([WRONG_KEY], delay_s=0.2)).indexed(), Switch(WRONG_KEY))
    async with watched(world.dependencies):
        begun = asyncio.create_task(world.handler.handle(request("answer", {"question": QUESTION})))
        await asyncio.sleep(0)
        assert await becomes(lambda: world.dependencies.not_ready() is not None, PATIENCE_S)
        waits = asyncio.create_task(world.handler.handle(request("answer", {"question": QUESTION}, 1)))
        await asyncio.sleep(0.01)
        world.dependencies.give_up()
        await asyncio.wait([begun, waits], timeout=PATIENCE_S)
        assert begun.cancelled()
        assert waits.cancelled()


async def test_a_stage_needs_only_its_own() -> None:
    """Who only searches does without a model."""
    dependencies = World(RagWorld()).dependencies
    dependencies.only_for(["search"])
    assert [each.name for each in dependencies] == ["outcomes", "index", "embedder"]


@pytest.mark.parametrize(
    ("given", "must_mend"),
    [
        (WRONG_KEY, True),
        (LLMConnectionError("away"), False),
        (LLMProviderException("an empty answer"), None),
        ("ready", None),
    ],
)
async def test_a_model_that_answers_oddly_is_there(given: Any, must_mend: bool | None) -> None:
    """Sixteen tokens are too few for one that thinks first: only its key, its name and its reachability are asked for."""
    dependency = of_models(FakeLLM([given]), {})
    if must_mend is None:
        assert await dependency.call()
        return
    with pytest.raises(type(given)):
        await dependency.call()


async def test_an_embedder_that_costs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, where a wrong key shows; then the requests tell."""
    world = await RagWorld().indexed()
    monkeypatch.setattr(world.embedder, "_error", EmbeddingConfigError("the key is refused"))
    index, embedder = of_retrieval(world.retrieval, world.embedder, paid=True)
    assert index.check is not None
    assert await index.check() == await index.call()
    assert embedder.check is None
    dependencies = Dependencies([embedder])
    async with watched(dependencies) as taking:
        assert await becomes(lambda: taking == [False], PATIENCE_S)


def test_without_dependencies_nothing_stands_in_the_way() -> None:
    """A handler of one's own needs none."""
    assert Dependencies().not_ready() is None
    assert isinstance(VectorStoreConfigError(), module.MUST_MEND)
