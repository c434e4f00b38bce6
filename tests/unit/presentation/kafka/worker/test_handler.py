"""One outcome for each request, and its retries."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.fakes.schema_registry import MemorySchemaRegistry
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import (
    FailedRequest,
    Hit,
    Outcome,
    RagAnswer,
    RagCitation,
    RagHits,
    RagQuestion,
    RagSearch,
    RagStage,
)
from modules.llm_platform.domain.exceptions import (
    EmbeddingError,
    LLMBlockedError,
    LLMConnectionError,
    OutcomeStoreError,
    VectorStoreConfigError,
    VectorStoreError,
)
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord, OutgoingRecord
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS
from modules.llm_platform.presentation.kafka.contract.wire_format import MessageSchemas
from modules.llm_platform.presentation.kafka.worker.handler import (
    RETRY_JITTER,
    RETRY_WAITS_S,
    Answer,
    HandlerOptions,
    RagHandler,
    Search,
    retry_until_deadline,
)
from modules.llm_platform.testing.waiting import becomes_true
from shared.exceptions import AppException

KEY, HEADERS = b"\xff key", (("traceparent", b"00-4bf9"), ("tenant", b"acme"), ("tenant", None))
REUSED = ("request_id_reused", b"true")
HIT = Hit(doc_id="doc-10", score=0.92, title="Using vector databases", snippet="Vector stores …", source="blog")
SEARCH = {"request_id": "search-001", "query": "vector databases"}
LARGE_METADATA = {"padding": "x" * 5000}
QUESTION = {"request_id": "answer-001", "question": "How?"}


@dataclass
class ScriptedStages:
    """Stages that return these outcomes in turn, and then repeat the last one. Exceptions are raised."""

    results: list[Any] = field(default_factory=lambda: [RagHits(hits=(HIT,))])
    requests: list[RagSearch | RagQuestion] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def run(self, request: RagSearch | RagQuestion) -> Any:
        self.requests.append(request)
        if self.gate is not None:
            await self.gate.wait()
        given = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(given, BaseException):
            raise given
        return given


class FakeSleep(list[float]):
    """Records the waits, and takes no time."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def handler_of(stages: ScriptedStages, store: MemoryOutcomeStore | None = None, **more: Any) -> RagHandler:
    search: Search = stages.run
    answer: Answer = stages.run
    return RagHandler(search, answer, store or MemoryOutcomeStore(), **{"sleep": FakeSleep(), **more})


def record(value: Any, stage: RagStage = "search", offset: int = 0) -> IncomingRecord:
    data = value if isinstance(value, (bytes, type(None))) else json.dumps(value, ensure_ascii=False).encode()
    return IncomingRecord(f"rag_{stage}_request", 2, offset, KEY, data, HEADERS)


def body(outcome: OutgoingRecord) -> dict[str, Any]:
    found = json.loads(outcome.value)
    assert isinstance(found, dict)
    return found


async def test_large_requests_do_not_block_others() -> None:
    """Parsing a full window of large requests takes seconds, so other requests and `/ready` run in between."""
    handler, turns = handler_of(ScriptedStages()), 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    large = [record({**SEARCH, "request_id": f"r{number}", "metadata": {"a": "x" * 200_000}}) for number in range(20)]
    jobs = await handler.prepare(large)
    others.cancel()
    assert [job.request_id for job in jobs] == [f"r{number}" for number in range(20)]
    assert turns >= len(large) - 1


async def test_failed_request_is_stored_with_its_header_of_a_schema_registry() -> None:
    """A replay sends the bytes that came: other readers of the topic need the id of the schema. The hash leaves it out."""
    schemas = MessageSchemas(MemorySchemaRegistry(), CONTRACT_TOPICS, registers=True)
    await schemas.load(("search",))
    kept: list[FailedRequest] = []

    async def keep(request: FailedRequest) -> None:
        kept.append(request)

    plain = json.dumps(SEARCH).encode()
    options, stages = HandlerOptions(schemas=schemas), ScriptedStages([EmbeddingError("away")])
    handler = handler_of(stages, options=options, keep_failed=keep)
    first = await handler.handle(record(b"\0\0\0\0\7" + plain))
    again = await handler.handle(record(plain))
    assert [request.value for request in kept] == [b"\0\0\0\0\7" + plain]
    assert first == again
    assert REUSED not in again.headers


class TestOutcomes:
    """The messages of the contract."""

    async def test_search_result(self) -> None:
        """In its topic, with the request's key and headers, without absent fields."""
        ticks = iter((10.0, 10.1204))
        handler = handler_of(ScriptedStages(), clock=lambda: next(ticks))
        value = {**SEARCH, "trace_id": "trace-abc", "metadata": {"tenant": "acme"}, "unknown": 1}
        outcome = await handler.handle(record(value))
        hit = {name: getattr(HIT, name) for name in ("doc_id", "score", "title", "snippet", "source")}
        assert body(outcome) == {
            "request_id": "search-001",
            "trace_id": "trace-abc",
            "hits": [hit],
            "latency_ms": 120,
            "metadata": {"tenant": "acme"},
        }
        assert (outcome.topic, outcome.key, outcome.headers) == ("rag_search_result", KEY, HEADERS)

    async def test_answer_result(self) -> None:
        """With its citations and degraded components."""
        cited = RagCitation(
            doc_id="doc-10", title="Using vector databases", url="https://example.com/blog/vector", page=3
        )
        late = Degraded(component="index", reason="vector_store: not reachable")
        given = RagAnswer(answer="Run it. [1]", citations=(cited, RagCitation(doc_id="b")), degraded=(late,))
        outcome = await handler_of(ScriptedStages([given])).handle(record(QUESTION, "answer"))
        found = body(outcome)
        assert found.pop("latency_ms") >= 0
        assert found == {
            "request_id": "answer-001",
            "answer": "Run it. [1]",
            "citations": [cited.model_dump(), {"doc_id": "b"}],
            "degraded": [{"component": "index", "reason": "vector_store: not reachable"}],
        }
        assert outcome.topic == "rag_answer_result"

    async def test_failure(self) -> None:
        """The example of the contract."""
        value = {"request_id": "search-001", "trace_id": "trace-abc", "metadata": {"tenant": "acme"}}
        outcome = await handler_of(ScriptedStages()).handle(record(value))
        assert body(outcome) == {
            "request_id": "search-001",
            "trace_id": "trace-abc",
            "stage": "search",
            "error_type": "non_recoverable",
            "error_code": "invalid_payload",
            "error_message": "query is empty or missing",
            "details": {"field": "query", "reason": "empty_or_missing"},
            "metadata": {"tenant": "acme"},
        }
        assert (outcome.topic, outcome.key, outcome.headers) == ("rag_failed", KEY, HEADERS)

    async def test_request_without_readable_id_is_not_stored(self) -> None:
        """Its failure carries an id made of the record's position."""
        store = MemoryOutcomeStore()
        handler = handler_of(ScriptedStages(), store)
        outcome = await handler.handle(record(b"{", "answer", offset=17))
        assert body(outcome)["request_id"] == "unparsable:rag_answer_request-2-17"
        assert await store.get("answer", body(outcome)["request_id"]) is None
        assert await handler.handle(record(b"{", "answer", offset=17)) == outcome
        assert handler.counters.outcomes == {("answer", "invalid_payload"): 2}

    async def test_body_is_utf8(self) -> None:
        """Half a surrogate pair is replaced."""
        stages = ScriptedStages([RagAnswer(answer="Größe 漢字 🙂 \ud800.")])
        outcome = await handler_of(stages).handle(record({**QUESTION, "request_id": "é"}, "answer"))
        assert "Größe 漢字 🙂 ?.".encode() in outcome.value
        assert body(outcome)["request_id"] == "é"

    async def test_unknown_topic_raises_key_error(self) -> None:
        """The worker subscribes to request topics only."""
        with pytest.raises(KeyError):
            await handler_of(ScriptedStages()).handle(replace(record(SEARCH), topic="other"))


class TestDuplicates:
    """The same id, per stage, is the same request."""

    @pytest.mark.parametrize("first", [RagHits(hits=(HIT,)), VectorStoreConfigError("run llm-platform index")])
    async def test_duplicate_gets_the_stored_outcome(self, first: Any) -> None:
        """Byte for byte, results and failures, also from another worker; the stage runs once."""
        store, stages = MemoryOutcomeStore(), ScriptedStages([first, RagHits(hits=())])
        one, other = handler_of(stages, store), handler_of(stages, store)
        outcome = await one.handle(record(SEARCH))
        again = replace(record(SEARCH, offset=9), key=None, headers=(("traceparent", b"another"),))
        for handler in (one, other):
            assert await handler.handle(again) == replace(outcome, key=None, headers=again.headers)
        assert len(stages.requests) == 1
        assert other.counters.duplicates == {"search": 1}
        assert not other.counters.outcomes
        assert not one.counters.reused_ids

    async def test_reused_id_gets_the_stored_outcome_and_a_header(self, caplog: pytest.LogCaptureFixture) -> None:
        """The log counts it and shows no payload."""
        handler = handler_of(ScriptedStages())
        outcome = await handler.handle(record(SEARCH))
        other = {**SEARCH, "query": "secret question"}
        with caplog.at_level(logging.WARNING):
            again = await handler.handle(record(other))
        assert again == replace(outcome, headers=(*HEADERS, REUSED))
        assert handler.counters.reused_ids == {"search": 1}
        assert [entry.message for entry in caplog.records if "request_id_reused" in entry.message]
        assert "secret" not in caplog.text

    @pytest.mark.parametrize("broken", [{"query": ""}, {"top_k": 0}])
    async def test_invalid_payload_of_a_stored_id_gets_the_stored_outcome(self, broken: dict[str, Any]) -> None:
        """An invalid payload with a stored id gets the stored outcome instead of a failure."""
        handler = handler_of(ScriptedStages())
        outcome = await handler.handle(record(SEARCH))
        assert (await handler.handle(record({**SEARCH, **broken}))).value == outcome.value

    async def test_stages_have_separate_ids(self) -> None:
        """A search and a question may share an id."""
        handler = handler_of(ScriptedStages([RagHits(hits=()), RagAnswer(answer="yes")]))
        assert body(await handler.handle(record({**SEARCH, "request_id": "a"})))["hits"] == []
        assert body(await handler.handle(record({**QUESTION, "request_id": "a"}, "answer")))["answer"] == "yes"

    async def test_tenants_have_separate_ids(self) -> None:
        """In the store and in flight."""
        stages = ScriptedStages([RagHits(hits=(HIT,)), RagHits(hits=())], gate=asyncio.Event())
        store = MemoryOutcomeStore()
        handler = handler_of(stages, store, options=HandlerOptions(tenant_field="tenant"))
        acme, globex = (record({**SEARCH, "metadata": {"tenant": name}}) for name in ("acme", "globex"))
        tasks = [asyncio.ensure_future(handler.handle(record)) for record in (acme, globex, acme, globex)]
        assert await becomes_true(lambda: len(stages.requests) == 2, 5)
        assert stages.gate
        stages.gate.set()
        first, second, *again = await asyncio.gather(*tasks)
        assert again == [first, second]
        assert len(body(first)["hits"]) == 1
        assert body(second)["hits"] == []
        assert [requests.filters for requests in stages.requests] == [{"tenant": ("acme",)}, {"tenant": ("globex",)}]
        other = handler_of(ScriptedStages(), store, options=HandlerOptions(tenant_field="tenant"))
        assert [await other.handle(acme), await other.handle(globex)] == [first, second]
        assert not other.counters.reused_ids

    async def test_failure_belongs_to_its_tenant(self) -> None:
        """Also when other fields are invalid."""
        handler = handler_of(ScriptedStages(), options=HandlerOptions(tenant_field="tenant"))
        broken = record({**SEARCH, "query": "", "metadata": {"tenant": "acme"}})
        outcome = await handler.handle(broken)
        assert body(outcome)["details"]["reason"] == "empty_or_missing"
        good = await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}}))
        assert good == replace(outcome, headers=(*HEADERS, REUSED))
        assert body(await handler.handle(record({**SEARCH, "metadata": {"tenant": "globex"}})))["hits"]

    @for_each("metadata", [None, {}, {"tenant": ""}, {"tenant": 5}, {"tenant": "x" * 1001}])
    async def test_request_without_tenant_is_refused_and_not_stored(self, metadata: Any) -> None:
        """No stage runs, and it gets no stored outcome."""
        stages = ScriptedStages()
        handler = handler_of(stages, options=HandlerOptions(tenant_field="tenant"))
        good = await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}}))
        nobody = record({**SEARCH, "metadata": metadata, "trace_id": "mine"})
        refused = await handler.handle(nobody)
        assert body(refused)["error_code"] == "invalid_payload"
        assert body(refused)["details"]["path"] == "metadata.tenant"
        assert await handler.handle(nobody) == refused
        assert body(await handler.handle(record({**SEARCH, "metadata": metadata}))).get("trace_id") is None
        assert len(stages.requests) == 1
        assert await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}})) == good

    async def test_metadata_has_no_tenant_without_the_setting(self) -> None:
        """An id is one id for all tenants."""
        handler = handler_of(ScriptedStages())
        outcome = await handler.handle(record({**SEARCH, "metadata": {"tenant": "acme"}}))
        again = await handler.handle(record({**SEARCH, "metadata": {"tenant": "globex"}}))
        assert again == replace(outcome, headers=(*HEADERS, REUSED))

    async def test_reused_header_of_a_request_is_removed(self) -> None:
        """A client may forward the headers of an outcome."""
        forged = replace(record(SEARCH), headers=(REUSED, ("x", b"1")))
        assert (await handler_of(ScriptedStages()).handle(forged)).headers == (("x", b"1"),)

    async def test_duplicates_in_flight_share_one_run(self) -> None:
        """All get the same outcome."""
        stages = ScriptedStages(gate=asyncio.Event())
        handler = handler_of(stages)
        values: Sequence[Any] = (SEARCH, SEARCH, {**SEARCH, "query": "other"})
        tasks = [asyncio.ensure_future(handler.handle(record(value))) for value in values]
        assert await becomes_true(lambda: bool(stages.requests), 1)
        assert stages.gate
        stages.gate.set()
        first, same, other = await asyncio.gather(*tasks)
        assert len(stages.requests) == 1
        assert first == same
        assert other == replace(first, headers=(*HEADERS, REUSED))

    async def test_duplicate_takes_over_from_a_cancelled_request(self) -> None:
        """Partitions move while a request runs."""
        stages = ScriptedStages(gate=asyncio.Event())
        handler = handler_of(stages)
        tasks = [asyncio.ensure_future(handler.handle(record(SEARCH, offset=number))) for number in range(4)]
        assert await becomes_true(lambda: len(stages.requests) == 1, 1)
        for position in (0, 2):
            tasks[position].cancel()
        assert await becomes_true(lambda: len(stages.requests) == 2, 1)
        assert stages.gate
        stages.gate.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(outcome, asyncio.CancelledError) for outcome in ended] == [True, False, True, False]
        assert ended[1] == ended[3]
        assert len(stages.requests) == 2

    async def test_duplicate_that_takes_over_looks_for_the_outcome_again(self) -> None:
        """While it waited, another worker may have stored one: that is returned, and no stage runs a second time."""
        store, stages = MemoryOutcomeStore(), ScriptedStages(gate=asyncio.Event())
        handler = handler_of(stages, store)
        first, waiting = (asyncio.ensure_future(handler.handle(record(SEARCH, offset=number))) for number in range(2))
        assert await becomes_true(lambda: bool(stages.requests), 1)
        outcome = await handler_of(ScriptedStages([RagHits(hits=())]), store).handle(record(SEARCH, offset=1))
        first.cancel()
        assert stages.gate
        stages.gate.set()
        assert await waiting == outcome
        assert len(stages.requests) == 1
        assert handler.counters.duplicates == {"search": 1}

    async def test_concurrent_workers_return_the_same_outcome(self) -> None:
        """Both compute; the store decides."""
        store = MemoryOutcomeStore()
        slow, quick = ScriptedStages(gate=asyncio.Event()), ScriptedStages([RagHits(hits=())])
        behind = handler_of(slow, store)
        task = asyncio.ensure_future(behind.handle(record(SEARCH)))
        assert await becomes_true(lambda: bool(slow.requests), 1)
        outcome = await handler_of(quick, store).handle(record(SEARCH))
        assert slow.gate
        slow.gate.set()
        assert await task == outcome
        assert body(outcome)["hits"] == []
        assert behind.counters.duplicates == {"search": 1}

    async def test_cancelled_request_stores_nothing(self) -> None:
        """It is handled like a new one when it is read again."""
        stages, store = ScriptedStages(gate=asyncio.Event()), MemoryOutcomeStore()
        handler = handler_of(stages, store)
        task = asyncio.ensure_future(handler.handle(record(SEARCH)))
        assert await becomes_true(lambda: bool(stages.requests), 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.get("search", "search-001") is None
        stages.gate = None
        assert (await handler.handle(record(SEARCH))).topic == "rag_search_result"


class TestFailures:
    """Failures of stages and of the store."""

    async def test_recoverable_error_is_retried(self) -> None:
        """Within the deadline, with growing waits."""
        waits, stages = FakeSleep(), ScriptedStages([VectorStoreError(), EmbeddingError(), RagHits(hits=())])
        outcome = await handler_of(stages, sleep=waits).handle(record(SEARCH))
        assert outcome.topic == "rag_search_result"
        assert len(waits) == 2
        assert waits[0] < waits[1]

    async def test_last_error_is_the_failure(self) -> None:
        """After all retries."""
        stages = ScriptedStages([LLMConnectionError("the model is not reachable: try again")])
        found = body(await handler_of(stages).handle(record(QUESTION, "answer")))
        assert (found["error_code"], found["error_type"]) == ("llm_failed", "recoverable")
        assert found["error_message"] == "the model is not reachable: try again"
        assert found["details"] == {"cause": "llm_connection"}
        assert len(stages.requests) == 5

    async def test_what_cannot_be_recovered_is_not_tried_again(self) -> None:
        """A missing setting stays missing."""
        stages = ScriptedStages([VectorStoreConfigError("run llm-platform index")])
        found = body(await handler_of(stages).handle(record(SEARCH)))
        assert (found["error_code"], found["error_type"]) == ("retrieval_failed", "non_recoverable")
        assert len(stages.requests) == 1

    async def test_hanging_stage_times_out(self) -> None:
        """A stage that hangs is given up."""
        stages = ScriptedStages(gate=asyncio.Event())
        found = body(await handler_of(stages, options=HandlerOptions(timeout_s=0.02)).handle(record(SEARCH)))
        assert (found["error_code"], found["error_type"]) == ("timeout", "recoverable")

    @pytest.mark.parametrize(
        "bug", [KeyError("sk-secret"), RecursionError("sk-secret"), asyncio.CancelledError("sk-secret")]
    )
    async def test_defect_of_a_stage_is_an_internal_failure(
        self, bug: BaseException, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The log has the traceback, the outcome has no details. The next request is answered."""
        handler = handler_of(ScriptedStages([bug, RagHits(hits=())]))
        found = body(await handler.handle(record(SEARCH)))
        assert (found["error_code"], found["error_type"]) == ("internal", "non_recoverable")
        assert "sk-secret" not in json.dumps(found)
        assert "Traceback" in caplog.text
        assert (await handler.handle(record({**SEARCH, "request_id": "b"}))).topic == "rag_search_result"

    @pytest.mark.parametrize("score", [float("nan"), float("inf")])
    async def test_non_finite_score_is_an_internal_failure(self, score: float) -> None:
        """JSON cannot represent it."""
        stages = ScriptedStages([RagHits(hits=(Hit(doc_id="a", score=score),))])
        handler = handler_of(stages)
        assert body(await handler.handle(record(SEARCH)))["error_code"] == "internal"
        assert handler.counters.outcomes == {("search", "internal"): 1}

    async def test_failed_outcome_store_is_waited_for(self) -> None:
        """Before the stage runs and before the outcome is returned; nothing is computed twice."""
        waits, stages, store = FakeSleep(), ScriptedStages(), FlakyStore([True, True, True, False, True, False])
        handler = handler_of(stages, store, sleep=waits)
        outcome = await handler.handle(record(SEARCH))
        assert await store.get("search", "search-001") is not None
        assert outcome.topic == "rag_search_result"
        assert (len(waits), handler.counters.store_waits, len(stages.requests)) == (3, 3, 1)

    async def test_failed_request_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """With id, trace and cause; a warning where only the operator can repair it."""
        caplog.set_level(logging.INFO)
        handler = handler_of(ScriptedStages([VectorStoreConfigError("index first"), EmbeddingError("away")]))
        for number in range(2):
            await handler.handle(record({**SEARCH, "request_id": f"r-{number}", "trace_id": "trace-abc"}))
        await handler.handle(record({"request_id": "r-2", "trace_id": "t" * 5000}))
        lines = [entry for entry in caplog.records if entry.message == "a request failed"]
        assert [(line.levelname, line.__dict__["request_id"], line.__dict__["cause"]) for line in lines] == [
            ("WARNING", "r-0", "vector_store_config"),
            ("INFO", "r-1", "embedding"),
            ("INFO", "r-2", "empty_or_missing"),
        ]
        assert {line.__dict__["trace_id"][:200] for line in lines} == {"trace-abc", "t" * 200}
        assert len(lines[2].__dict__["trace_id"]) == 200
        assert lines[0].__dict__["reason"] == "index first"

    async def test_reused_id_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """With its trace."""
        handler = handler_of(ScriptedStages())
        await handler.handle(record(SEARCH))
        await handler.handle(record({**SEARCH, "trace_id": "second"}))
        [line] = [entry for entry in caplog.records if "request_id_reused" in entry.message]
        assert (line.__dict__["request_id"], line.__dict__["trace_id"]) == ("search-001", "second")

    async def test_failed_outcome_store_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """With the id of one waiting request; its end is logged too."""
        caplog.set_level(logging.INFO)
        handler = handler_of(ScriptedStages(), FlakyStore([True] * 25), sleep=FakeSleep())
        await asyncio.gather(*(handler.handle(record({**SEARCH, "request_id": f"r-{n}"})) for n in range(5)))
        lines = [entry for entry in caplog.records if "outcome store" in entry.message]
        assert [(line.levelname, line.message) for line in lines] == [
            ("WARNING", "the outcome store fails: requests wait for it"),
            ("INFO", "the outcome store works again"),
        ]
        assert lines[0].__dict__["request_id"] == "r-0"
        assert handler.counters.store_waits > 5


class FlakyStore(MemoryOutcomeStore):
    """Fails in the calls that it is outcome to."""

    def __init__(self, fails: list[bool]) -> None:
        super().__init__()
        self._fails = fails

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        self._fail_if_scripted()
        return await super().get(stage, request_id, tenant)

    async def put_if_absent(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        self._fail_if_scripted()
        return await super().put_if_absent(outcomes)

    def _fail_if_scripted(self) -> None:
        if self._fails and self._fails.pop(0):
            raise OutcomeStoreError


class TestSizes:
    """Outcomes that exceed the limit of their topic."""

    def handler(self, stages: ScriptedStages, **limits: int) -> RagHandler:
        return handler_of(stages, options=HandlerOptions(max_record_bytes=limits))

    async def test_oversized_result_is_a_failure(self) -> None:
        """Without the metadata, which may be the reason for the size."""
        value = {**SEARCH, "metadata": LARGE_METADATA, "trace_id": "t"}
        outcome = await self.handler(ScriptedStages(), rag_search_result=3000).handle(record(value))
        found = body(outcome)
        assert (outcome.topic, found["error_code"], found["error_type"]) == (
            "rag_failed",
            "internal",
            "non_recoverable",
        )
        assert found["details"] == {"field": "message", "reason": "outcome_too_large"}
        assert found["trace_id"] == "t"
        assert "metadata" not in found

    async def test_oversized_failure_is_stored(self) -> None:
        """Also when the limit is raised later."""
        store, value = MemoryOutcomeStore(), {**SEARCH, "metadata": LARGE_METADATA}
        small = handler_of(
            ScriptedStages(), store, options=HandlerOptions(max_record_bytes={"rag_search_result": 3000})
        )
        outcome = await small.handle(record(value))
        assert await handler_of(ScriptedStages(), store).handle(record(value)) == outcome

    async def test_oversized_failure_keeps_its_code(self) -> None:
        """Without the metadata."""
        outcome = await self.handler(ScriptedStages(), rag_failed=3000).handle(
            record({"request_id": "a", "metadata": LARGE_METADATA})
        )
        assert body(outcome)["details"] == {"field": "query", "reason": "empty_or_missing"}
        assert "metadata" not in body(outcome)

    async def test_oversized_record_drops_trace_id_headers_and_key(self) -> None:
        """An outcome is always written."""
        value = {"request_id": "a", "trace_id": "t" * 5000}
        handler = self.handler(ScriptedStages(), rag_failed=3000)
        assert body(await handler.handle(record(value))).keys().isdisjoint({"trace_id", "metadata"})

        def large(size: int) -> IncomingRecord:
            headers = (("h", b"x" * 4000),)
            return replace(record({"request_id": f"{size}"}), headers=headers, key=b"k" * size)

        outcome = await handler.handle(large(10))
        assert (outcome.headers, outcome.key) == ((), b"k" * 10)
        outcome = await handler.handle(large(4000))
        assert (outcome.headers, outcome.key) == ((), None)
        assert body(outcome)["request_id"] == "4000"

    async def test_fitting_result_is_unchanged(self) -> None:
        """The default limit equals the brokers' default."""
        value = {**SEARCH, "metadata": {"padding": "x" * 998_000}}
        assert (await handler_of(ScriptedStages()).handle(record(value))).topic == "rag_search_result"

    def test_replacement_of_a_refused_outcome(self) -> None:
        """The replacement is deterministic, and contains what is known of the request."""
        handler = handler_of(ScriptedStages())
        value = {**SEARCH, "trace_id": "t", "metadata": {"a": 1}}
        outcome = handler.replace_oversized(record(value))
        assert outcome == handler.replace_oversized(record(value))
        found = body(outcome)
        assert (outcome.topic, outcome.key, outcome.headers) == ("rag_failed", KEY, HEADERS)
        assert (found["request_id"], found["trace_id"]) == ("search-001", "t")
        assert found["details"]["reason"] == "outcome_too_large"
        assert "metadata" not in found

    def test_replacement_of_a_refused_outcome_is_small(self) -> None:
        """Whatever its request contains."""
        large = replace(
            record({**SEARCH, "trace_id": "t" * 70_000}), headers=(("h", b"x" * 70_000),), key=b"k" * 70_000
        )
        outcome = handler_of(ScriptedStages()).replace_oversized(large)
        assert len(outcome.value) < 1000
        assert (outcome.headers, outcome.key) == ((), None)


class Calls:
    """Fails for the given number of calls."""

    def __init__(self, fails: int, error: Callable[[], AppException] = VectorStoreError) -> None:
        self.count, self._fails, self._error = 0, fails, error

    async def __call__(self) -> int:
        self.count += 1
        if self.count <= self._fails:
            raise self._error()
        return self.count


@for_each("fails", range(len(RETRY_WAITS_S) + 1))
async def test_retries_use_the_waits(fails: int) -> None:
    """With some jitter."""
    waits = FakeSleep()
    assert await retry_until_deadline(Calls(fails), 100.0, waits) == fails + 1
    assert len(waits) == fails
    assert all(
        usual * (1 - RETRY_JITTER) <= wait <= usual * (1 + RETRY_JITTER)
        for wait, usual in zip(waits, RETRY_WAITS_S, strict=False)
    )


async def test_retries_end() -> None:
    """With the last error."""
    calls = Calls(100)
    with pytest.raises(VectorStoreError):
        await retry_until_deadline(calls, 100.0, FakeSleep())
    assert calls.count == len(RETRY_WAITS_S) + 1


async def test_unrecoverable_error_is_not_retried() -> None:
    """Nobody waits for a setting."""
    calls, waits = Calls(1, VectorStoreConfigError), FakeSleep()
    with pytest.raises(VectorStoreConfigError):
        await retry_until_deadline(calls, 100.0, waits)
    assert (calls.count, waits) == (1, [])


async def test_retry_after_is_respected() -> None:
    """And one beyond the deadline ends the retries."""
    waits = FakeSleep()
    assert await retry_until_deadline(Calls(1, lambda: LLMBlockedError(retry_after_s=30.0)), 100.0, waits) == 2
    assert waits == [30.0]
    with pytest.raises(LLMBlockedError):
        await retry_until_deadline(Calls(1, lambda: LLMBlockedError(retry_after_s=101.0)), 100.0, waits)
    assert len(waits) == 1


async def test_wait_beyond_the_deadline_ends_the_retries() -> None:
    """With the cause rather than a timeout."""
    waits = FakeSleep()
    with pytest.raises(VectorStoreError):
        await retry_until_deadline(Calls(1), RETRY_WAITS_S[0] * (1 - RETRY_JITTER) / 2, waits)
    assert waits == []


@in_virtual_time
async def test_hanging_call_is_cancelled_at_the_deadline() -> None:
    """The call is cancelled exactly at the deadline, and no other call follows."""
    time = asyncio.get_running_loop().time
    began: list[float] = []
    ended: list[float] = []

    async def hang() -> None:
        began.append(time())
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(time())

    with pytest.raises(TimeoutError):
        await retry_until_deadline(hang, 0.5, FakeSleep())
    assert len(began) == len(ended) == 1
    assert ended[0] - began[0] == pytest.approx(0.5)
